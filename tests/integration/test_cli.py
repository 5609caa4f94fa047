"""Every command that speaks to the Job Service, against a real one; and how commands fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from penstock.cli.errors import Exit
from penstock.local import topics
from penstock.local.ports import free_port
from penstock.model.alerts import AlertKind
from penstock.model.reports import TaskProgress, TaskReport, TaskReportBatch, TaskState
from penstock.store.alerts import raise_alert
from penstock.store.cluster import ask_for_shards
from penstock.store.engine import transaction
from penstock.tasks.ownership import Member
from penstock.tasks.shards import shard_of
from penstock.tasks.spec import task_id
from services.shard_manager.store.members import register
from services.shard_manager.store.owners import Change, ensure_shards, read_owners, record_owners
from services.task_service.store.reports import save_report
from tests.support.cli.shell import Shell
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.store.running import commit_job

SHARDS = 4
COLUMNS = 120


@pytest.fixture
def etl(shell: Shell) -> str:
    """A job that the shell has created."""
    shell("jobs", "apply", "etl", json.dumps(CONFIG), "--reason", "first release").ok()
    return "etl"


def test_a_job_from_its_creation_to_its_end(shell: Shell, tmp_path: Path) -> None:
    """1. It is applied from a file that names the data folder. 2. It is listed and shown. 3. It is deleted."""
    output = {"type": "delta", "path": "${data_dir}/clean"}
    file = tmp_path / "etl.json"
    file.write_text(json.dumps({**CONFIG, "output": output}))
    assert shell("jobs", "apply", "etl", str(file)).ok().startswith("create etl base: revision ")

    assert "etl" in shell("jobs", "list", "--owner", "ann", "--state", "pending").ok()
    assert shell("jobs", "list", "--prefix", "other").ok() == "none\n"
    assert json.loads(shell("jobs", "list", "--json").ok())["jobs"][0]["job"] == "etl"
    shown = json.loads(shell("jobs", "show", "etl").ok())
    assert shown["config"]["output"]["path"] == f"{tmp_path}/clean"
    assert json.loads(shell("sync", "etl").ok())["expected_revision"] == shown["revision"]

    assert shell("jobs", "delete", "etl", "--reason", "not needed").ok().startswith("delete etl: revision ")
    assert json.loads(shell("jobs", "show", "etl").ok())["state"] == "deleting"
    assert "NotFound" in shell("jobs", "show", "other").refusal()


def test_layers_are_patched_shown_reverted_and_dropped(shell: Shell, etl: str) -> None:
    shell("layers", "patch", etl, "provisioner", '{"priority": 3}', "-r", "release 2").ok()
    said = shell("layers", "patch", etl, "provisioner", '{"task_count": 4}').ok()
    assert said.splitlines()[0].endswith("version 2")
    assert json.loads(shell("layers", "show", etl, "provisioner").ok())["config"] == {"priority": 3, "task_count": 4}

    assert "version 3" in shell("revert", etl, "provisioner", "1", "--reason", "release 2 was slow").ok()
    assert json.loads(shell("layers", "show", etl, "provisioner").ok())["config"] == {"priority": 3}
    shell("layers", "drop", etl, "provisioner").ok()
    assert json.loads(shell("layers", "show", etl, "provisioner").ok())["config"] is None


def test_an_override_ends_by_itself_and_can_be_ended(shell: Shell, etl: str) -> None:
    said = shell("override", etl, '{"task_count": 4}', "--reason", "catch up [now]", "--for", "30m").ok()
    assert "patch etl oncall" in said
    assert "ends in 29m" in said

    explained = shell("explain", etl).ok()
    assert "catch up [now]" in explained
    assert "default=" in explained
    assert "trigger_interval_seconds" not in explained
    assert "trigger_interval_seconds" in shell("explain", etl, "--all").ok()
    leaves = {leaf["field"]: leaf for leaf in json.loads(shell("explain", etl, "--json").ok())["leaves"]}
    assert (leaves["task_count"]["value"], leaves["task_count"]["layer"]) == (4, "oncall")

    said = shell("override", etl, "task_count=3", "slo.max_lag_seconds=2m", "-r", "more", "--for", "1h30m").ok()
    assert "ends in 1h29m" in said
    assert json.loads(shell("layers", "show", etl, "oncall").ok())["config"] == {
        "task_count": 3,
        "slo": {"max_lag_seconds": 120.0},
    }

    shell("override", etl, "--drop").ok()
    assert "oncall" not in shell("explain", etl, "--all").ok()


REFUSED = [
    (("override", "etl", '{"priority": 1}'), "(field reason, rule required)"),
    (("override", "etl", '{"priority": 1}', "-r", " "), "(field reason, rule required)"),
    (("override", "etl"), "(field config, rule required)"),
    (("override", "etl", '{"priority": 1}', "-r", "x", "--for", "soon"), "(field for, rule duration)"),
    (("override", "etl", '{"task_count": 0}', "-r", "x"), "InvalidConfig: "),
    (("override", "etl", '{"task_cuont": 2}', "-r", "x"), "(field task_cuont, rule unknown_field)"),
    (("override", "etl", "task_cont=2", "-r", "x"), "do you mean task_count, max_task_count? (field task_cont, rule"),
    (("override", "etl", "task_count=two", "-r", "x"), "(field task_count, rule int_parsing)"),
    (("override", "etl", "task_count=2", "--drop"), "(field config, rule one_of)"),
    (("layers", "patch", "etl", "oncall", "{"), "(field config, rule json_object)"),
    (("layers", "patch", "etl", "base", '{"priority": 1}', "--if-match", "7"), "is at version 1, not 7"),
    (("layers", "show", "etl", "nosuch"), "NotFound: "),
    (("revert", "etl", "base", "9"), "NotFound: "),
    (("release", "etl"), "nor failed: there is nothing to release (field job, rule quarantined)"),
    (("tokens", "create", "No Name", "--role", "reader"), "(field token, rule name)"),
    (("tokens", "revoke", "nobody"), "(field name, rule known)"),
    (("jobs", "apply", "No Name", "{}"), "a job's name has 1 to 100 lower case letters, digits"),
    (
        ("override", "etl", '{"trigger_interval_seconds": -1}', "-r", "x"),
        "trigger_interval_seconds: -1 is not allowed; allowed: number, 0 to 86400 (field",
    ),
]


def test_a_refusal_is_one_line_with_field_and_rule_and_changes_nothing(shell: Shell, etl: str) -> None:
    before = json.loads(shell("jobs", "show", etl).ok())
    for words, expected in REFUSED:
        assert expected in shell(*words).refusal()
    assert json.loads(shell("jobs", "show", etl).ok()) == before


def test_a_plan_says_what_a_change_would_do_and_does_nothing(shell: Shell, etl: str) -> None:
    """Nothing runs that could check it, and the exit code says so."""
    said = shell("plan", etl, "oncall", '{"task_count": 4}')
    assert said.code == Exit.UNVERIFIED
    for part in ("task_count", "1. ", "touches", "not verified by Spark: no container is live"):
        assert part in said.out
    planned = json.loads(shell("plan", etl, "oncall", '{"task_count": 4}', "--json", "--no-verify").ok())
    assert [change["field"] for change in planned["fields"]] == ["task_count"]
    assert json.loads(shell("layers", "show", etl, "oncall").ok())["version"] == 0


def test_the_history_tells_what_changed(shell: Shell, etl: str) -> None:
    shell("layers", "patch", etl, "oncall", '{"task_count": 2}').ok()
    shell("override", etl, '{"task_count": 4}', "--reason", "peak").ok()
    shell("restart", etl, "--reason", "stuck").ok()
    said = shell("history", etl).ok()
    for part in ("task_count: 2 -> 4", "peak", "stuck", "first release"):
        assert part in said
    actions = [entry["action"] for entry in json.loads(shell("history", etl, "--json").ok())["entries"]]
    assert actions == ["restart", "patch", "patch", "create"]


def test_a_quarantined_job_is_released(shell: Shell, etl: str, service: RunningJobService) -> None:
    with transaction(service.engine) as connection:
        connection.execute(
            text("INSERT INTO sync_state (job, revision, state) VALUES ('etl', 1, 'quarantined')"),
        )
    assert "quarantined" in shell("jobs", "list").ok()
    assert shell("release", etl, "--reason", "topic is back").ok().startswith("release etl: revision ")
    assert json.loads(shell("jobs", "show", etl).ok())["state"] == "pending"


def test_what_runs_where_and_what_nobody_knows(shell: Shell, etl: str, service: RunningJobService) -> None:
    """1. Nothing was committed yet. 2. One of two tasks is reported: the other's figures are unknown, and so are their
    sums."""
    assert json.loads(shell("tasks", etl, "--json").ok()) == {"job": etl, "tasks": []}
    assert shell("tasks", etl).ok() == "etl has no tasks yet: it is pending, see `penstock watch etl`\n"
    _run_one_task_of(etl, service)
    said = shell("tasks", etl).ok()
    assert "1,234,567" in said
    assert "unknown" in said
    assert [task["state"] for task in json.loads(shell("tasks", etl, "--json").ok())["tasks"]] == ["running", "unknown"]

    assert "tm-1" in shell("containers").ok()
    container = json.loads(shell("containers", "--json").ok())["containers"][0]
    assert (container["shards"], container["tasks"]) == (1, 1)
    said = shell("shards").ok()
    assert said.startswith(f"{SHARDS} shards\n")
    assert {"nobody", "tm-1"} <= set(said.split())
    assert len(json.loads(shell("shards", "--json").ok())["shards"]) == SHARDS
    assert f"{SHARDS} shards, changing to {2 * SHARDS}" in shell("shards", "--set", str(2 * SHARDS)).ok()

    said = shell("top", "--updates", "2", "--every", "0.1", "--prefix", "e").ok()
    assert "1/2" in said
    assert "1,234,567" not in said


def test_a_job_that_crashes_is_found_and_its_error_is_shown_whole(
    shell: Shell, etl: str, service: RunningJobService
) -> None:
    """1. It crashed three times: the list has the first line of the error, the tasks have all of it. 2. It runs well
    again: nothing of it is shown."""
    error = "ValueError: " + "no delay " * 40 + "\n" + "\n".join(f"  at rules.py:{line} in late" for line in range(12))
    _run_one_task_of(etl, service, state=TaskState.CRASHED, crashes=3, error=error)
    listed = shell("jobs", "list", "--health", "crashing").ok()
    assert f"etl: task 0: crashes again and again: {error.splitlines()[0]}\n" in listed
    assert "crashing" in listed
    assert shell("jobs", "list", "--health", "healthy").ok() == "none\n"
    assert f"etl/0: {error}\n" in shell("tasks", etl).ok()
    assert json.loads(shell("jobs", "show", etl).ok())["reason"].endswith(error.strip())
    _run_one_task_of(etl, service, progress=TaskProgress(batch_id=1, backlog_records=0), crashes=1, error=error)
    assert "ValueError" not in shell("tasks", etl).ok()


def _run_one_task_of(job: str, service: RunningJobService, **facts: Any) -> None:
    commit_job(service.engine, job, task_count=2)
    shard = shard_of(task_id(job, 0), SHARDS)
    with transaction(service.engine) as connection:
        ask_for_shards(connection, SHARDS)
        ensure_shards(connection, SHARDS)
    progress = facts.pop("progress", TaskProgress(backlog_records=1_234_567, processed_rows_per_second=50.0))
    _report(job, 0, "tm-1", progress, service, **facts)
    with transaction(service.engine) as connection:
        record_owners(connection, {shard: Change("tm-1", read_owners(connection)[shard].epoch)})


def _report(
    job: str, index: int, container: str, progress: TaskProgress, service: RunningJobService, **facts: Any
) -> None:
    reported = {"state": TaskState.RUNNING, "progress": progress, **facts}
    report = TaskReport(job=job, index=index, revision=1, generation=1, restarts=0, epoch=1, **reported)
    batch = TaskReportBatch(container=container, incarnation="life", commit_number=1, version=1, tasks=(report,))
    with transaction(service.engine) as connection:
        register(connection, Member(container, "life", "http://127.0.0.1:7100", "local", 2.0, 2**32, 2**34), empty=True)
        save_report(connection, batch)


def test_open_alerts(shell: Shell, etl: str, service: RunningJobService) -> None:
    assert shell("alerts").ok() == "none\n"
    with transaction(service.engine) as connection:
        raise_alert(connection, AlertKind.QUARANTINED, etl, "failed 3 times [sync]")
    assert "failed 3 times [sync]" in shell("alerts").ok()
    shown = json.loads(shell("alerts", "--json").ok())["alerts"][0]
    assert (shown["subject"], shown["severity"], shown["runbook"]) == (etl, "page", "services/ALERTS.md#quarantined")
    assert "services/ALERTS.md#quarantined" in shell("alerts", "-o", "wide").ok()
    assert "runbook" not in shell("alerts").ok()


def test_no_table_is_wider_than_120_columns(shell: Shell, etl: str, service: RunningJobService) -> None:
    _run_one_task_of(etl, service)
    shell("override", etl, '{"task_count": 4}', "--reason", "a reason " * 30).ok()
    commands = (
        *(("jobs", "list"), ("explain", etl, "--all"), ("history", etl), ("tasks", etl), ("containers",)),
        ("metrics", etl, "--last", "14d"),
    )
    for words in (*commands, ("fields",), ("tokens", "list"), ("plan", etl, "oncall", '{"priority": 2}')):
        assert max(map(len, shell(*words).ok().splitlines())) <= COLUMNS, words


def test_a_token_is_made_listed_used_and_revoked(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conflict on its name is told, what it may not do is refused, and after its end it is no token."""
    made = shell("tokens", "create", "robot", "--role", "oncall", "--layer", "scaler").ok()
    assert "robot (oncall), shown only now: pst_" in made
    assert "Conflict: " in shell("tokens", "create", "robot", "--role", "reader").refusal()
    listed = shell("tokens", "list").ok()
    assert "scaler" in listed
    shell("tokens", "revoke", "robot").ok()
    monkeypatch.setenv("PENSTOCK_TOKEN", made.split()[-1])
    assert "Unauthenticated: " in shell("jobs", "list").refusal()


