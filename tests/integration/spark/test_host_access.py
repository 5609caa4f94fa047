"""What a job's code finds in a host and around it: a real job whose Python looks everywhere that it can."""

from __future__ import annotations

import json
import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.access import with_access
from penstock.spark.channel import Lease, Start
from penstock.spark.checkpoint import last_commit, last_offset
from penstock.spark.host.exits import ExitReason
from penstock.spark.packages import pack
from penstock.spark.settings import SparkSettings
from penstock.tasks.spec import TaskSpec
from services.task_manager.decide.host_choice import host_key
from services.task_manager.hosts.account import prepare
from tests.support.spark.hosts import (
    END_SECONDS,
    REPLY_SECONDS,
    Supervisor,
    job_config,
    jvm_pid,
    make_topic,
    produce,
    rows_of_files,
    running_host,
    settings_for,
    task_spec,
    wait_gone,
)

ACCOUNT = "nobody"
MINE = "the-value-of-my-secret"
OF_THE_HOST = "key-of-the-lake"
CODE = """
import glob, json, os

def look(private, secrets):
    found = {"environ": dict(os.environ), "uid": os.getuid(), "secrets": secrets, "read": {}}
    for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline") + private:
        try:
            with open(path, "rb") as stream:
                found["read"][path] = stream.read().decode("latin-1")
        except OSError:
            pass
    return json.dumps(found)

def driver(session, inputs, args, secrets):
    from pyspark.sql import functions as F
    return inputs["events"].select("n", F.lit(look(json.loads(args["private"]), secrets)).alias("word"))

def worker(session, inputs, args):
    from pyspark.sql import functions as F
    private = json.loads(args["private"])
    seen = F.udf(lambda word: look(private, None), "string")
    return inputs["events"].select("n", seen("word").alias("word"))

def told(session, inputs, args, secrets):
    raise ValueError(f"the server refused {secrets['api']}")
"""
SECRETS = {
    "PENSTOCK_DATABASE_URL": "postgresql://owner:store-password@127.0.0.1/penstock",
    "PENSTOCK_SCALER_TOKEN": "pst_token-of-the-scaler",
    "PENSTOCK_STATE_SYNCER_TOKEN": "pst_token-of-the-syncer",
    "AWS_SECRET_ACCESS_KEY": "cloud-key-of-the-cell",
}
OF_OTHERS = ("store-password", "pst_token", "cloud-key", "of-another-job", "url-of-others", "bytes-of-the-admin-token")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Not below pytest's own folder, which each run of pytest closes to other accounts."""
    with tempfile.TemporaryDirectory(prefix="penstock-access-") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def private(folder: Path) -> list[str]:
    """Files of the control plane, as `penstock up` and a Task Manager keep them."""
    names = ("admin.token", "stack.json", "containers/a/specs.db", "containers/a/identity.key")
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("bytes-of-the-admin-token")
        path.chmod(0o600)
    return [str(folder / name) for name in names]


@pytest.fixture(scope="module")
def settings(kafka: EmbeddedKafka, folder: Path) -> SparkSettings:
    """A Task Manager's, with secrets and connections of several jobs; hosts run as an account of their own."""
    values = folder / "secrets"
    values.mkdir(mode=0o700)
    (values / "mine").write_text(MINE)
    (values / "theirs").write_text("of-another-job")
    source = folder / "source"
    source.mkdir()
    (source / "nosy.py").write_text(CODE)
    pack(source, "nosy", "1", folder / "packages")
    found = settings_for(
        folder,
        kafka.bootstrap,
        secrets_root=values,
        connections={"theirs": "postgresql://u:url-of-others@127.0.0.1/x"},
        path_roots=(str(folder / "outputs"),),
        host_user=ACCOUNT if os.geteuid() == 0 else None,
        lease_grace_seconds=5.0,
        spark_conf={"spark.hadoop.own.secret.key": OF_THE_HOST},
    )
    prepare(found, folder / "hosts")
    scratch = Path(str(found.spark_local_dir))
    scratch.mkdir()
    if found.host_user is not None:
        os.chown(scratch, pwd.getpwnam(ACCOUNT).pw_uid, -1)
    return found


@pytest.fixture(scope="module")
def host(settings: SparkSettings, folder: Path) -> Iterator[Supervisor]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        with running_host("nosy", settings, folder) as supervisor:
            yield supervisor


@pytest.fixture
def topic(kafka: EmbeddedKafka) -> str:
    topic = make_topic(kafka.bootstrap, 1)
    produce(kafka.bootstrap, topic, [{"n": 0, "word": "a"}], 1)
    return topic


def nosy(topic: str, folder: Path, function: str, private: list[str], **more: Any) -> TaskSpec:
    query = {"query": {"python": f"nosy:{function}"}, "package": {"name": "nosy", "version": "1"}}
    output = {"type": "files", "path": str(folder / "outputs" / function)}
    return task_spec(function, job_config(topic, 1, output, args={"private": json.dumps(private)}, **query, **more))


def start(host: Supervisor, settings: SparkSettings, spec: TaskSpec) -> Any:
    """As a Task Manager sends it."""
    command = with_access(Start(id=0, spec=spec, epoch=1), settings)
    return host.host.send(command).result(REPLY_SECONDS)


