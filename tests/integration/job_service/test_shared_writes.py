"""Writes of several callers in one transaction, over HTTP: each has its own outcome, and nobody waits for another one's
lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import psycopg
import pytest
from sqlalchemy import Connection, event, text

from penstock.control.clock import SystemClock
from penstock.control.errors import Conflict, InvalidConfig, PenstockError, Unavailable, UserError, VersionConflict
from penstock.model.jobs import Action
from penstock.store.engine import transaction
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import Written
from services.job_service import writer
from services.job_service.shared import write_together
from services.job_service.writer import Asked, Outcome
from services.job_service.writes import Precondition, Write
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.store.database import address_of, wait_for_lock_waiters

WRITERS, WRITES_OF_EACH, JOBS = 8, 6, 5
_COUNTER = text("SELECT FROM counters WHERE name = 'revision' FOR UPDATE")
_HISTORY = "SELECT job, version, revision, author, new->'labels'->>'by' AS by, at FROM history WHERE layer = 'oncall'"
_END_OTHERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'
    """


class Said(NamedTuple):
    """What a writer was told. `version` None: refused, or unknown."""

    job: str
    by: str
    version: int | None
    error: PenstockError | None


def make_jobs(client: JobClient, *names: str) -> None:
    for name in names:
        client.put_job(name, {**CONFIG, "output": {"type": "kafka", "topic": f"out-{name}"}})


def written(service: RunningJobService) -> list[Any]:
    with transaction(service.engine) as connection:
        return list(connection.execute(text(_HISTORY)))


def patch(service: RunningJobService, job: str, content: Mapping[str, Any], if_match: int = 0) -> Any:
    with service.client() as client:
        return client.patch_layer(job, "oncall", content, if_match=if_match)


def _write_in_turn(service: RunningJobService, number: int) -> list[Said]:
    """Writes of one caller to all jobs in turn, with the version that it has read or a stale one; some break a rule."""
    said: list[Said] = []
    with service.client() as client:
        for turn in range(WRITES_OF_EACH):
            job, by = f"j{(number + turn) % JOBS}", f"{number}-{turn}"
            content = {"labels": {"by": by}, **({"threads_per_task": 0} if turn % 3 == 2 else {})}
            try:
                read = client.get_layer(job, "oncall").version
                done = client.patch_layer(job, "oncall", content, if_match=read)
            except PenstockError as error:
                said.append(Said(job, by, None, error))
            else:
                said.append(Said(job, by, done.version, None))
    return said


def _all_write(service: RunningJobService) -> list[Said]:
    with ThreadPoolExecutor(WRITERS) as pool:
        told = pool.map(lambda number: _write_in_turn(service, number), range(WRITERS))
        return [each for said in told for each in said]


def test_many_callers_each_have_their_own_outcome(service: RunningJobService, client: JobClient) -> None:
    """Eight callers read and write five jobs at a time: some are late, some break a rule. What was said to be done is
    in the history, once, and nothing else. Some of it was written in one transaction."""
    make_jobs(client, *(f"j{number}" for number in range(JOBS)))
    said, rows = _all_write(service), written(service)
    assert {(each.job, each.by, each.version) for each in said if each.error is None} == {
        (row.job, row.by, row.version) for row in rows
    }
    assert {type(each.error) for each in said if each.error} <= {VersionConflict, InvalidConfig}
    assert any(isinstance(each.error, InvalidConfig) for each in said)
    for job in {row.job for row in rows}:
        versions = [row.version for row in sorted(rows, key=lambda row: row.revision) if row.job == job]
        assert versions == list(range(1, len(versions) + 1))
    assert len({row.revision for row in rows}) == len(rows)
    assert {row.author for row in rows} == {"admin"}
    assert len({row.at for row in rows}) < len(rows)


def test_what_a_caller_was_told_is_true_whatever_connections_break(
    service: RunningJobService, client: JobClient
) -> None:
    """The same while connections to the store are cut all the time: a write that was refused was not done, one that was
    said to be done is there, and only one of which nothing is known may be either."""
    make_jobs(client, *(f"j{number}" for number in range(JOBS)))
    over = threading.Event()

    def cut() -> None:
        with psycopg.connect(address_of(service.engine), autocommit=True) as connection:
            while not over.wait(0.05):
                connection.execute(_END_OTHERS)

    with ThreadPoolExecutor(1) as pool:
        cutting = pool.submit(cut)
        said = _all_write(service)
        over.set()
        cutting.result()
    rows = {(row.job, row.by): row.version for row in written(service)}
    for each in said:
        if each.error is None:
            assert rows[each.job, each.by] == each.version
        elif isinstance(each.error, UserError):
            assert (each.job, each.by) not in rows
    unknown = {(each.job, each.by) for each in said if isinstance(each.error, Unavailable)}
    assert unknown, "no connection was cut"
    assert rows.keys() <= {(each.job, each.by) for each in said if each.error is None} | unknown


def test_a_job_that_is_locked_keeps_no_other_caller_waiting(service: RunningJobService, client: JobClient) -> None:
    """1. Somebody holds a job. 2. A write to it waits. 3. Writes to another one are done meanwhile. 4. So is the first
    at last."""
    make_jobs(client, "held", "free")
    with ThreadPoolExecutor(1) as pool:
        with transaction(service.engine) as holder:
            holder.execute(text("SELECT FROM jobs WHERE name = 'held' FOR UPDATE"))
            waiting = pool.submit(patch, service, "held", {"priority": 2})
            wait_for_lock_waiters(service.engine, 1)
            assert [patch(service, "free", {"priority": 2 + n}, n).version for n in range(3)] == [1, 2, 3]
            assert not waiting.done()
        assert waiting.result(10.0).version == 1