def test_a_topic_is_deleted_unless_a_job_uses_it(
    shell: Shell, etl: str, service: RunningJobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A job reads, writes or rejects to it. 2. It is nobody's. 3. It is said; or nobody can be asked."""
    deleted: list[str] = []
    monkeypatch.setattr(topics, "delete_topic", lambda _, name: deleted.append(name))
    shell("layers", "patch", etl, "base", '{"dead_letter_topic": "rejected"}', "--no-verify").ok()
    config = json.loads(shell("jobs", "show", etl).ok())["config"]
    used = ["rejected", config["output"]["topic"], *(source["topic"] for source in config["inputs"].values())]
    for topic in used:
        assert f"{topic} is a topic of {etl}" in shell("topics", "delete", topic).refusal()
    shell("topics", "delete", "other").ok()
    shell("topics", "delete", used[0], "--force").ok()
    monkeypatch.setenv("PENSTOCK_URL", f"http://127.0.0.1:{free_port()}")
    assert "--force" in shell("topics", "delete", used[1]).refusal()
    assert deleted == ["other", used[0]]


def test_a_topic_of_a_cluster_that_the_cell_does_not_name_is_not_deleted_unasked(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cell's jobs may know these brokers by another name."""
    deleted: list[str] = []
    monkeypatch.setattr(topics, "delete_topic", lambda kafka, name: deleted.append(f"{name}@{kafka.cluster}"))
    monkeypatch.setenv("PENSTOCK_KAFKA_CLUSTERS", '{"eu": {"bootstrap": "eu:9092"}}')
    delete = ("topics", "delete", "orders", "--cluster")
    told = shell(*delete, "eu").refusal()
    assert "the cell has no Kafka cluster eu; there are none" in told
    assert "(field cluster, rule known_cluster)" in told
    assert "no Kafka cluster us in PENSTOCK_KAFKA_CLUSTERS; there are: eu" in shell(*delete, "us", "--force").refusal()
    shell(*delete, "eu", "--force").ok()
    assert deleted == ["orders@eu"]


def test_a_package_is_deleted_unless_a_job_uses_it(shell: Shell, tmp_path: Path) -> None:
    """1. Version 1 is a job's. 2. Version 2 is nobody's. 3. The job takes another: version 1 may go."""
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "rules.py").write_text("LIMIT = 3\n")
    for version in ("1", "2", "3"):
        shell("packages", "pack", str(folder), "rules", version).ok()
    package = {"package": {"name": "rules", "version": "1"}, "query": {"python": "rules:query"}}
    config = {**CONFIG, **package}
    shell("jobs", "apply", "ruled", json.dumps(config), "--no-verify").ok()
    refused = shell("packages", "delete", "rules", "1").refusal()
    assert "rules 1 is the package of ruled" in refused
    assert shell("packages", "delete", "rules", "2").ok() == f"deleted {tmp_path / 'packages' / 'rules-2.zip'}\n"
    assert "there are: rules-1.zip, rules-3.zip" in shell("packages", "delete", "rules", "2").refusal()
    shell("layers", "patch", "ruled", "base", '{"package": {"version": "3"}}', "--no-verify").ok()
    shell("packages", "delete", "rules", "1").ok()


def test_a_dry_run_shows_the_plan_and_writes_nothing(shell: Shell) -> None:
    """Of a job that does not exist, of one that does, and of one that would be refused. A long text stands whole."""
    sql = (
        "SELECT " + ", ".join(f"concat(dest, '{number}') AS column_{number}" for number in range(20)) + " FROM flights"
    )
    config = {**CONFIG, "query": {"sql": sql}}
    said = shell("jobs", "apply", "new", json.dumps(config), "--dry-run", "--no-verify").ok()
    assert said.endswith("dry run: nothing was written\n")
    assert f"  + {sql}" in said.splitlines()
    assert "NotFound" in shell("jobs", "show", "new").refusal()

    shell("jobs", "apply", "new", json.dumps(CONFIG), "--no-verify").ok()
    said = shell("jobs", "apply", "new", json.dumps(config), "--dry-run", "--no-verify").ok()
    assert [line for line in said.splitlines() if line.startswith("  - ")] == [f"  - {CONFIG['query']['sql']}"]
    assert json.loads(shell("layers", "show", "new", "base").ok())["version"] == 1
    assert "InvalidConfig" in shell("jobs", "apply", "new", json.dumps({**CONFIG, "owner": 7}), "--dry-run").refusal()


def test_a_job_is_stopped_and_started_in_the_layer_that_counts(shell: Shell, etl: str) -> None:
    """1. A stop goes to `oncall`, for ever. 2. A start takes it back. 3. A layer that ends is not made to last unseen.
    4. A stop in the job's own definition is overruled in that layer."""
    stopped = shell("jobs", "stop", etl, "--reason", "quiet night").ok()
    assert stopped.startswith("patch etl oncall: ")
    assert "ends" not in stopped
    assert shell("jobs", "stop", etl).ok() == "etl is stopped already, by the layer oncall\n"
    assert shell("jobs", "start", etl).ok().startswith("drop etl oncall: ")
    assert "etl is already set to run" in shell("jobs", "start", etl).ok()

    shell("override", etl, '{"priority": 1}', "--reason", "peak", "--for", "30m").ok()
    assert "(field for, rule given_when_the_layer_expires)" in shell("jobs", "stop", etl).refusal()
    assert "ends in 59m" in shell("jobs", "stop", etl, "--for", "1h").ok()
    assert "ends in 59m" in shell("jobs", "start", etl).ok()
    assert json.loads(shell("layers", "show", etl, "oncall").ok())["config"] == {"priority": 1}

    shell("layers", "patch", etl, "base", '{"desired_state": "stopped"}').ok()
    assert shell("jobs", "start", etl).ok().startswith("patch etl base: ")
    assert json.loads(shell("jobs", "show", etl).ok())["config"]["desired_state"] == "running"


def test_waiting_ends_with_a_reason(shell: Shell, etl: str, service: RunningJobService) -> None:
    """1. Nothing runs the job: exit code 3, and what it waits for. 2. The State Syncer gave up: exit code 1."""
    late = shell("jobs", "start", etl, "--wait", "--timeout", "1s")
    assert late.code == 3
    waits = "TimeoutError: not done after 1 s, Penstock continues: etl is pending: waits for the State Syncer\n"
    assert late.err == f"{waits}  try: penstock watch etl\n"
    with transaction(service.engine) as connection:
        insert = "INSERT INTO sync_state (job, revision, state, detail) VALUES ('etl', 1000000, 'failed', 'no room')"
        connection.execute(text(insert))
    assert "etl is failed: no room" in shell("jobs", "start", etl, "--wait").refusal()


def test_lag_is_shown_in_seconds_where_it_is_known(shell: Shell, etl: str, service: RunningJobService) -> None:
    """One of two tasks is reported: its own lag is known, the job's is not. Then the other one lags more."""
    _run_one_task_of(etl, service)
    lags = [task["lag_seconds"] for task in json.loads(shell("tasks", etl, "--json").ok())["tasks"]]
    assert lags == [pytest.approx(1_234_567 / 50.0), None]
    assert json.loads(shell("jobs", "show", etl).ok())["lag_seconds"] is None

    progress = TaskProgress(backlog_records=600_000, processed_rows_per_second=10.0, input_rows_per_second=8.0)
    _report(etl, 1, "tm-2", progress, service)
    shown = json.loads(shell("jobs", "list", "--json").ok())["jobs"][0]
    assert (shown["backlog_records"], shown["lag_seconds"], shown["rows_per_second"]) == (1_834_567, 60_000.0, None)
    _report(etl, 1, "tm-2", progress.model_copy(update={"oldest_unread_seconds": 70_000.0}), service)
    assert json.loads(shell("jobs", "list", "--json").ok())["jobs"][0]["lag_seconds"] == 70_000.0
    assert json.loads(shell("tasks", etl, "--json").ok())["tasks"][1]["lag_seconds"] == 70_000.0
    _report(etl, 1, "tm-2", progress, service)
    for words in (("jobs", "list"), ("tasks", etl), ("top", "--updates", "1")):
        assert "60,000.0" in shell(*words).ok()


def test_the_store_is_made_and_the_first_admin_told_once(lone_shell: Shell, empty_database_url: str) -> None:
    assert "(field database_url, rule required)" in lone_shell("init").refusal()
    assert "(field database_url, rule url)" in lone_shell("init", "--database-url", "no address").refusal()
    nowhere = f"postgresql://127.0.0.1:{free_port()}/penstock"
    assert "Unavailable: " in lone_shell("init", "--database-url", nowhere).refusal()
    assert "admin token, shown only now: pst_" in lone_shell("init", "--database-url", empty_database_url).ok()
    again = lone_shell("init", "--database-url", empty_database_url).ok()
    assert again.startswith("the store is up to date\nan admin token exists already; ")


def test_a_service_that_is_down_and_an_address_that_is_none(lone_shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (("jobs", "list"), ("top",), ("jobs", "apply", "etl", "{}")):
        assert "cannot be reached" in lone_shell(*words).refusal()
    monkeypatch.setenv("PENSTOCK_URL", "http://127.0.0.1:port")
    assert "(field PENSTOCK_URL, rule url)" in lone_shell("jobs", "list").refusal()
    monkeypatch.delenv("PENSTOCK_TOKEN")
    assert "Unauthenticated: no token" in lone_shell("jobs", "list").refusal()
