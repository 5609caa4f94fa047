"""Jobs over HTTP: create, list, state, delete, restart, release, plans, tasks, batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection, Engine, text

from penstock.control.errors import Conflict, InvalidConfig, NotFound, VersionConflict
from penstock.model.jobs import JobState
from penstock.store.engine import transaction
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import BatchAction, BatchWrite
from services.job_service.store import expected
from tests.support import calls
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.job_service.stored import commit, execute, report, sync
from tests.support.store.running import forget_job


def test_create_only_and_compare_and_swap_of_a_job(client: JobClient) -> None:
    assert client.put_job("etl", CONFIG, create_only=True).action == "create"
    with pytest.raises(Conflict):
        client.put_job("etl", CONFIG, create_only=True)
    assert client.put_job("etl", {**CONFIG, "owner": "bob"}, if_match=1).version == 2
    with pytest.raises(VersionConflict) as refused:
        client.put_job("etl", CONFIG, if_match=1)
    assert refused.value.current_version == 2
    assert client.get_job("etl").owner == "bob"


def test_a_refused_job_leaves_nothing_behind(service: RunningJobService, client: JobClient) -> None:
    with pytest.raises(InvalidConfig):
        client.put_job("etl", {})
    with pytest.raises(NotFound):
        client.get_job("etl")
    with transaction(service.engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM jobs")).scalar_one() == 0
        assert connection.execute(text("SELECT value FROM counters WHERE name = 'revision'")).scalar_one() == 0


def test_of_many_that_create_the_same_job_one_does(service: RunningJobService) -> None:
    def create(_: int) -> str:
        with service.client() as rival:
            try:
                return rival.put_job("etl", CONFIG, create_only=True).action
            except Conflict:
                return "conflict"

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(create, range(8))) == ["conflict"] * 7 + ["create"]


def test_lists_by_prefix_owner_and_state_page_by_page(service: RunningJobService, client: JobClient) -> None:
    for number in range(7):
        client.put_job(f"etl-{number}", {**CONFIG, "owner": "ann" if number % 2 else "bob"})
    client.put_job("other", CONFIG)
    client.delete_job("etl-3")
    assert [job.job for job in client.list_jobs(page_size=2)] == [*(f"etl-{n}" for n in range(7)), "other"]
    assert [job.job for job in client.list_jobs(prefix="etl-", owner="ann")] == ["etl-1", "etl-3", "etl-5"]
    assert [job.job for job in client.list_jobs(state=JobState.DELETING)] == ["etl-3"]
    assert not list(client.list_jobs(prefix="%"))


@pytest.mark.parametrize("cursor", ["x", "bnVsbA", "MTI", "ImFcdTAwMDAi", "é"])
def test_a_cursor_of_another_making_is_refused(service: RunningJobService, cursor: str) -> None:
    """In turn: no base64, JSON null, a number, text with a NUL, and no ASCII."""
    headers = {"Authorization": f"Bearer {service.admin}"}
    response = calls.get(f"{service.url}/v1/jobs", params={"cursor": cursor}, headers=headers)
    assert (response.status_code, response.json()["field"]) == (422, "cursor")


def test_the_state_follows_the_job_through_its_life(service: RunningJobService, client: JobClient) -> None:
    """1. Pending until committed. 2. Synced, but converged only when all tasks run it. 3. Pending again after a write.
    4. Waiting, quarantined as the State Syncer says of this revision. 5. Stopped. 6. Deleting."""
    config = {**CONFIG, "task_count": 2}
    revision = client.put_job("etl", config).revision
    assert _state(client) == (JobState.PENDING, False)
    commit(service, {"task_count": 2}, revision)
    assert _state(client) == (JobState.SYNCED, False)
    report(service, 0, revision)
    report(service, 1, revision - 1)
    assert _state(client) == (JobState.SYNCED, False)
    report(service, 1, revision)
    assert _state(client) == (JobState.SYNCED, True)
    assert [job.converged for job in client.list_jobs()] == [True]
    revision = client.put_layer("etl", "oncall", {"priority": 1}, if_match=0).revision
    assert _state(client) == (JobState.PENDING, False)
    sync(service, "waiting", revision)
    assert _state(client) == (JobState.WAITING, False)
    sync(service, "quarantined", revision)
    assert _state(client) == (JobState.QUARANTINED, False)
    sync(service, "quarantined", revision - 1)
    assert _state(client) == (JobState.PENDING, False)
    revision = client.put_layer("etl", "oncall", {"desired_state": "stopped"}, if_match=1).revision
    commit(service, {"task_count": 2, "desired_state": "stopped"}, revision)
    assert _state(client) == (JobState.STOPPED, False)
    execute(service, "DELETE FROM tasks")
    assert _state(client) == (JobState.STOPPED, True)
    client.delete_job("etl")
    assert _state(client) == (JobState.DELETING, False)


def test_reports_of_a_lost_container_are_no_evidence(service: RunningJobService, client: JobClient) -> None:
    revision = client.put_job("etl", CONFIG).revision
    commit(service, {"task_count": 1}, revision)
    report(service, 0, revision)
    assert _state(client) == (JobState.SYNCED, True)
    execute(
        service,
        "INSERT INTO containers (name, incarnation, url, region, cpu_cores, memory_bytes, disk_bytes, state)"
        " VALUES ('c0', 'i', 'u', 'r', 1, 1, 1, 'lost')",
    )
    assert _state(client) == (JobState.SYNCED, False)


def test_deleting_is_recorded_and_final(client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    deleted = client.delete_job("etl", reason="retired")
    assert client.delete_job("etl").revision == deleted.revision
    for write in (
        lambda: client.put_job("etl", CONFIG),
        lambda: client.put_layer("etl", "oncall", {"priority": 1}, if_match=0),
        lambda: client.restart("etl"),
    ):
        with pytest.raises(Conflict) as refused:
            write()
        assert refused.value.rule == "deleting"
    entry = client.history("etl").entries[0]
    assert (entry.action, entry.layer, entry.reason, entry.revision) == ("delete", None, "retired", deleted.revision)


def _forgetting(engine: Engine) -> Callable[[Connection, Sequence[str]], None]:
    """`expected.claim`, after which the deletion of the job ends."""
    claim = expected.claim

    def claimed(connection: Connection, names: Sequence[str]) -> None:
        claim(connection, names)
        if connection.execute(text("SELECT count(*) FROM jobs WHERE deleting")).scalar_one():
            forget_job(engine, "etl")

    return claimed


def test_a_job_that_goes_while_it_is_made_again_is_made(
    service: RunningJobService, client: JobClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. It is forgotten after its row was claimed and before it is locked: the write begins anew. 2. The same in a
    batch. 3. A name that goes each time is a conflict that says so, and nothing is written."""
    for again in (lambda: client.put_job("etl", CONFIG).action, lambda: _batch_of_one(client, "etl")):
        client.put_job("etl", CONFIG)
        client.delete_job("etl")
        monkeypatch.setattr(expected, "claim", _forgetting(service.engine))
        assert again() == "create"
        monkeypatch.undo()
    monkeypatch.setattr(expected, "claim", lambda connection, names: None)
    with pytest.raises(Conflict, match="repeat the call") as refused:
        client.put_job("other", CONFIG)
    assert (refused.value.field, refused.value.rule) == ("job", "deleting")
    with pytest.raises(NotFound):
        client.get_job("other")


