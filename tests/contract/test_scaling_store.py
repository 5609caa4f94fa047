"""The contract of `ScalingStore`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, text

from penstock.control.errors import Fenced, Unavailable
from penstock.model.alerts import AlertKind
from penstock.store import leases
from penstock.store.engine import transaction
from services.auto_scaler.decide.estimates import TaskMinute
from services.auto_scaler.decide.model import Action, PastChange, Use
from services.auto_scaler.decide.patterns import JobMinute
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.decide.symptoms import TaskSample
from services.auto_scaler.evidence import LastDecision, Past
from services.auto_scaler.store import evidence
from services.auto_scaler.store.decisions import AUTO_SCALER, PENDING, NewDecision
from services.auto_scaler.store.port import ScalingStore
from services.task_service.store.hours import HourStore
from tests.support.store.jobs import write_layer
from tests.support.store.running import commit_job
from tests.support.store.unreachable import unreachable_engine

NOW = datetime.now(UTC).replace(second=30, microsecond=0) + timedelta(hours=1)


class PostgresForm:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.store = ScalingStore(engine)
        self.away = ScalingStore(unreachable_engine())
        with transaction(engine) as connection:
            self.epoch = leases.take(connection, AUTO_SCALER, "test", url="", seconds=600.0)

    def depose(self) -> None:
        self._do("UPDATE leases SET epoch = epoch + 1 WHERE name = 'auto_scaler'")

    def run(self, job: str, **config: Any) -> None:
        write_layer(self.engine, job, {})
        commit_job(self.engine, job, **config)

    def measure(
        self,
        job: str,
        minutes_ago: int,
        *,
        index: int = 0,
        lag_seconds: float | None = None,
        input_rows: float | None = None,
        backlog: int | None = None,
        task_count: int | None = None,
        running: bool | None = True,
        state: tuple[int, int] | None = None,
    ) -> None:
        self._do(
            "INSERT INTO task_metrics (job, index, minute, lag_seconds, processed_rows_per_second,"
            " input_rows_per_second, backlog_records, task_count, running, state_rows, state_memory_bytes)"
            " VALUES (:job, :index, :minute, :lag, 7, :input, :backlog, :task_count, :running, :rows, :bytes)",
            rows=state and state[0],
            bytes=state and state[1],
            running=running,
            task_count=task_count,
            job=job,
            index=index,
            minute=minute(minutes_ago),
            lag=lag_seconds,
            input=input_rows,
            backlog=backlog,
        )

    def roll(self, *, most: int | None = None) -> None:
        """Rolls the hours of the last month that are over, of which so many have samples."""
        self._do("UPDATE rolled SET hour = :hour, job = ''", hour=minute(31 * 24 * 60).replace(minute=0))
        hours = HourStore(self.engine)
        while most != 0 and hours.roll() is not None:
            most = None if most is None else most - 1

    def load(self, job: str, index: int, load: dict[str, float], *, generation: int = 1, minutes_ago: int = 1) -> None:
        self._do(
            "INSERT INTO task_loads (job, index, generation, load, measured_at)"
            " VALUES (:job, :index, :generation, CAST(:load AS jsonb), :measured_at)"
            " ON CONFLICT (job, index) DO UPDATE SET generation = excluded.generation, load = excluded.load,"
            " measured_at = excluded.measured_at",
            generation=generation,
            measured_at=minute(minutes_ago),
            job=job,
            index=index,
            load=json.dumps(load),
        )

    def container(self, name: str, *, disk_bytes: int, state: str, further: dict[str, Any]) -> None:
        self._do(
            "INSERT INTO containers (name, incarnation, url, region, cpu_cores, memory_bytes, disk_bytes,"
            " further_capacity, state)"
            " VALUES (:name, 'i', 'http://c', 'here', 2, 1, :disk_bytes, CAST(:further AS jsonb), :state)",
            name=name,
            disk_bytes=disk_bytes,
            further=json.dumps(further),
            state=state,
        )

    def note_write(self, job: str, layer: str, author: str, *, revision: int = 1) -> None:
        self._do(
            "INSERT INTO history (job, layer, version, revision, action, author)"
            " VALUES (:job, :layer, 1, :revision, 'patch', :author)",
            job=job,
            layer=layer,
            revision=revision,
            author=author,
        )

    def note_reason(self, job: str, layer: str, reason: str) -> None:
        self._do(
            "UPDATE expected_layers SET reason = :reason, version = version + 1 WHERE job = :job AND layer = :layer",
            job=job,
            layer=layer,
            reason=reason,
        )

    def past(self, job: str, *, created_days_ago: float = 60, **policy: Any) -> Past:
        created_at = NOW - timedelta(days=created_days_ago)
        return self.store.past(job, NOW, created_at=created_at, task_count=2, slo_seconds=90.0, policy=Policy(**policy))

    def alerts(self) -> list[str]:
        with transaction(self.engine) as connection:
            found = connection.execute(text("SELECT subject FROM alerts WHERE cleared_at IS NULL ORDER BY subject"))
            return list(found.scalars())

    def outcomes(self) -> list[str]:
        with transaction(self.engine) as connection:
            found = connection.execute(text("SELECT outcome FROM decisions WHERE job = 'j' ORDER BY id"))
            return list(found.scalars())

    def _do(self, sql: str, **values: Any) -> None:
        with transaction(self.engine) as connection:
            connection.execute(text(sql), values)


def minute(ago: int) -> datetime:
    return NOW.replace(second=0) - timedelta(minutes=ago)


@pytest.fixture
def form(engine: Engine) -> PostgresForm:
    return PostgresForm(engine)


def decision(outcome: str) -> NewDecision:
    return NewDecision("j", NOW, "lag", "increase_tasks", {}, {"task_count": 4}, outcome)


def test_jobs_with_tasks_are_read_and_what_was_not_measured_is_unknown(form: PostgresForm) -> None:
    form.run("measured")
    form.run("silent")
    form.run("stopped", desired_state="stopped")
    form.measure("measured", 1, lag_seconds=None)
    form.measure("silent", 30, lag_seconds=None)
    cluster = form.store.read(NOW)
    assert [job.job for job in cluster.jobs] == ["measured", "silent"]
    assert [job.layer_version for job in cluster.jobs] == [0, 0]
    (sample,) = cluster.samples["measured"]
    assert (sample.processed_rows_per_second, sample.input_rows_per_second, sample.backlog_records) == (7.0, None, None)
    assert "silent" not in cluster.samples
    assert cluster.container_memory_bytes is None, "no container is live"


def test_jobs_are_read_a_page_at_a_time(form: PostgresForm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "_PAGE", 2)
    names = ["a", "b", "c", "d", "e"]
    for count in (4, 5):
        for name in names[:count]:
            form.run(name)
        assert [job.job for job in form.store.read(NOW).jobs] == names[:count]


def test_a_sample_has_the_lag_as_it_was_sampled(form: PostgresForm) -> None:
    """It may be the age of a batch that has not finished, of which no rate tells."""
    form.run("fresh")
    form.measure("fresh", 0, lag_seconds=130.0, backlog=7)
    (sample,) = form.store.read(NOW).samples["fresh"]
    assert (sample.backlog_records, sample.lag_seconds) == (7, 130.0)


def test_of_an_old_sample_nothing_is_known_but_the_lack_of_memory(form: PostgresForm) -> None:
    form.run("stale")
    form.measure("stale", 5, lag_seconds=None)
    assert form.store.read(NOW).samples["stale"] == [TaskSample(index=0)]


def test_a_day_counts_only_minutes_with_a_known_lag_as_measured(form: PostgresForm) -> None:
    for minutes_ago, lag_seconds in ((1, 5.0), (2, 5.0), (3, 95.0), (4, None), (5, 5.0), (25 * 60, 95.0)):
        form.measure("j", minutes_ago, lag_seconds=lag_seconds)
    day = form.past("j").day
    assert (day.minutes_measured, day.minutes_lagging, day.minutes_out_of_memory) == (4, 1, 0)
    assert day.minutes_quiet == 2, "since the lag"
    short = form.past("j", quiet_minutes=3, known_quiet_minutes=3).day
    assert (short.minutes_measured, short.minutes_lagging) == (2, 0), "no more than the time that must be quiet"


def test_past_days_are_read_around_this_time_of_day_where_every_task_was_measured(form: PostgresForm) -> None:
    """Two tasks; one of them is missing in a minute, and has no rate in another."""
    form.run("j")
    day = 24 * 60
    around, at_its_end, before, after = 3 * day, 3 * day - 254, 3 * day + 40, 3 * day - 260
    for minutes_ago in (around, at_its_end, before, after, 20 * day):
        form.measure("j", minutes_ago, input_rows=3.0, backlog=2, task_count=2)
        form.measure("j", minutes_ago, index=1, input_rows=4.0, backlog=5, task_count=2)
    form.measure("j", around - 1, index=1, input_rows=4.0, task_count=2)
    form.measure("j", around - 2, input_rows=None, task_count=2)
    form.measure("j", around - 2, index=1, input_rows=4.0, task_count=2)
    form.roll()
    assert form.past("j").minutes == [JobMinute(minute(around), 7.0, 7.0), JobMinute(minute(at_its_end), 7.0, 7.0)]


def test_minutes_that_are_not_rolled_are_known_of_the_last_two_hours_only(form: PostgresForm) -> None:
    """Rolling is weeks behind: the samples of a large job would take longer than a statement may."""
    form.run("j")
    form.roll(most=0)
    for minutes_ago in (1, 24 * 60):
        form.measure("j", minutes_ago, input_rows=3.0, task_count=1)
    assert [one.minute for one in form.past("j").minutes] == [minute(1)]


def test_past_minutes_of_the_release_before_are_unknown(form: PostgresForm) -> None:
    """A task may be missing in them. The hour of one is rolled, that of the other is not."""
    form.run("j")
    for minutes_ago in (24 * 60, 1):
        form.measure("j", minutes_ago, input_rows=3.0, running=None)
    form.measure("j", 2, input_rows=3.0, task_count=1)
    form.roll()
    assert [one.minute for one in form.past("j").minutes] == [minute(2)]


def test_the_recent_minutes_are_those_of_each_task(form: PostgresForm) -> None:
    for minutes_ago in (1, 2, 9):
        form.measure("j", minutes_ago, input_rows=3.0)
    found = form.store.recent("j", NOW - timedelta(minutes=5))
    assert found == [TaskMinute(minute(ago), 0, 3.0, 7.0, None) for ago in (2, 1)]


def test_the_recent_minutes_tell_the_state_of_each_task(form: PostgresForm) -> None:
    form.measure("j", 1, input_rows=3.0, state=(40, 9_000))
    (found,) = form.store.recent("j", NOW - timedelta(minutes=5))
    assert (found.state_rows, found.state_bytes) == (40, 9_000)


def test_the_memory_of_a_job_is_that_of_its_largest_task_once_all_are_known(form: PostgresForm) -> None:
    form.run("j")
    form.load("j", 0, {"memory_bytes": 5})
    form.load("j", 2, {"memory_bytes": 99})
    assert form.past("j").memory_used_bytes is None
    form.load("j", 1, {"memory_bytes": 7})
    assert form.past("j").memory_used_bytes == 7


def test_disk_and_network_are_those_of_the_largest_task_and_of_the_smallest_live_container(form: PostgresForm) -> None:
    """A dimension that a task does not tell is unknown, and so is one that no container offers."""
    form.run("j")
    assert form.past("j").uses == ()
    form.load("j", 0, {"disk_bytes": 5, "network_bytes_per_second": 3})
    form.load("j", 1, {"disk_bytes": 7})
    assert form.past("j").uses == ()
    form.container("large", disk_bytes=900, state="live", further={"network_bytes_per_second": 50, "gpu": "x"})
    form.container("small", disk_bytes=600, state="live", further={})
    form.container("gone", disk_bytes=1, state="lost", further={})
    assert form.past("j").uses == (Use(dimension="disk_bytes", of_task=7, of_container=600),)
    form.load("j", 1, {"disk_bytes": 7, "network_bytes_per_second": 9})
    assert form.past("j").uses[1] == Use(dimension="network_bytes_per_second", of_task=9, of_container=50)


@pytest.mark.parametrize("of_before", [{"minutes_ago": 31}, {"generation": 2}])
def test_the_memory_of_long_ago_or_of_another_generation_is_unknown(form: PostgresForm, of_before: Any) -> None:
    form.run("j")
    form.load("j", 0, {"memory_bytes": 5})
    form.load("j", 1, {"memory_bytes": 7}, **of_before)
    assert form.past("j").memory_used_bytes is None


def test_what_a_former_job_of_the_name_measured_is_not_read(form: PostgresForm) -> None:
    """The job is two days old; minutes before are rolled, and samples of this day count from its creation on."""
    form.run("j")
    day = 24 * 60
    for minutes_ago in (3 * day, day):
        form.measure("j", minutes_ago, input_rows=3.0, lag_seconds=1.0, task_count=1)
    form.roll()
    assert [one.minute for one in form.past("j", created_days_ago=2).minutes] == [minute(day)]
    form.measure("j", 90, lag_seconds=1.0)
    assert form.past("j", created_days_ago=0.5).day.minutes_measured == 1
    assert form.past("j", created_days_ago=0.05).day.minutes_measured == 0
    (job,) = form.store.read(NOW).jobs
    assert job.created_at < NOW


def test_what_was_changed_last_and_who_updated_the_job(form: PostgresForm) -> None:
    """1. A person wrote the job. 2. The scaler raised the tasks, was refused once, and changed the memory."""
    form.run("j")
    form.note_write("j", "base", "ann")
    form.note_write("j", "scaler", "scaler")
    form.note_write("j", "oncall", "bob", revision=10**9)
    (job,) = form.store.read(NOW).jobs
    assert (job.last_change, job.actions_last_hour) == (None, 0)
    before = {
        "config": {"task_count": 2},
        "symptoms": {"time_lagged_seconds": 5.0, "processed_rows_per_second": 7.0},
        "state": {"load": {"rows_per_second": 9.0}},
    }
    grown = decision("written")._replace(inputs=before | {"reason": "lag"})
    old = grown._replace(at=NOW - timedelta(hours=2), change={"task_count": 3})
    memory = grown._replace(action="increase_memory", change={"resources": {"memory_bytes": 9}})
    form.store.record([old, grown, decision("refused: no"), memory], form.epoch)
    (job,) = form.store.read(NOW).jobs
    assert job.update is not None
    assert job.update.author == "ann", "what the scaler wrote is no update, and what does not run yet none that counts"
    assert job.last_change == PastChange(
        at=NOW,
        action=Action.INCREASE_TASKS,
        tasks_before=2,
        tasks_after=4,
        lag_seconds=5.0,
        processed_rows_per_second=7.0,
        input_rows_per_second=9.0,
    )
    assert job.actions_last_hour == 2
    assert job.last == LastDecision("lag", "increase_memory", "written", {"resources": {"memory_bytes": 9}}, "lag")


@pytest.mark.parametrize("outcome", ["pending", "job service unavailable"])
@pytest.mark.parametrize("is_written", [True, False])
def test_what_nobody_answered_counts_as_done_if_the_layer_has_it(
    form: PostgresForm, outcome: str, is_written: bool
) -> None:
    """The answer was lost, or the process died between the write and its outcome."""
    form.run("j")
    inputs = {"config": {"task_count": 2}, "reason": "lag"}
    (number,) = form.store.record([decision(outcome)._replace(inputs=inputs)], form.epoch)
    write_layer(form.engine, "j", {"task_count": 4}, layer="scaler")
    form.note_reason("j", "scaler", f"decision {number + (not is_written)}: x")
    (job,) = form.store.read(NOW).jobs
    assert (job.last_change is not None) == is_written
    assert (job.acted_at == NOW) == (is_written or outcome == "pending")
    assert job.actions_last_hour == (is_written or outcome == "pending")


def test_alerts_are_replaced_but_those_to_keep(form: PostgresForm) -> None:
    found = {(AlertKind.LAG_UNTRIAGED, job): ("why", {"why": ["x"]}) for job in ("a", "b", "c")}
    form.store.replace_alerts(found, (), form.epoch)
    form.store.replace_alerts({(AlertKind.LAG_UNTRIAGED, "a"): ("again", {})}, {"b"}, form.epoch)
    assert form.alerts() == ["a", "b"]


def test_decisions_are_stored_in_order_and_resolved_once(form: PostgresForm) -> None:
    pending, done = form.store.record([decision(PENDING), decision("nothing")], form.epoch)
    assert pending < done
    form.store.record_outcome(pending, "written")
    form.store.record_outcome(pending, "conflict")
    form.store.record_outcome(done, "conflict")
    assert form.outcomes() == ["written", "nothing"]
    assert form.store.record([], form.epoch) == []


def test_an_older_scaler_is_fenced_and_stores_nothing(form: PostgresForm) -> None:
    form.depose()
    for new in ([decision(PENDING)], []):
        with pytest.raises(Fenced):
            form.store.record(new, form.epoch)
    with pytest.raises(Fenced):
        form.store.replace_alerts({(AlertKind.LAG_UNTRIAGED, "j"): ("why", {})}, (), form.epoch)
    assert (form.outcomes(), form.alerts()) == ([], [])


def test_a_store_that_is_away_is_unavailable(form: PostgresForm) -> None:
    calls = (
        lambda: form.away.read(NOW),
        lambda: form.away.recent("j", NOW),
        lambda: form.away.past("j", NOW, created_at=NOW, task_count=2, slo_seconds=90.0, policy=Policy()),
        lambda: form.away.replace_alerts({}, (), form.epoch),
        lambda: form.away.record([decision(PENDING)], form.epoch),
        lambda: form.away.record_outcome(1, "written"),
    )
    for call in calls:
        with pytest.raises(Unavailable):
            call()
