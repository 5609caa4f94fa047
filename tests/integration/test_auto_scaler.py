"""The Auto Scaler on a real Postgres and a real Job Service."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from penstock.control.errors import Conflict, Fenced, InvalidConfig, Unavailable, VersionConflict
from services.auto_scaler.decide.decision import replay
from services.auto_scaler.decide.policy import Mode, Policy
from services.auto_scaler.evidence import Past
from services.auto_scaler.loop import AutoScaler
from services.auto_scaler.store.port import ScalingStore
from tests.support.job_service.service import job_service
from tests.support.scaled_cell import ScaledCell
from tests.support.store.jobs import make_layer, write_layer


class CountingStore(ScalingStore):
    """Counts how often the past of a job was read."""

    past_reads = 0

    def past(self, *given: Any, **named: Any) -> Past:
        self.past_reads += 1
        return super().past(*given, **named)


@pytest.fixture
def cell(engine: Engine) -> ScaledCell:
    return ScaledCell(engine)


def test_a_lagging_job_gets_more_tasks_by_compare_and_swap(cell: ScaledCell) -> None:
    """1. Two tasks lag 200 s together. 2. The scaler's layer is patched at its version, 0. 3. The decision is there
    with its inputs, and can be replayed. 4. The next round gives it time."""
    cell.run_job()
    cell.measure(0, backlog=20_000)
    cell.measure(1, backlog=20_000)
    cell.scale()
    ((job, change, version, key),) = cell.writer.asked
    assert (job, change, version) == ("j", {"task_count": 4}, 0)
    (row,) = cell.decided()
    assert (row["symptom"], row["action"], row["outcome"], row["change"]) == (
        "lag",
        "increase_tasks",
        "written",
        change,
    )
    assert (row["at"], row["leader_epoch"], key) == (cell.now, cell.scaler_epoch, f"scaling-decision-{row['id']}")
    assert row["inputs"]["symptoms"]["time_lagged_seconds"] == 200.0
    assert replay(row["inputs"]).change == change
    cell.now += timedelta(minutes=1)
    cell.measure(0, backlog=30_000)
    cell.measure(1, backlog=30_000)
    cell.scale()
    assert len(cell.writer.asked) == 1
    assert cell.decisions()[1:] == [("lag", "none", "nothing to do")]


def test_decisions_to_do_nothing_are_stored_only_when_they_change(cell: ScaledCell) -> None:
    cell.run_job()
    for _ in range(3):
        cell.scale()
    assert cell.decisions() == [("unknown", "none", "nothing to do")]
    for _ in range(3):
        cell.now += timedelta(minutes=1)
        cell.measure(0)
        cell.measure(1)
        cell.scale()
    assert cell.decisions() == [("unknown", "none", "nothing to do"), ("none", "none", "nothing to do")]


def test_uneven_input_is_dealt_anew_once_and_then_the_job_grows(cell: ScaledCell) -> None:
    """1. Of 100 rows/s most come into the first key groups, and the first task lags. 2. The scaler writes other ranges
    as its own decision. 3. They were no cure, so they are not dealt once more, and the job grows."""
    cell.run_job()
    cell.report_traffic(0, (60.0, 20.0, 10.0, 5.0, 2.0, 1.0, 1.0, 1.0))
    cell.measure(0, backlog=20_000, input_rows_per_second=95.0)
    cell.measure(1, input_rows_per_second=5.0)
    cell.scale()
    ((job, change, version, key),) = cell.writer.asked
    (row,) = cell.decided()
    assert (job, change, version, key) == ("j", {"key_group_bounds": [1]}, 0, f"scaling-decision-{row['id']}")
    assert (row["symptom"], row["action"], row["outcome"], row["change"]) == ("lag", "rebalance", "written", change)
    assert replay(row["inputs"]).change == change
    cell.report_traffic(0, (1.0, 1.0, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0), seconds=1200)
    cell.run_tasks(2, backlog=20_000)
    (_, last) = cell.decided()
    assert (last["action"], last["change"]) == ("increase_tasks", {"task_count": 4})
    assert "and that was not enough" in last["inputs"]["reason"]


def test_a_task_that_is_slow_where_it_runs_moves_once(cell: ScaledCell) -> None:
    """1. Of two tasks with as much input one does a tenth. 2. Its container is left. 3. It is slow still: an alert."""
    cell.run_job()
    for _ in range(2):
        cell.report_traffic(0, (10.0001,) * 4)
        cell.report_traffic(1, (10.0,) * 4, first=4, container="b")
        cell.measure(0)
        cell.measure(1, backlog=20_000, processed_rows_per_second=10.0)
        cell.scale()
        cell.now += timedelta(minutes=10)
    assert cell.writer.moved == [("j", 1, "b")]
    assert cell.decisions() == [("lag", "move_task", "written"), ("lag", "none", "nothing to do")]
    asked = cell.decided()[0]["inputs"]
    assert replay(asked).change == {"index": 1, "container": "b"}
    assert asked["state"]["traffic"] == [10.0] * 8
    assert cell.alerts() == [("lag_untriaged", "j", 1)]


def test_a_move_that_is_refused_keeps_no_job_from_growing(cell: ScaledCell) -> None:
    """1. The move of a slow task is refused. 2. The job grows."""
    cell.writer.error = Conflict("no other container", field="container", rule="elsewhere")
    slow_task(cell, 1, {0: "a", 1: "b"})
    cell.writer.error = None
    slow_task(cell, 1, {0: "a", 1: "b"})
    assert cell.decisions() == [
        ("lag", "move_task", "refused: no other container"),
        ("lag", "increase_tasks", "written"),
    ]


def test_a_move_that_nobody_answered_and_those_of_other_tasks_count(cell: ScaledCell) -> None:
    """1. The Job Service may have moved the task before its answer was lost. 2. In the next minute nothing is done.
    3. Another task is slow, and moves. 4. The first one is slow again: it has moved on this day."""
    cell.writer.error = Unavailable("down")
    slow_task(cell, 1, {0: "a", 1: "b"}, minutes=1)
    cell.writer.error = None
    slow_task(cell, 1, {0: "a", 1: "b"})
    assert [action for _, action, _ in cell.decisions()] == ["move_task", "none"]
    slow_task(cell, 0, {0: "a", 1: "b"})
    slow_task(cell, 1, {0: "a", 1: "b"})
    assert cell.writer.moved == [("j", 1, "b"), ("j", 0, "a")]
    assert cell.alerts() == [("lag_untriaged", "j", 1)]


def slow_task(cell: ScaledCell, slow: int, places: dict[int, str], *, minutes: int = 10) -> None:
    """One of two tasks, in these containers, does a tenth; a round follows, and so many minutes."""
    if not cell.rows("SELECT 1 AS one FROM running"):
        cell.run_job()
    for index, container in places.items():
        cell.report_traffic(index, (10.0,) * 4, first=4 * index, container=container)
        late = {"backlog": 20_000, "processed_rows_per_second": 10.0} if index == slow else {}
        cell.measure(index, **late)
    cell.scale()
    cell.now += timedelta(minutes=minutes)


def test_lack_of_memory_within_ten_minutes_raises_memory(cell: ScaledCell) -> None:
    cell.run_job()
    cell.measure(0, minutes_ago=8, out_of_memory=True)
    cell.measure(0, minutes_ago=1)
    cell.measure(1, minutes_ago=12, out_of_memory=True)
    cell.scale()
    assert [asked[1] for asked in cell.writer.asked] == [{"resources": {"memory_bytes": 600 * 2**20}}]


def test_measurements_from_before_the_last_commit_or_long_ago_are_unknown(cell: ScaledCell) -> None:
    cell.run_job()
    cell.measure(0, backlog=90_000, minutes_ago=4)
    cell.measure(1, backlog=90_000)
    cell.scale()
    cell.do("UPDATE running SET committed_at = :at", at=cell.now)
    cell.measure(0, backlog=90_000, minutes_ago=0)
    cell.scale()
    assert cell.decisions() == [("unknown", "none", "nothing to do")]


OUTCOMES = {
    "conflict": (VersionConflict("moved on", current_version=3), "conflict"),
    "refused": (InvalidConfig("no such thing", field="task_count"), "refused: no such thing"),
    "unavailable": (Unavailable("down"), "job service unavailable"),
}


@pytest.mark.parametrize(("error", "outcome"), OUTCOMES.values(), ids=OUTCOMES.keys())
def test_what_became_of_a_change_is_noted(cell: ScaledCell, error: Exception, outcome: str) -> None:
    cell.run_job()
    cell.measure(0, backlog=90_000)
    cell.measure(1, backlog=90_000)
    cell.writer.error = error
    cell.scale()
    assert cell.decisions() == [("lag", "increase_tasks", outcome)]
    cell.writer.error = None
    cell.scale()
    again = [] if outcome.startswith("refused") else [("lag", "increase_tasks", "written")]
    assert [row for row in cell.decisions()[1:] if row[1] != "none"] == again


def test_after_a_quiet_day_what_was_added_is_given_back(cell: ScaledCell) -> None:
    """1. The scaler had doubled the tasks. 2. A whole day was measured without lag. 3. It takes a quarter away, and
    more, as far as no task gets more key groups by that."""
    write_layer(cell.engine, "j", {"task_count": 8}, layer="scaler")
    cell.run_job()
    cell.do("UPDATE running SET committed_at = :at", at=cell.now - timedelta(days=2))
    cell.do("UPDATE jobs SET created_at = :at", at=cell.now - timedelta(days=2))
    cell.do(
        """
        INSERT INTO task_metrics (job, index, minute, processed_rows_per_second, backlog_records, lag_seconds)
        SELECT 'j', index, minute, 100, 0, 0 FROM generate_series(0, 7) index,
            generate_series(CAST(:first AS timestamptz), CAST(:last AS timestamptz), interval '1 minute') minute
        """,
        first=cell.now - timedelta(days=1),
        last=cell.now,
    )
    cell.do(
        "UPDATE task_metrics SET lag_seconds = 91 WHERE index = 3 AND minute < :at", at=cell.now - timedelta(hours=23)
    )
    cell.scale()
    assert cell.writer.asked == []
    cell.do("UPDATE task_metrics SET lag_seconds = 90")
    cell.scale()
    ((_, change, version, _),) = cell.writer.asked
    assert (change, version) == ({"task_count": 4}, 1)


def test_lag_is_answered_by_the_estimate_of_the_minutes_before(cell: ScaledCell) -> None:
    """1. Each of two tasks does 100 rows/s and reads as many. 2. 60 rows/s more come in than they read. 3. 260 rows/s
    and a fifth more need four tasks, and the reason says so."""
    cell.run_job(inputs={"events": {"key_groups": 64}})
    cell.do("UPDATE running SET committed_at = :at", at=cell.now - timedelta(hours=1))
    for minutes_ago in range(1, 6):
        for index in range(2):
            backlog = 20_000 - 1800 * minutes_ago
            cell.measure(index, minutes_ago=minutes_ago, backlog=backlog, input_rows_per_second=100.0)
    cell.scale()
    (row,) = cell.decided()
    assert row["change"] == {"task_count": 4}
    assert row["inputs"]["state"]["rate"]["busy_minutes"] == 10
    assert row["inputs"]["state"]["load"]["rows_per_second"] == 260.0
    assert "260 rows/s come in" in row["inputs"]["reason"]
    assert row["inputs"]["why"][1].startswith("What comes in: 260 rows/s.")


@pytest.mark.parametrize(
    ("batches", "changed", "of_profile", "tasks"),
    [(9, {}, True, 22), (4, {}, False, 4), (9, {"threads_per_task": 8}, False, 4)],
    ids=["enough batches", "too few", "of another configuration"],
)
def test_until_tasks_were_busy_a_profile_of_the_same_query_is_the_estimate(
    cell: ScaledCell, batches: int, changed: dict[str, Any], of_profile: bool, tasks: int
) -> None:
    """1. Two tasks do 100 rows/s each, and 800 come in. The busy minutes are too few for an estimate. 2. With a profile
    it gets what that and the backlog need of tasks that do 100 now; without one there will be twice as many."""
    cell.run_job(inputs={"events": {"key_groups": 64}})
    cell.do("UPDATE running SET committed_at = :at", at=cell.now - timedelta(hours=1))
    for minutes_ago in (1, 2):
        for index in range(2):
            backlog = 90_000 - 36_000 * minutes_ago
            cell.measure(index, minutes_ago=minutes_ago, backlog=backlog, input_rows_per_second=100.0)
    cell.profile(batches=batches, low_rows_per_second=150.0, **changed)
    cell.scale()
    (row,) = cell.decided()
    assert (row["change"], row["inputs"]["state"]["rate"]["of_profile"]) == ({"task_count": tasks}, of_profile)
    assert ("by a profile" in " ".join(row["inputs"]["why"])) is of_profile


def test_growth_that_did_not_help_is_taken_back_and_people_are_asked(cell: ScaledCell) -> None:
    """1. Two tasks lag and become four. 2. Four get through no more. 3. Back to two, with an alert. 4. Nothing grows
    while the lag stays. 5. Without lag the alert is cleared."""
    cell.run_job()
    cell.measure(0, backlog=20_000)
    cell.measure(1, backlog=20_000)
    cell.scale()
    cell.run_tasks(4, processed_rows_per_second=40.0, backlog=20_000)
    assert cell.decisions()[-1] == ("lag", "undo", "written")
    assert cell.alerts() == [("lag_untriaged", "j", 1)]
    cell.run_tasks(2, processed_rows_per_second=100.0, backlog=20_000)
    assert cell.decisions()[-1] == ("lag", "none", "nothing to do")
    assert [asked[1] for asked in cell.writer.asked] == [{"task_count": 4}, {"task_count": 2}]
    assert cell.alerts() == [("lag_untriaged", "j", 1)]
    cell.run_tasks(2, processed_rows_per_second=100.0, backlog=0)
    assert cell.alerts() == []


def test_far_more_input_ends_the_stop_after_an_undo(cell: ScaledCell) -> None:
    """1. Growth is taken back while 200 rows/s come in. 2. Nothing grows while as much comes in. 3. At 400 it does."""
    cell.run_job()
    cell.measure(0, backlog=20_000)
    cell.measure(1, backlog=20_000)
    cell.scale()
    cell.run_tasks(4, processed_rows_per_second=40.0, backlog=20_000, input_rows_per_second=50.0)
    cell.run_tasks(2, backlog=20_000, input_rows_per_second=100.0)
    assert [row[1] for row in cell.decisions()] == ["increase_tasks", "undo", "none"]
    cell.run_tasks(2, backlog=20_000, input_rows_per_second=200.0)
    assert cell.decisions()[-1] == ("lag", "increase_tasks", "written")


def test_advice_is_recorded_once_and_changes_nothing(cell: ScaledCell) -> None:
    cell.run_job()
    cell.measure(0, backlog=20_000)
    cell.measure(1, backlog=20_000)
    cell.policy = Policy(mode=Mode.ADVISE)
    cell.scale()
    cell.scale()
    assert cell.decisions() == [("lag", "increase_tasks", "advised")]
    assert cell.decided()[0]["change"] == {"task_count": 4}
    assert cell.writer.asked == []


def test_a_healthy_job_is_due_once_in_ten_minutes(cell: ScaledCell) -> None:
    """Until then its last decision stands, and nothing is read of its past."""
    cell.run_job()
    cell.do("UPDATE running SET committed_at = :at", at=cell.now - timedelta(hours=1))
    store = CountingStore(cell.engine)
    scaler = AutoScaler(store, cell.writer, lambda: cell.now, Policy())  # type: ignore[arg-type]
    for _ in range(11):
        cell.measure(0)
        cell.measure(1)
        scaler.round(cell.scaler_epoch)
        cell.now += timedelta(minutes=1)
    assert store.past_reads == 1
    assert {row[0] for row in cell.decisions()} == {"none"}


def test_jobs_without_tasks_are_left_alone(cell: ScaledCell) -> None:
    cell.run_job(desired_state="stopped")
    cell.scale()
    assert cell.decisions() == []


def test_an_old_leader_records_and_writes_nothing(cell: ScaledCell) -> None:
    cell.run_job()
    cell.measure(0, backlog=90_000)
    cell.measure(1, backlog=90_000)
    cell.do("UPDATE leases SET epoch = epoch + 1 WHERE name = 'auto_scaler'")
    with pytest.raises(Fenced):
        cell.scale()
    assert (cell.writer.asked, cell.decisions()) == ([], [])


def test_a_change_goes_through_the_job_service(cell: ScaledCell, database_url: str) -> None:
    """1. A lagging job's memory of decisions is empty. 2. The scaler's own token writes its layer. 3. The State
    Syncer sees the revision, and the scaler waits for it. 4. Somebody else's write makes the next one a conflict."""
    with job_service(database_url) as service, service.client() as admin:
        token = admin.create_token("scaler", "scaler")
        writer = service.client(token)
        admin.put_job("j", make_layer())
        cell.round()
        cell.measure(0, backlog=90_000)
        cell.measure(1, backlog=90_000)
        cell.scale(writer)
        layer = admin.get_layer("j", "scaler")
        assert (layer.config, layer.version, layer.author) == ({"task_count": 4}, 1, "scaler")
        assert layer.expires_at is None
        cell.now += timedelta(minutes=10)
        cell.measure(0, backlog=90_000)
        cell.measure(1, backlog=90_000)
        cell.scale(writer)
        assert cell.decisions()[-1] == ("lag", "none", "nothing to do"), "the job does not run it yet"
        with pytest.raises(VersionConflict):
            writer.patch_layer("j", "scaler", {"task_count": 5}, if_match=0)