def test_a_write_that_breaks_the_transaction_takes_no_other_with_it(
    service: RunningJobService, client: JobClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. The decision about one of three writes has a bug: nothing of their transaction is done, and each is to be done
    alone. 2. Over HTTP only the caller of that one is told of a bug."""
    make_jobs(client, "a", "bad", "b")
    decide: Callable[..., Any] = writer.decide

    def broken(write: Write, *known: Any) -> Any:
        if write.job == "bad":
            raise RuntimeError("a bug")
        return decide(write, *known)

    monkeypatch.setattr(writer, "decide", broken)
    assert together(service, "a", "bad", "b") == [None, None, None]
    assert written(service) == []
    with ThreadPoolExecutor(3) as pool:
        calls = {job: pool.submit(patch, service, job, {"priority": 2}) for job in ("a", "bad", "b")}
    assert {job: call.exception() is None for job, call in calls.items()} == {"a": True, "bad": False, "b": True}
    assert {(row.job, row.version) for row in written(service)} == {("a", 1), ("b", 1)}


def test_a_connection_that_breaks_before_the_commit_leaves_all_to_be_done_alone(
    service: RunningJobService, client: JobClient
) -> None:
    make_jobs(client, "a", "b")
    with ThreadPoolExecutor(1) as pool, transaction(service.engine) as holder:
        holder.execute(_COUNTER)
        shared = pool.submit(together, service, "a", "b")
        wait_for_lock_waiters(service.engine, 1)
        holder.execute(text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
        assert shared.result(10.0) == [None, None]
    assert written(service) == []


def test_a_connection_that_breaks_in_the_commit_leaves_all_unknown(
    service: RunningJobService, client: JobClient
) -> None:
    """Nobody repeats the writes: one that was done could be told that somebody else has written."""
    make_jobs(client, "a", "b")
    commits = list[int]()

    def cut(connection: Connection) -> None:
        commits.append(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
        with psycopg.connect(address_of_server, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (commits[-1],))

    address_of_server = address_of(service.engine)
    event.listen(service.engine, "commit", cut)
    try:
        with pytest.raises(Unavailable):
            together(service, "a", "b")
    finally:
        event.remove(service.engine, "commit", cut)
    assert (len(commits), written(service)) == (1, [])


SECRET, PACKAGE = {"secrets": {"api": "key"}}, {"query": {"python": "m:f"}, "package": {"name": "p", "version": "1"}}


@pytest.mark.parametrize(
    ("own", "held"),
    [
        (PACKAGE, "SELECT pg_advisory_xact_lock(7311938842)"),
        ({**PACKAGE, **SECRET}, "SELECT FROM secrets WHERE name = 'key' FOR UPDATE"),
        ({}, "SELECT FROM jobs WHERE name = 'its' FOR KEY SHARE"),
        ({}, "DELETE FROM flows WHERE job = 'its'"),
    ],
    ids=["a package is deleted", "its secret is changed", "its row is locked", "its flow is not stored"],
)
def test_a_write_that_would_wait_leaves_the_transaction_to_the_others(
    service: RunningJobService, client: JobClient, own: Mapping[str, Any], held: str
) -> None:
    """1. Another transaction holds what one of two writes needs. 2. The other one is done, and that one alone later."""
    client.put_secret("key", ["*"])
    make_jobs(client, "free")
    client.put_job("its", {**CONFIG, **own}, verify=False)
    with transaction(service.engine) as holder:
        holder.execute(text(held))
        if held.startswith("DELETE"):
            holder.commit()
        its, free = together(service, "its", "free")
        assert its is None
        assert isinstance(free, Written)
        assert {(row.job, row.version) for row in written(service)} == {("free", 1)}
    assert patch(service, "its", {"priority": 2}).version == 1


def test_a_package_that_was_deleted_refuses_only_calls_that_began_before(
    service: RunningJobService, client: JobClient
) -> None:
    """Each write of a transaction is judged by when its own call began."""
    for job in ("before", "after"):
        output = {"type": "kafka", "topic": f"out-{job}"}
        client.put_job(job, {**CONFIG, **PACKAGE, "output": output}, verify=False)
    with transaction(service.engine) as connection:
        connection.execute(
            text("INSERT INTO package_deletions VALUES ('p', '1', clock_timestamp() - interval '30 seconds')")
        )
    now = SystemClock().monotonic()
    before, after = (Asked(oncall(job), now - ago) for job, ago in (("before", 60.0), ("after", 0.0)))
    refused, done = write_together(service.engine, SystemClock(), ("/",), [before, after])
    assert isinstance(refused, Conflict)
    assert (refused.rule, isinstance(done, Written)) == ("package_deleted", True)
    assert {row.job for row in written(service)} == {"after"}


def oncall(job: str) -> Write:
    return Write(Action.PATCH, job, "ann", "oncall", {"priority": 2}, precondition=Precondition(if_match=0))


def together(service: RunningJobService, *jobs: str) -> Sequence[Outcome | None]:
    clock = SystemClock()
    asked = [Asked(oncall(job), clock.monotonic()) for job in jobs]
    return write_together(service.engine, clock, ("/",), asked)