@pytest.mark.parametrize(
    ("function", "secrets"), [("driver", {"api": "mine"}), pytest.param("worker", {}, marks=pytest.mark.long)]
)
def test_code_of_a_job_sees_its_own_secrets_and_no_others(
    host: Supervisor,
    settings: SparkSettings,
    topic: str,
    folder: Path,
    private: list[str],
    function: str,
    secrets: dict[str, str],
) -> None:
    """1. The job runs and commits. 2. Its code reads its environment, those of all processes that the kernel lets it,
    command lines, and files of the control plane. 3. It is stopped. 4. In all that it found is no secret of others."""
    spec = nosy(topic, folder, function, private, secrets=secrets)
    reply = start(host, settings, spec)
    assert reply.ok, reply.error
    host.wait_for_records(spec.task_id, 1)
    assert host.stop(spec.task_id, finish_pending=True).result["clean"]
    (word,) = rows_of_files(folder / "outputs" / function / "g1" / "task-0")["word"]
    found = json.loads(word)
    assert found["secrets"] == ({"api": MINE} if secrets else None)
    assert not [each for each in OF_OTHERS if each in json.dumps(found["environ"])]
    assert MINE not in json.dumps(found["environ"])
    jvm = host.host.ready.result().jvm_pid
    # Its own processes can be read. Those of the control plane only by the same account.
    assert {f"/proc/{pid}/environ" for pid in (jvm, host.host.pid)} <= found["read"].keys()
    own = {f"/proc/{each.pid}/" for each in [psutil.Process(host.host.pid), *_below(host.host.pid), *_below(jvm)]}
    seen = {path: text for path, text in found["read"].items() if os.geteuid() == 0 or path.startswith(tuple(own))}
    # The test's process, which is the supervisor, has `SECRETS` only after its start: `environ` shows none of them.
    assert not [(each, path) for path, text in seen.items() for each in OF_OTHERS if each in text]
    # What all jobs of a host use, each of them can read; other accounts cannot.
    assert OF_THE_HOST in found["environ"]["PENSTOCK_SPARK_CONF"]
    assert not [path for path, text in found["read"].items() if path.endswith("cmdline") and OF_THE_HOST in text]
    if os.geteuid() == 0:
        assert found["uid"] == pwd.getpwnam(ACCOUNT).pw_uid
        assert f"/proc/{os.getpid()}/environ" not in found["read"]
        assert not set(private) & found["read"].keys()


def _below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def test_no_error_and_no_log_of_a_host_shows_a_value(
    host: Supervisor, settings: SparkSettings, topic: str, folder: Path, private: list[str]
) -> None:
    reply = start(host, settings, nosy(topic, folder, "told", private, secrets={"api": "mine"}))
    assert (reply.ok, reply.error_kind) == (False, "broken_task")
    assert "the server refused ***" in reply.error
    assert MINE not in host.log_path.read_text()


def test_a_secret_that_the_container_has_not_is_named(
    host: Supervisor, settings: SparkSettings, topic: str, folder: Path, private: list[str]
) -> None:
    reply = start(host, settings, nosy(topic, folder, "driver", private, secrets={"api": "absent"}))
    assert (reply.ok, reply.error_kind) == (False, "broken_task")
    assert "secrets.api: the container has no secret absent" in reply.error


@pytest.mark.parametrize("path", ["admin.token", "outputs/../admin.token", "outputs/link/admin.token"])
def test_a_table_outside_the_roots_is_not_read(
    host: Supervisor, settings: SparkSettings, topic: str, folder: Path, private: list[str], path: str
) -> None:
    link = folder / "outputs" / "link"
    if not link.is_symlink():
        link.symlink_to(folder)
    table = {"stolen": {"path": f"{folder}/{path}", "format": "csv", "table_schema": "word STRING"}}
    query = {"sql": "SELECT n, s.word FROM events CROSS JOIN stolen s"}
    output = {"type": "files", "path": str(folder / "outputs" / "thief")}
    reply = start(host, settings, task_spec("thief", job_config(topic, 1, output, tables=table, query=query)))
    assert (reply.ok, reply.error_kind) == (False, "broken_task")
    assert "tables.stolen.path: a job may not use" in reply.error


def test_a_host_of_code_with_secrets_is_its_jobs_own(topic: str, folder: Path) -> None:
    def key(job: str, **more: Any) -> Any:
        output = more.pop("output", {"type": "files", "path": str(folder / "outputs" / job)})
        return host_key(task_spec(job, job_config(topic, 1, output, **more)))

    python = {"query": {"python": "nosy:driver"}, "package": {"name": "nosy", "version": "1"}}
    postgres = {"output": {"type": "postgres", "table": "t"}}
    assert key("a") == key("b")
    assert key("a", **postgres) == key("b", **postgres) == key("a")
    assert key("a", **python) == key("b", **python)
    for keeps in (python | {"secrets": {"api": "mine"}}, python | postgres):
        assert len({key("a", **keeps), key("b", **keeps), key("a", **python)}) == 3


def test_a_lease_that_runs_out_stops_the_tasks_and_then_the_host(
    host: Supervisor, settings: SparkSettings, topic: str, folder: Path
) -> None:
    """1. A task runs under leases. 2. No more leases: within seconds the host and its JVM are gone, by themselves.
    The last test of the file."""
    host.host.send(Lease(id=0, seconds=300)).result(REPLY_SECONDS)
    output = {"type": "files", "path": str(folder / "outputs" / "leased")}
    spec = task_spec("leased", job_config(topic, 1, output))
    checkpoint = start(host, settings, spec).result["checkpoint"]
    host.wait_for_records(spec.task_id, 1)
    assert host.host.send(Lease(id=0, seconds=1)).result(REPLY_SECONDS).ok
    assert host.exit.result(6 + END_SECONDS) is ExitReason.LEASE_LOST
    wait_gone(jvm_pid(host))
    assert last_offset(checkpoint) == last_commit(checkpoint)
    assert "lease ran out" in host.log_path.read_text()
