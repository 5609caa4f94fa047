"""The Task Service on a real store and real HTTP: snapshots, deltas, long polls, reports, degraded modes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, text

from penstock.control.errors import TransactionEnded
from penstock.control.process import wait_until
from penstock.local.postgres import EmbeddedPostgres
from penstock.model.alerts import AlertKind
from penstock.model.reports import TaskProgress, TaskReport, TaskReportBatch, TaskReportChanges, TaskState
from penstock.store.alerts import open_subjects
from penstock.store.engine import REPORTED_STOP, connect, listen, notify, transaction
from penstock.store.migrate import upgrade
from penstock.tasks.ownership import Member
from penstock.wire.cluster import ChangesAnswer, Snapshot, as_json
from penstock.wire.http import certificates
from penstock.wire.task_client import TaskServiceClient
from services.shard_manager.store.members import register
from services.task_service.store.port import TemplateStore
from services.task_service.store.reports import save_quiet, save_report
from services.task_service.store.rows import Changes
from tests.support import identity
from tests.support.store.jobs import make_config
from tests.support.store.running import break_row, commit_config, commit_job, forget_job
from tests.support.store.samples import take_samples
from tests.support.task_service.service import RunningTaskService, task_service


@contextmanager
def calling(service: RunningTaskService) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=service.url, timeout=30.0, verify=certificates(), auth=identity.auth_of_container("c1")
    ) as client:
        yield client


@pytest.fixture
def client(engine: Engine, database_url: str) -> Iterator[httpx.Client]:
    commit_job(engine, "a", task_count=2)
    with task_service(database_url) as service, calling(service.has_read()) as client:
        yield client


def get(client: httpx.Client, **query: float) -> Snapshot:
    response = client.get("/v1/specs", params=query).raise_for_status()
    return Snapshot.model_validate_json(response.content)


def test_full_snapshot_and_delta(engine, client):
    """1. A full snapshot. 2. A job is committed and one deleted: a delta has both. 3. A later delta has none."""
    first = get(client)
    assert (first.full, [template.job for template in first.templates]) == (True, ["a"])
    number = commit_job(engine, "b")
    forget_job(engine, "a")
    wait_until(lambda: get(client).commit_number > number, 5, "the commits to be read")
    delta = get(client, after=first.commit_number)
    assert (delta.full, [template.job for template in delta.templates], delta.removed) == (False, ["b"], ("a",))
    last = get(client, after=delta.commit_number)
    assert (last.templates, last.removed, last.commit_number) == ((), (), delta.commit_number)


def test_the_level_of_an_order_is_sent_to_those_only_who_say_that_they_know_it(engine, client):
    """A Task Manager of the release before refuses fields that it does not know: it is told to take no more rows."""
    number = commit_config(engine, "a", json.dumps(make_config()), quiescing=True, level_ms=5_000)
    wait_until(lambda: get(client).commit_number >= number, 5, "the commit to be read")
    assert "level_ms" not in client.get("/v1/specs").text
    known = TaskServiceClient(str(client.base_url), identity=identity.container("c1"))
    for snapshot in (known.full(), known.delta(number - 1, 0.0)):
        (template,) = snapshot.templates
        assert (template.quiescing, template.level_ms) == (True, 5_000)


def test_a_long_poll_wakes_on_commit(engine, client):
    """Many wait; all get the change soon after its commit, far from their 20 s and the 90 s of the cache."""
    number = get(client).commit_number
    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(get, client, after=number, wait_seconds=20) for _ in range(20)]
        wait_until(lambda: "penstock_delta_requests_waiting 20.0" in client.get("/metrics").text, 10, "all to wait")
        committed_at = time.monotonic()
        commit_job(engine, "b")
        snapshots = [future.result(timeout=15) for future in waiting]
        assert time.monotonic() - committed_at < 5.0
    assert [[template.job for template in snapshot.templates] for snapshot in snapshots] == [["b"]] * 20


def test_a_long_poll_ends_empty(client):
    number = get(client).commit_number
    snapshot = get(client, after=number, wait_seconds=0.2)
    assert (snapshot.full, snapshot.templates, snapshot.commit_number) == (False, (), number)


def test_entity_tag_and_compression(engine, client):
    first = client.get("/v1/specs", headers={"Accept-Encoding": "gzip"})
    assert first.headers["Content-Encoding"] == "gzip"
    plain = client.get("/v1/specs", headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    assert plain.content == first.content
    unchanged = client.get("/v1/specs", headers={"If-None-Match": first.headers["ETag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    number = commit_job(engine, "b")
    wait_until(lambda: get(client).commit_number >= number, 5, "the commit to be read")
    assert client.get("/v1/specs", headers={"If-None-Match": first.headers["ETag"]}).status_code == 200


def test_a_read_that_began_before_a_request_does_not_answer_it(engine, database_url, monkeypatch):
    """Another Task Service has served commit n + 1. 1. This one has just read commit n and is slow to say so. 2. Who
    knows n + 1 asks this one: it reads again and answers with n + 1, though the read that was under way ends first."""
    number = commit_job(engine, "a")
    held, may_end, read = threading.Event(), threading.Event(), TemplateStore.read

    def slow(store: TemplateStore, after: int = -1) -> Changes:
        changes = read(store, after)
        if changes.commit_number == number and not held.is_set():
            held.set()
            assert may_end.wait(10)
        return changes

    with task_service(database_url) as service:
        service.has_read()
        monkeypatch.setattr(TemplateStore, "read", slow)
        service.process.listener.stop()
        service.process.cache.wake()
        assert held.wait(10)
        newer = commit_job(engine, "b")
        with calling(service) as client, ThreadPoolExecutor(1) as pool:
            answer = pool.submit(get, client, after=newer)
            wait_until(service.process.cache._woken.is_set, 5, "the request to be there")
            may_end.set()
            assert answer.result(10).commit_number == newer


def test_stopped_and_deleted_jobs_are_served_without_tasks(engine, client):
    number = commit_job(engine, "a", stopping=True)
    wait_until(lambda: get(client).commit_number >= number, 5, "the commit to be read")
    assert get(client).templates[0].config.desired_state == "stopped"


def test_a_broken_row_raises_an_alert_and_spoils_no_other(engine, client):
    number = break_row(engine, "bad")
    wait_until(lambda: get(client).commit_number >= number, 5, "the commit to be read")
    assert [template.job for template in get(client).templates] == ["a"]
    subjects = text("SELECT subject FROM alerts WHERE kind = 'broken_running_row' AND cleared_at IS NULL")

    def open_alerts() -> list[str]:
        with transaction(engine) as connection:
            return list(connection.execute(subjects).scalars())

    wait_until(lambda: open_alerts() == ["bad"], 5, "the alert")
    commit_job(engine, "bad")
    wait_until(lambda: open_alerts() == [], 5, "the alert to be cleared")


def test_changes_are_seen_without_notifications_when_the_cache_expires(engine, database_url):
    """The store is changed by hand: no NOTIFY, no commit number. The next full read shows it."""
    commit_job(engine, "a")
    with task_service(database_url, task_service_cache_seconds=0.5) as service, calling(service.has_read()) as client:
        with transaction(engine) as connection:
            connection.execute(text("DELETE FROM running"))
        assert wait_until(lambda: get(client).templates == (), 5, "the cache to expire")


def test_the_cached_snapshot_is_served_while_the_store_is_away(servers_dir: Path):
    """1. The store goes: the snapshot is served, and says how old it is. 2. A process that never read it answers 503.
    3. The store is back: commits are served again."""
    with EmbeddedPostgres(servers_dir / "own-tasks", durable=False) as server:
        upgrade(server.url)
        engine = connect(server.url)
        commit_job(engine, "a")
        engine.dispose()
        with task_service(server.url, task_service_cache_seconds=0.3) as service, calling(service.has_read()) as client:
            server.stop()
            with task_service(server.url) as never_read, calling(never_read) as newcomer:
                assert newcomer.get("/v1/specs").status_code == 503
                assert newcomer.get("/readyz").status_code == 503
            wait_until(lambda: service.process.cache.age_seconds() > 1.0, 10, "the snapshot to grow old")
            response = client.get("/v1/specs")
            assert [template.job for template in Snapshot.model_validate_json(response.content).templates] == ["a"]
            assert float(response.headers["Penstock-Snapshot-Age-Seconds"]) > 1.0
            assert client.get("/v1/specs", params={"after": 99}).status_code == 503
            server.start()
            number = commit_job(engine, "b")
            wait_until(lambda: get(client).commit_number >= number, 10, "the store to be read again")
            engine.dispose()


# ---- reports


def join(engine: Engine, container: str, incarnation: str) -> None:
    with transaction(engine) as connection:
        register(connection, Member(container, incarnation, "http://x", "local", 1.0, 1, 1), empty=True)


def batch(container: str, incarnation: str, *indexes: int, backlog: int | None = None) -> TaskReportBatch:
    progress = TaskProgress(backlog_records=backlog, processed_rows_per_second=2.0)
    listed = tuple(
        TaskReport(
            job="a",
            index=index,
            state=TaskState.RUNNING,
            revision=1,
            generation=1,
            restarts=0,
            epoch=4,
            progress=progress,
        )
        for index in indexes
    )
    return TaskReportBatch(container=container, incarnation=incarnation, commit_number=7, version=4, tasks=listed)


def post(client: httpx.Client, report: TaskReportBatch) -> httpx.Response:
    return client.post("/v1/reports", json=as_json(report), auth=identity.auth_of_container(report.container))


def stored_tasks(engine: Engine) -> list[tuple[str, int]]:
    with transaction(engine) as connection:
        rows = connection.execute(text("SELECT container, index FROM tasks ORDER BY container, index"))
        return [(row.container, row.index) for row in rows]


def test_a_report_replaces_the_containers_last_one_and_no_other(engine, client):
    join(engine, "x", "1")
    join(engine, "y", "1")
    assert post(client, batch("x", "1", 0, 1)).status_code == 204
    assert post(client, batch("y", "1", 2)).status_code == 204
    assert post(client, batch("x", "1", 1, 3)).status_code == 204
    assert stored_tasks(engine) == [("x", 1), ("x", 3), ("y", 2)]
    assert post(client, batch("x", "1")).status_code == 204
    assert stored_tasks(engine) == [("y", 2)]
    with transaction(engine) as connection:
        newest = connection.execute(text("SELECT * FROM reports WHERE container = 'x'")).one()
    assert (newest.incarnation, newest.commit_number, newest.version) == ("1", 7, 4)


def test_a_task_that_waits_long_for_a_producer_is_told(engine, client):
    """1. Two tasks wait, one of them for long: one alert. 2. It waits no more: none."""
    join(engine, "x", "1")
    store = TemplateStore(engine)
    for seconds, alerts in [((10.0, 400.0), {"a/1"}), ((20.0, None), set())]:
        sent = batch("x", "1", 0, 1)
        waits = [
            TaskProgress(held_back_by="shuf/1/3" if wait else None, held_back_seconds=wait, state_rows=12_345)
            for wait in seconds
        ]
        tasks = tuple(task.model_copy(update={"progress": wait}) for task, wait in zip(sent.tasks, waits, strict=True))
        assert post(client, sent.model_copy(update={"tasks": tasks})).status_code == 204
        store.alert_waiting_tasks(300.0)
        with transaction(engine) as connection:
            assert open_subjects(connection, AlertKind.HELD_BACK) == alerts
            told = connection.execute(text("SELECT message FROM alerts WHERE cleared_at IS NULL")).scalars().all()
        assert ["12,345 when this was raised" in message for message in told] == [True] * len(alerts)


@pytest.mark.parametrize("odd", ['"n/a"', "null", "[]", "1e400", "-1e400", "true"])
def test_what_a_task_waits_for_is_told_beside_a_row_that_says_it_oddly(engine, client, odd):
    join(engine, "x", "1")
    assert post(client, batch("x", "1", 0, 1)).status_code == 204
    with transaction(engine) as connection:
        for index, seconds in ((0, "400"), (1, odd)):
            progress = f'{{"held_back_by": "shuf/1/3", "held_back_seconds": {seconds}}}'
            values = {"index": index, "progress": progress}
            connection.execute(text("UPDATE tasks SET progress = :progress WHERE index = :index"), values)
    TemplateStore(engine).alert_waiting_tasks(300.0)
    with transaction(engine) as connection:
        told = open_subjects(connection, AlertKind.HELD_BACK)
    assert told == {"a/0"} | ({"a/1"} if odd == "1e400" else set())


def test_templates_are_read_while_somebody_keeps_the_alerts(database_url, engine):
    """And no alert waits long for them."""
    with transaction(engine) as connection:
        connection.execute(text("LOCK TABLE alerts"))
        with pytest.raises(TransactionEnded):
            TemplateStore(engine).alert({"a": "no query"}, ())
        with task_service(database_url) as service:
            assert service.has_read().process.cache.templates is not None


def test_an_error_that_is_no_text_for_the_store_refuses_no_report(engine, client):
    """A container of an older release sends a NUL as Spark has it."""
    join(engine, "x", "1")
    report = as_json(batch("x", "1", 0, 1))
    report["tasks"][1] |= {"state": "crashed", "error": "The value '12\x00x'", "load": {"cpu\x00": 1.0}}
    report["tasks"][1]["progress"]["input_problems"] = {"malformed_records": "\x00"}
    sent = client.post("/v1/reports", json=report, auth=identity.auth_of_container("x"))
    assert sent.status_code == 204
    assert stored_tasks(engine) == [("x", 0), ("x", 1)]
    with transaction(engine) as connection:
        assert connection.execute(text("SELECT error FROM tasks WHERE index = 1")).scalar() == "The value '12\ufffdx'"


def test_a_report_of_a_former_life_is_refused(engine, client):
    join(engine, "x", "1")
    post(client, batch("x", "1", 0))
    join(engine, "x", "2")
    refused = post(client, batch("x", "1", 1))
    assert (refused.status_code, refused.json()["rule"]) == (409, "current_incarnation")
    assert post(client, batch("stranger", "1", 1)).status_code == 409
    assert stored_tasks(engine) == [("x", 0)]


def test_many_quiet_reports_at_once_are_answered_each_by_itself(engine):
    """The second one of `c1` counts, and neither what builds on another report nor what another life says."""
    for container in ("c1", "c2", "c3", "c4"):
        join(engine, container, "one")
        with transaction(engine) as connection:
            save_report(connection, batch(container, "one", 0), 1)
    told = [quiet("c2", after=9), quiet("c1"), quiet("c1", number=3, commit=8), quiet("c4", incarnation="two")]
    with transaction(engine) as connection:
        stored = save_quiet(connection, [*told, quiet("c3"), quiet("unknown")])
    assert stored == [False, False, True, False, True, False]
    with transaction(engine) as connection:
        rows = connection.execute(text("SELECT container, number, base, commit_number FROM reports ORDER BY 1")).all()
    assert rows == [("c1", 3, 1, 8), ("c2", 1, 1, 7), ("c3", 2, 1, 7), ("c4", 1, 1, 7)]


def test_a_quiet_report_that_another_transaction_holds_up_holds_up_no_other(engine, client):
    """1. Somebody holds the report of `c1`. 2. Both are quiet: `c2` is stored, and `c1` once the other has ended."""
    for container in ("c1", "c2"):
        join(engine, container, "one")
        with transaction(engine) as connection:
            save_report(connection, batch(container, "one", 0), 1)
    with ThreadPoolExecutor(1) as pool:
        with transaction(engine) as connection:
            connection.execute(text("SELECT FROM reports WHERE container = 'c1' FOR UPDATE"))
            held_up = pool.submit(tell, client, quiet("c1"))
            assert tell(client, quiet("c2"))
            assert not held_up.done()
        assert held_up.result(20)


def tell(client: httpx.Client, changes: TaskReportChanges) -> bool:
    auth = identity.auth_of_container(changes.container)
    answer = client.post("/v1/reports/changes", json=as_json(changes), auth=auth).raise_for_status()
    return ChangesAnswer.model_validate_json(answer.content).stored


def quiet(
    container: str, *, number: int = 2, after: int = 1, commit: int = 7, incarnation: str = "one"
) -> TaskReportChanges:
    return TaskReportChanges(
        container=container, incarnation=incarnation, commit_number=commit, version=1, number=number, after=after
    )


def test_a_report_wakes_plans_by_a_newer_commit_or_an_ended_task_only(engine, client, database_url):
    join(engine, "c1", "i1")
    post(client, batch("c1", "i1", 0, 1))
    with listen(database_url, (REPORTED_STOP,)) as connection:
        post(client, batch("c1", "i1", 0))
        with transaction(engine) as writer:
            writer.execute(text("INSERT INTO sync_state (job, revision, state, plan) VALUES ('a', 1, 'waiting', '{}')"))
        post(client, batch("c1", "i1", 0))
        _mark(engine, "repeated")
        post(client, batch("c1", "i1"))
        _mark(engine, "ended")
        post(client, batch("c1", "i1").model_copy(update={"commit_number": 8}))
        _mark(engine, "newer")
        heard = [notice.payload for notice in connection.notifies(timeout=10, stop_after=5)]
    assert heard == ["repeated", "", "ended", "", "newer"]


def _mark(engine: Engine, payload: str) -> None:
    with transaction(engine) as connection:
        notify(connection, REPORTED_STOP, payload)


def test_a_sample_has_what_is_known_and_no_more(engine, client):
    """1. A backlog of 10. 2. An unknown one. 3. A known zero. Unknown never becomes zero."""
    join(engine, "x", "1")
    seen = []
    for backlog in (10, None, 0):
        post(client, batch("x", "1", 0, backlog=backlog))
        take_samples(engine)  # Or, late in a minute, the service's own sampler has, since then.
        with transaction(engine) as connection:
            last = text(
                "SELECT backlog_records, lag_seconds, state_rows FROM task_metrics ORDER BY minute DESC LIMIT 1"
            )
            seen.append(tuple(connection.execute(last).one()))
    assert seen == [(10, 5.0, None), (None, None, None), (0, 0.0, None)]