def _batch_of_one(client: JobClient, job: str) -> str:
    [result] = client.batch([BatchWrite(action=BatchAction.PUT_JOB, job=job, config=CONFIG)])
    assert result.written is not None, result.problem
    return result.written.action


def test_a_job_is_deleted_only_at_the_version_that_was_read(client: JobClient) -> None:
    """Once it is being deleted the delete may be repeated."""
    client.put_job("etl", CONFIG)
    client.put_job("etl", {**CONFIG, "priority": 1})
    with pytest.raises(VersionConflict) as refused:
        client.delete_job("etl", if_match=1)
    assert refused.value.current_version == 2
    assert client.get_job("etl").state is not JobState.DELETING
    for _ in range(2):
        client.delete_job("etl", if_match=2)
    assert client.get_job("etl").state is JobState.DELETING


def test_history_outlives_the_job(service: RunningJobService, client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    execute(service, "DELETE FROM jobs")
    assert [entry.action for entry in client.history("etl").entries] == ["create"]
    with pytest.raises(NotFound):
        client.history("never")


def test_history_page_by_page(client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    for version in range(5):
        client.put_layer("etl", "oncall", {"priority": version}, if_match=version)
    first = client.history("etl", layer="oncall", limit=3)
    second = client.history("etl", layer="oncall", limit=3, cursor=first.next)
    assert [entry.version for entry in first.entries + second.entries] == [5, 4, 3, 2, 1]
    assert second.next is None


def test_a_restart_counts_and_takes_a_revision(client: JobClient) -> None:
    created = client.put_job("etl", CONFIG)
    restarted = client.restart("etl", reason="stuck")
    job = client.get_job("etl")
    assert (job.restarts, job.revision) == (1, restarted.revision)
    assert restarted.revision > created.revision
    assert client.put_layer("etl", "oncall", {"priority": 1}, if_match=0).revision > restarted.revision
    assert client.get_job("etl").restarts == 1


def test_the_generations_whose_files_are_there_are_shown(service: RunningJobService, client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    assert client.sync("etl").generations == []
    execute(
        service,
        "INSERT INTO generations (job, generation, attempted, unused_since, container, detail, collected_at) VALUES"
        " ('etl', 1, false, now(), 'a', '', NULL), ('etl', 2, true, now(), NULL, 'disk is read-only', NULL),"
        " ('etl', 3, false, NULL, NULL, '', NULL), ('etl', 4, true, now(), NULL, '', now())",
    )
    shown = client.sync("etl").generations
    assert [(each.generation, each.attempted, each.collecting, each.detail) for each in shown] == [
        (1, False, True, ""),
        (2, True, False, "disk is read-only"),
        (3, False, False, ""),
    ]
    assert [each.unused_since is None for each in shown] == [False, False, True]


def test_release_ends_a_quarantine_and_nothing_else(service: RunningJobService, client: JobClient) -> None:
    revision = client.put_job("etl", CONFIG).revision
    with pytest.raises(Conflict):
        client.release("etl")
    assert client.get_job("etl").revision == revision
    sync(service, "quarantined", revision)
    released = client.release("etl", reason="fixed the topic")
    now = client.sync("etl")
    assert (now.state, now.failures, now.next_attempt_at, now.sync_revision) == (
        JobState.PENDING,
        0,
        None,
        released.revision,
    )
    assert client.history("etl").entries[0].action == "release"


_MEASURED = """INSERT INTO task_metrics
    (job, index, minute, input_rows_per_second, processed_rows_per_second, backlog_records) VALUES ('etl', {})"""


def test_a_plan_says_what_would_happen_and_writes_nothing(service: RunningJobService, client: JobClient) -> None:
    revision = client.put_job("etl", {**CONFIG, "task_count": 2}).revision
    first = client.plan("etl", {"priority": 1})
    assert (first.steps, first.tasks_touched) == (["commit", "start_tasks"], ["etl/0", "etl/1"])
    commit(service, client.get_job("etl").config, revision)
    restart = client.plan("etl", {"trigger_interval_seconds": 1})
    assert (restart.kind, restart.steps) == ("restart", ["commit", "restart_tasks"])
    assert (restart.tasks_touched, restart.downtime_seconds) == (["etl/0", "etl/1"], None)
    assert [(change.field, change.old, change.new) for change in restart.fields] == [
        ("trigger_interval_seconds", 5.0, 1)
    ]
    upgrade = client.plan("etl", {"package": {"version": "2"}}, layer="base")
    assert (upgrade.kind, upgrade.steps, upgrade.waves) == ("restart", ["wave_1", "wave_2"], [["etl/0"], ["etl/1"]])
    live = client.plan("etl", {"priority": 1})
    assert (live.kind, live.steps, live.downtime_seconds) == ("live", ["commit", "apply_to_tasks"], 0.0)
    rescale = client.plan("etl", {"task_count": 4})
    assert (rescale.kind, rescale.steps[4:6], rescale.downtime_seconds) == ("rescale", ["redistribute", "seal"], None)
    execute(service, """UPDATE running SET rescale_seconds = '{"seal": 0.5, "total": 2.5}'""")
    execute(service, _MEASURED.format("0, now(), 100, 400, 30"))
    one_task_unknown = client.plan("etl", {"task_count": 4})
    assert (one_task_unknown.downtime_seconds, one_task_unknown.catch_up_seconds) == (2.5, None)
    execute(service, _MEASURED.format("1, now(), 100, 0, 20"))
    execute(service, _MEASURED.format("1, now() - interval '1 minute', 100, 300, 900"))
    assert client.plan("etl", {"task_count": 4}).catch_up_seconds == 1.1, "(50 + 200 * 2.5) / (700 - 200)"
    forbidden = client.plan("etl", {"output_mode": "update"})
    assert (forbidden.kind, forbidden.allowed, forbidden.steps) == ("forbidden", False, [])
    with pytest.raises(InvalidConfig):
        client.plan("etl", {"task_count": 99})
    assert (client.get_job("etl").revision, client.get_layer("etl", "oncall").version) == (revision, 0)


def test_tasks_show_where_they_should_run_and_do(service: RunningJobService, client: JobClient) -> None:
    revision = client.put_job("etl", {**CONFIG, "task_count": 2}).revision
    assert client.tasks("etl").tasks == []
    commit(service, {"task_count": 2}, revision)
    report(service, 1, revision)
    report(service, 5, revision)
    views = client.tasks("etl").tasks
    assert [(view.task, view.expected, view.state, view.container) for view in views] == [
        ("etl/0", True, "unknown", None),
        ("etl/1", True, "running", "c1"),
        ("etl/5", False, "running", "c5"),
    ]
    execute(service, f"INSERT INTO assignment (shard, container, epoch) VALUES ({views[0].shard}, 'c9', 1)")
    assert client.tasks("etl").tasks[0].owner == "c9"


def test_tasks_show_the_load_that_is_known_of_them_also_when_nobody_runs_them(
    service: RunningJobService, client: JobClient
) -> None:
    revision = client.put_job("etl", {**CONFIG, "task_count": 2}).revision
    commit(service, {"task_count": 2}, revision)
    execute(
        service,
        "INSERT INTO task_loads (job, index, generation, load) VALUES ('etl', 1, 1, CAST(:load AS jsonb))",
        load='{"cpu_cores": 0.5}',
    )
    assert [(view.state, view.load) for view in client.tasks("etl").tasks] == [
        ("unknown", None),
        ("unknown", {"cpu_cores": 0.5}),
    ]


def test_a_batch_gives_each_write_its_own_result(client: JobClient) -> None:
    writes = [
        BatchWrite(action=BatchAction.PUT_JOB, job="a", config=dict(CONFIG), if_match=0),
        BatchWrite(action=BatchAction.PATCH, job="a", layer="oncall", config={"priority": 1}, if_match=0),
        BatchWrite(action=BatchAction.PUT_JOB, job="b", config={}),
        BatchWrite(action=BatchAction.PUT, job="nowhere", layer="oncall", config={}, if_match=0),
        BatchWrite(action=BatchAction.PUT, job="a", layer="oncall", config={}, if_match=0),
        BatchWrite(action=BatchAction.DROP, job="a", layer="oncall", if_match=1),
        BatchWrite(action=BatchAction.PUT, job="a", config={}, if_match=0),
        BatchWrite(action=BatchAction.PUT, job="a", layer="oncall", config={}),
        BatchWrite(action=BatchAction.PUT_JOB, job="Not A Name", config=dict(CONFIG)),
        BatchWrite(action=BatchAction.PUT_JOB, job="c", config=dict(CONFIG)),
        BatchWrite(action=BatchAction.DELETE_JOB, job="c"),
    ]
    results = client.batch(writes)
    assert [result.status for result in results] == [200, 200, 422, 404, 409, 200, 422, 428, 422, 200, 200]
    conflict = results[4].problem
    assert conflict is not None
    assert conflict.current_version == 1
    assert [job.job for job in client.list_jobs()] == ["a", "c"]
    assert client.get_layer("a", "oncall").version == 2


def test_batches_of_rivals_over_the_same_jobs_all_end(service: RunningJobService) -> None:
    """Rivals create the same jobs in opposite orders: no deadlock, every job once, all revisions different."""
    names = [f"job-{number}" for number in range(30)]

    def submit(order: list[str]) -> list[int]:
        with service.client() as rival:
            writes = [BatchWrite(action=BatchAction.PUT_JOB, job=name, config=dict(CONFIG)) for name in order]
            return [result.written.revision for result in rival.batch(writes) if result.written is not None]

    with ThreadPoolExecutor(6) as pool:
        revisions = [number for found in pool.map(submit, [names, names[::-1]] * 3) for number in found]
    assert sorted(revisions) == list(range(1, 181))
    with service.client() as client:
        assert [job.job for job in client.list_jobs(prefix="job-")] == sorted(names)


@pytest.mark.parametrize(
    "body",
    [
        b'{"config": {"owner": "a\\u0000b"}}',
        b'{"config": {"owner": "\\ud800"}}',
        b'{"config": {"priority": NaN}}',
        b'{"config": {"priority": 1e999}}',
        b'{"config": {"args": {"n": 99999999999999999999999}}}',
        b'{"config": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
        b'{"config": [], "reason": 7}',
        b"{",
        b"\xff\xfe{}",
        b"",
    ],
)
def test_bodies_that_no_job_can_have_are_refused(service: RunningJobService, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {service.admin}", "Content-Type": "application/json"}
    response = calls.put(f"{service.url}/v1/jobs/etl", content=body, headers=headers)
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
    assert response.json()["rule"]


def test_a_body_without_end_is_refused(service: RunningJobService) -> None:
    headers = {"Authorization": f"Bearer {service.admin}", "Content-Type": "application/json"}
    response = calls.put(f"{service.url}/v1/jobs/etl", content=b" " * (17 * 2**20), headers=headers)
    assert (response.status_code, response.headers["content-type"]) == (413, "application/problem+json")


def _state(client: JobClient) -> tuple[JobState, bool]:
    job = client.get_job("etl")
    return job.state, job.converged
