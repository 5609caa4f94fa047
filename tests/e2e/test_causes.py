"""Causes of real failures on real processes: `penstock why` names the right one first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from typing import NamedTuple, Protocol

import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from structlog.testing import capture_logs

from penstock.control.process import wait_until
from penstock.local.stack import LocalStack
from penstock.local.topics import create_topics
from penstock.model.alerts import AlertKind
from penstock.model.causes import CauseKind
from penstock.model.states import Health
from penstock.store.address import libpq_url
from penstock.wire.causes import Causes, CauseView
from tests.support.chaos.stack import ChaosStack
from tests.support.cli.shell import Shell
from tests.support.scaling.pace import Pace
from tests.support.scaling.slow import ROWS_PER_SECOND, HotJob, LargeRowJob, LimitedJob, SlowJob, publish
from tests.support.spark.session import unique
from tests.support.stack.ailing import TIMED, ailing
from tests.support.stack.feeding import feeding
from tests.support.stack.rows import ARRIVE_S, KEY_GROUPS, RowJob

FOUND_S = 60.0
LONG_S = 180.0
"""For what has to last before anything is known of it."""
NOTHING_FITS = "never"
SLOWLY_S = 0.3
SLO_S = 15.0
BAD_OPTION = "NoSuchFlag"


class Named(Protocol):
    """A job."""

    name: str


Wrong = Callable[[ChaosStack, RowJob], AbstractContextManager[Named]]
"""Makes something wrong until the end of the block, of which the job is told. Gets the job that all tests share."""


@contextmanager
def crashing_query(stack: ChaosStack, _: RowJob) -> Iterator[RowJob]:
    """A query that divides by zero, since the job was created."""
    with ailing(stack, query={"sql": "SELECT id DIV (id - id) AS id FROM rows"}) as job:
        job.send(8)
        yield job


@contextmanager
def malformed_record(stack: ChaosStack, _: RowJob) -> Iterator[RowJob]:
    """A record that is no JSON, and a job that takes none of these."""
    with ailing(stack, source={"malformed": "fail"}) as job:
        job.send_text("no JSON")
        yield job


@contextmanager
def no_topic(stack: ChaosStack, _: RowJob) -> Iterator[RowJob]:
    """The topic of the input was never created."""
    with ailing(stack, topic=False) as job:
        yield job


@contextmanager
def denied_output(stack: ChaosStack, _: RowJob) -> Iterator[RowJob]:
    """Rows flowed; then the user of the tasks lost the right to write the table."""
    with ailing(stack) as job:
        job.send_and_wait(8)
        _execute(stack, f"REVOKE ALL ON {job.name} FROM CURRENT_USER")
        job.send(8)
        yield job


@contextmanager
def refused_rows(stack: ChaosStack, _: RowJob) -> Iterator[RowJob]:
    """Rows flowed; then the table of the output refuses all of them."""
    with ailing(stack) as job:
        job.send_and_wait(8)
        _execute(stack, f"ALTER TABLE {job.name} ADD CONSTRAINT {NOTHING_FITS} CHECK (false) NOT VALID")
        job.send(8)
        yield job


@contextmanager
def stopped(stack: ChaosStack, _: RowJob) -> Iterator[RowJob]:
    """Somebody on call stopped the job."""
    with ailing(stack) as job:
        job.wait_converged()
        job.override({"desired_state": "stopped"})
        yield job


@contextmanager
def nowhere(stack: ChaosStack, _: RowJob) -> Iterator[RowJob]:
    """No container has the label that the job asks for."""
    with ailing(stack, container_labels={"name": "nowhere"}) as job:
        yield job


@contextmanager
def dead_container(stack: ChaosStack, rows: RowJob) -> Iterator[RowJob]:
    """A container of the job dies and stays away."""
    rows.send_and_wait()
    name = rows.containers().pop()
    with _down(stack, name):
        yield rows


@contextmanager
def dead_task_service(stack: ChaosStack, rows: RowJob) -> Iterator[RowJob]:
    """Nobody takes reports of tasks."""
    with _down(stack, "task_service"):
        yield rows


@contextmanager
def dead_syncer(stack: ChaosStack, rows: RowJob) -> Iterator[RowJob]:
    """Somebody changed the job, and nobody carries it out."""
    with _down(stack, "state_syncer"):
        rows.change()
        yield rows


@contextmanager
def stopped_producer(stack: ChaosStack, _: RowJob) -> Iterator[RowJob]:
    """Two jobs write the input. One was stopped, and the watermark waits for it."""
    counted = "SELECT count(*) AS id FROM rows GROUP BY window(at, '1 second')"
    with ailing(stack, source=TIMED, query={"sql": counted}) as job:
        output = {"type": "kafka", "topic": job.name, "key_groups": KEY_GROUPS}
        shape = {"source": TIMED, "query": {"sql": "SELECT id, at FROM rows"}, "output": output}
        with (
            ailing(stack, **shape) as stays,
            ailing(stack, **shape) as goes,
            feeding(stays.name, stays.send_now, SLOWLY_S),
            feeding(goes.name, goes.send_now, SLOWLY_S),
        ):
            wait_until(lambda: bool(job.counts()), ARRIVE_S, f"a window of {job.name}")
            goes.override({"desired_state": "stopped"})
            yield job


@contextmanager
def late_row(stack: ChaosStack, _: RowJob) -> Iterator[RowJob]:
    """Windows were written; then a producer sends a row of long ago."""
    counted = "SELECT count(*) AS id FROM rows GROUP BY window(at, '1 second')"
    with (
        ailing(stack, source=TIMED, query={"sql": counted}) as job,
        feeding(job.name, job.send_now, SLOWLY_S),
    ):
        wait_until(lambda: bool(job.counts()), ARRIVE_S, f"a window of {job.name}")
        job.send_text('{"id": 1, "at": "2026-01-01T00:00:00Z"}')
        yield job


@contextmanager
def deleted_topic(stack: ChaosStack, _: RowJob) -> Iterator[RowJob]:
    """Rows flowed; then somebody deleted the topic of the input."""
    with ailing(stack) as job:
        job.send_and_wait(8)
        admin = AdminClient({"bootstrap.servers": stack.plan.kafka_bootstrap})
        admin.delete_topics([job.name])[job.name].result(30)
        yield job


@contextmanager
def out_of_memory(stack: ChaosStack, _: RowJob) -> Iterator[LargeRowJob]:
    """A row needs more memory than the task has, and somebody on call has pinned that."""
    job = LargeRowJob(stack, unique("large").replace("-", "_"))
    job.begin()
    try:
        job.override({"resources": {"memory_bytes": 400 * 2**20}})
        job.wait_converged()
        job.send_large(300)
        yield job
    finally:
        job.delete()


@contextmanager
def hot_key_group(stack: ChaosStack, _: RowJob) -> Iterator[HotJob]:
    """Nine of ten rows are for one of two tasks, which cannot keep up."""
    job = HotJob(stack, unique("hot"), SLO_S)
    with _flowing(job, stack, task_count=2):
        yield job


@contextmanager
def at_its_limit(stack: ChaosStack, _: RowJob) -> Iterator[LimitedJob]:
    """Twice as much comes in as the one task does that the job may have."""
    job = LimitedJob(stack, unique("limited"), SLO_S)
    with _flowing(job, stack, task_count=1):
        yield job


@contextmanager
def no_host(stack: ChaosStack, _: RowJob) -> Iterator[RowJob]:
    """Rows flowed; then the job gets a host of its own, and Java refuses an option that it finds on the machine."""
    with ailing(stack) as job:
        job.send_and_wait(8)
        with stack.orders.hosts_find(JAVA_TOOL_OPTIONS=f"-XX:+{BAD_OPTION}"):
            job.override({"isolation": "process"})
            yield job


class Injected(NamedTuple):
    """What is made wrong, the cause that is to be the first, within how many seconds, and what its evidence says."""

    wrong: Wrong
    kind: CauseKind
    seconds: float = FOUND_S
    says: str = ""


INJECTED = [
    Injected(crashing_query, CauseKind.BAD_CODE),
    Injected(malformed_record, CauseKind.MALFORMED_INPUT),
    Injected(no_topic, CauseKind.INPUT_ERROR),
    Injected(denied_output, CauseKind.OUTPUT_ERROR),
    Injected(refused_rows, CauseKind.OUTPUT_ERROR, says=NOTHING_FITS),
    Injected(stopped, CauseKind.HELD_BY_LAYER),
    Injected(nowhere, CauseKind.NO_ROOM),
    Injected(dead_container, CauseKind.BAD_CONTAINER),
    Injected(dead_task_service, CauseKind.PROCESS_DOWN),
    Injected(dead_syncer, CauseKind.PROCESS_DOWN),
    Injected(stopped_producer, CauseKind.UPSTREAM, LONG_S),
    Injected(late_row, CauseKind.LATE_ROWS, says="late row was dropped"),
    Injected(deleted_topic, CauseKind.INPUT_ERROR, says="there is no topic"),
    Injected(out_of_memory, CauseKind.OUT_OF_MEMORY, LONG_S),
    Injected(hot_key_group, CauseKind.HOT_KEY_GROUP, LONG_S, "times the mean"),
    Injected(at_its_limit, CauseKind.AT_LIMIT, LONG_S),
    Injected(no_host, CauseKind.HOST_ENDED, says=BAD_OPTION),
]


@pytest.fixture
def shell(stack: ChaosStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """The CLI finds the stack. The working folder stays: a process that is started again inherits it, and no JVM starts
    in a folder that is gone."""
    monkeypatch.setenv("PENSTOCK_DATA_DIR", str(stack.data_dir))
    for name in ("URL", "TOKEN", "KAFKA_BOOTSTRAP"):
        monkeypatch.delenv(f"PENSTOCK_{name}", raising=False)
    return Shell(monkeypatch, capsys)


@pytest.mark.long
@pytest.mark.parametrize("injected", INJECTED, ids=[each.wrong.__name__ for each in INJECTED])
def test_an_injected_cause_is_the_first(stack: ChaosStack, rows: RowJob, shell: Shell, injected: Injected) -> None:
    """1. Something is made wrong. 2. `penstock why` names it first, with evidence. 3. It is mended, or its job goes.
    Rows of another job flow, and each is there once."""
    with injected.wrong(stack, rows) as job:
        _first(shell, job, injected.kind, injected.seconds, injected.says)
    rows.send_and_wait()
    rows.assert_exact()


@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "kind", "task", "says"),
    [
        (stopped_producer, AlertKind.HELD_BACK, "/0", "stay in its state, without a limit"),
        (late_row, AlertKind.LATE_ROWS, "", "1 late row was dropped in 5 minutes"),
    ],
    ids=["held_back", "late_rows"],
)
def test_event_time_that_goes_wrong_is_an_alert(
    stack: ChaosStack, rows: RowJob, wrong: Wrong, kind: AlertKind, task: str, says: str
) -> None:
    """What a real reader reports of its producers and its late rows is told to people."""
    with wrong(stack, rows) as job, stack.client() as client:

        def told() -> bool:
            alerts = client.alerts(subject=f"{job.name}{task}").alerts
            return any(alert.kind == kind and says in alert.message for alert in alerts)

        wait_until(told, LONG_S, f"the alert {kind}", poll_s=0.5)


@pytest.mark.long
def test_a_topic_that_was_deleted_is_an_alert(stack: ChaosStack, rows: RowJob) -> None:
    """1. It is open, and the job is not healthy. 2. The topic is made again, and is another one: the alert stays, and
    says that."""
    with deleted_topic(stack, rows) as job, stack.client() as client:

        def told() -> list[str]:
            open_ones = client.alerts(subject=job.name).alerts
            return [alert.message for alert in open_ones if alert.kind == AlertKind.INPUT_UNREADABLE]

        wait_until(lambda: any("there is no topic" in message for message in told()), LONG_S, "the alert", poll_s=0.5)
        assert client.causes(job.name).health not in (Health.HEALTHY, Health.UNKNOWN)
        create_topics(stack.plan.kafka_bootstrap, {job.name: KEY_GROUPS})
        wait_until(lambda: any("made again" in message for message in told()), LONG_S, "the new topic", poll_s=0.5)


@pytest.mark.long
def test_why_a_job_crashes(stack: ChaosStack, shell: Shell) -> None:
    """1. Rows flow, and there is no cause. 2. Somebody overrides the query by one that divides by zero: the change is
    the cause, and names the layer, the field and the error. 3. The layer is dropped: every row is there once. The job
    is its own: a change is not accused of crashes where tasks crashed in the half hour before, too."""
    with ailing(stack) as job, stack.client() as client:
        job.send_and_wait(8)
        wait_until(lambda: client.causes(job.name).health == Health.HEALTHY, FOUND_S, f"{job.name} to be healthy")
        assert client.causes(job.name).causes == []
        job.override({"query": {"sql": "SELECT id DIV (id - id) AS id FROM rows"}})
        job.wait_converged()  # or the old query could read the rows
        job.send(8)
        first = _first(shell, job, CauseKind.RECENT_CHANGE)
        assert "the layer oncall" in first.summary
        assert "query.sql" in first.evidence[0]
        further = client.causes(job.name).causes[1:]
        assert any("DIVIDE_BY_ZERO" in told for cause in further for told in cause.evidence)
        client.drop_layer(job.name, "oncall", if_match=client.get_layer(job.name, "oncall").version)
        job.send_and_wait(8)
        job.assert_exact()


@pytest.mark.long
def test_a_query_that_nobody_checked_replaces_none_that_runs(stack: ChaosStack, shell: Shell) -> None:
    """1. Rows flow. 2. A write misspells a column, and no host is asked. 3. The State Syncer has one asked before the
    tasks get it: the change fails, `penstock why` names the column, and rows flow as before. 4. It is taken back."""
    with ailing(stack) as job, stack.client() as client:
        job.send_and_wait(8)
        written = job.override({"query": {"sql": "SELECT idd AS id FROM rows"}}, verify=False)
        assert (written.verified, written.why) == (False, "verify=false was asked for")
        _first(shell, job, CauseKind.CHANGE_FAILED, says="idd")
        job.send_and_wait(8)
        client.drop_layer(job.name, "oncall", if_match=client.get_layer(job.name, "oncall").version)
        job.wait_converged()
        job.send_and_wait(8)
        job.assert_exact()


def _first(shell: Shell, job: Named, kind: CauseKind, seconds: float = FOUND_S, says: str = "") -> CauseView:
    """The first cause, once it is one of the kind, with evidence that says this."""
    seen: list[Causes] = []

    def is_first() -> bool:
        with capture_logs():
            said = shell("why", job.name, "--json").ok()
        # The stack tells of processes that end on the same stream.
        seen.append(Causes.model_validate_json(said[said.index("{\n") :]))
        first = next(iter(seen[-1].causes), None)
        return first is not None and first.kind == kind and any(says in told for told in first.evidence)

    try:
        wait_until(is_first, seconds, f"{kind} to be the first cause")
    except TimeoutError as error:
        raise AssertionError(f"{kind} is not the first of {seen[-1]}; before: {_told(seen)}") from error
    return seen[-1].causes[0]


def _told(seen: Sequence[Causes]) -> str:
    """The health and the first cause, each time when one of them was new."""
    told = (f"{each.health}, {_kind(each)}" for each in seen)
    return "; ".join(words for words, _ in groupby(told))


def _kind(found: Causes) -> str:
    return f"{found.causes[0].kind} ({found.causes[0].certainty})" if found.causes else "no cause"


@contextmanager
def _flowing(job: SlowJob, stack: ChaosStack, *, task_count: int) -> Iterator[None]:
    """The job runs, and twice as many rows come as one task does, until the end of the block."""
    publish(stack)
    job.create(task_count, 1.0)
    try:
        with Pace(job.put, 2 * ROWS_PER_SECOND).flowing(job.name):
            yield
    finally:
        job.delete()


@contextmanager
def _down(stack: ChaosStack, name: str) -> Iterator[None]:
    """A process is killed, and stays away until the end of the block."""
    stack.supervisor.take_down(name)
    try:
        yield
    finally:
        stack.supervisor.bring_up(name)
        stack.supervisor.wait_ready(name)


def _execute(stack: LocalStack, statement: str) -> None:
    with psycopg.connect(libpq_url(stack.plan.connections["demo"]), autocommit=True) as connection:
        connection.execute(statement.encode())
