"""Every command line, environment and health check of the files of deployment, without a container engine.

Each process runs as another account, in a network of its own, on a root that it cannot write. It has the rights of its
role in the store and the identity that an operator would issue. Services do not see Java's and Spark's packages.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from penstock.control.process import start_child, stop_group, wait_until
from penstock.identity.authority import read
from penstock.local.kafka import kafka_command
from penstock.store.engine import transaction
from penstock.store.roles import grant_roles
from tests.support.deploy import chart, described
from tests.support.deploy.cell import (
    Running,
    boxed,
    give,
    lone_box,
    observer,
    store_of,
    url_in_a_box,
    wait_until_healthy,
)
from tests.support.deploy.described import Process
from tests.support.stack.prometheus import FOLDER, tool

_START_SECONDS = 90.0
_NO_HOSTS = {"PENSTOCK_WARM_HOSTS": "0"}
"""No Spark host, whose JVM would cost more than all else."""

_PATH = {"PATH": "/usr/bin:/bin"}
_SETTINGS, _CLUSTER = "/settings/server.properties", "--cluster-id=AAAAAAAAAAAAAAAAAAAAAA"


def _check_of(name: str) -> list[str]:
    """The health check of a service of Compose."""
    way, *words = described.composed(name)["healthcheck"]["test"]
    assert way == "CMD"
    return list(words)


def _containers(engine: Engine) -> list[tuple[str, str]]:
    with transaction(engine) as connection:
        return [(row.name, row.url) for row in connection.execute(text("SELECT name, url FROM containers"))]


def _check(running: list[Running], engine: Engine) -> None:
    """1. All are healthy, and alive as the chart asks. 2. The Task Manager has joined, by the names of the network. 3.
    SIGTERM: each ends with 0."""
    wait_until_healthy(running, _START_SECONDS)
    asked = [(each, each.box.run(each.described.alive, each.environment)) for each in running if each.described.alive]
    assert [(each.described.service, said.stderr) for each, said in asked if said.returncode != 0] == []
    assert len(asked) in (0, len(running))
    [manager] = [each for each in running if each.described.is_task_manager]
    place = (manager.environment["PENSTOCK_CONTAINER"], manager.environment["PENSTOCK_PUBLIC_URL"])
    wait_until(lambda: _containers(engine) == [place], _START_SECONDS, "the container to join")
    assert {each.described.service: stop_group(each.child, 40) for each in running} == {
        each.described.service: 0 for each in running
    }


@pytest.mark.long  # unit tests compare what the files say with what the processes know
@pytest.mark.parametrize(
    "describe",
    [described.compose, described.compose_secured, described.helm, described.systemd, described.systemd_secured],
)
def test_all_processes_run(
    describe: Callable[[], tuple[Process, ...]], engine: Engine, database_url: str, tmp_path: Path
) -> None:
    with transaction(engine) as connection:
        grant_roles(connection)
    with boxed(describe(), database_url, tmp_path, **_NO_HOSTS) as running:
        _check(running, engine)


@pytest.mark.long
def test_a_spark_host_gets_warm_on_a_root_that_it_cannot_write(
    engine: Engine, database_url: str, tmp_path: Path
) -> None:
    """With the environment of Compose. What Java, Spark and the host write is in the folders of the container."""
    with transaction(engine) as connection:
        grant_roles(connection)
    with boxed(described.compose(), database_url, tmp_path) as running:
        wait_until_healthy(running, _START_SECONDS)
        [manager] = [each for each in running if each.described.is_task_manager]
        wait_until(lambda: "host ready" in manager.log.read_text(), _START_SECONDS, "the host to be warm")
        assert stop_group(manager.child, 40) == 0
    assert "Read-only file system" not in manager.log.read_text()


@pytest.mark.long
def test_prometheus_of_compose_reads_the_metrics_of_every_process(
    engine: Engine, database_url: str, tmp_path: Path
) -> None:
    """By TLS, as an observer. The second Task Manager of the file does not run here, and is seen as down."""
    with transaction(engine) as connection:
        grant_roles(connection)
    check = _check_of("prometheus")
    asked = ("promtool", "query", "instant", "http://127.0.0.1:9090", "count by (process) (up == 1)")
    with boxed(described.compose(), database_url, tmp_path, **_NO_HOSTS) as running:
        wait_until_healthy(running, _START_SECONDS)
        box = observer(running[0], tmp_path, {"/etc/prometheus": FOLDER}, "/prometheus")
        words = (tool("prometheus"), *described.composed("prometheus")["command"])
        child = start_child(box.command(words, {}), log_path=tmp_path / "prometheus.log")
        try:
            wait_until(lambda: box.run(asked, {}).stdout.count("=> 1 @") == len(running), 60, "all to be scraped")
            assert box.run(check, _PATH).returncode == 0
        finally:
            stop_group(child, 20)
        assert box.run(check, _PATH).returncode != 0, "nobody answers any more"


@pytest.mark.long
def test_kafka_of_compose_starts_by_its_environment_and_its_health_check_tells(
    database_url: str, tmp_path: Path
) -> None:
    """With the broker of the tests, another release than that of the image. The image makes its settings of the
    variables: `KAFKA_NODE_ID` is `node.id`. 1. Nobody listens. 2. It runs. 3. It was stopped."""
    variables = described.composed("kafka")["environment"]
    settings = {name.removeprefix("KAFKA_").lower().replace("_", "."): value for name, value in variables.items()}
    (folder := tmp_path / "settings").mkdir()
    (folder / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    give(folder, store_of(database_url).owner())
    written, readable = {settings["log.dirs"]: tmp_path / "data"}, {"/settings": folder}
    tool("nc", of="netcat-openbsd")
    with lone_box(tmp_path, store_of(database_url), written, readable) as box:
        assert box.run(_check_of("kafka"), _PATH).returncode != 0
        made = box.run(kafka_command("kafka.tools.StorageTool", "format", _CLUSTER, "--config", _SETTINGS), _PATH)
        assert made.returncode == 0, made.stderr
        child = start_child(box.command(kafka_command("kafka.Kafka", _SETTINGS), _PATH), log_path=tmp_path / "log")
        try:
            wait_until(lambda: box.run(_check_of("kafka"), _PATH).returncode == 0, _START_SECONDS, "Kafka to be well")
        finally:
            stop_group(child, 30)
        assert box.run(_check_of("kafka"), _PATH).returncode != 0


@pytest.mark.long
def test_what_compose_runs_once_makes_the_store_and_an_identity_for_each_process(
    empty_database_url: str, tmp_path: Path
) -> None:
    """1. `migrate`, in an empty database. 2. `identity`. 3. `migrate` of the next start, and of the chart's upgrade."""
    owner = {"PENSTOCK_DATABASE_URL": url_in_a_box("postgres", empty_database_url)}
    written = {f"/{name}": tmp_path / name for name in ("authority", "identity")}
    (migrate, environment), (issue, of_issue) = described.command_of("migrate"), described.command_of("identity")
    [job] = [each for each in chart.rendered() if each["kind"] == "Job"]
    with lone_box(tmp_path, store_of(empty_database_url), written, {}) as box:
        first = box.run(migrate, environment | owner)
        assert "admin token, shown only now: " in first.stdout, first.stderr
        issued = box.run(issue, of_issue | owner)
        assert issued.returncode == 0, issued.stderr
        again = box.run(migrate, environment | owner)
        assert "an admin token exists already" in again.stdout, again.stderr
        words = ["python", "-m", *job["spec"]["template"]["spec"]["containers"][0]["args"]]
        upgraded = box.run(words, environment | owner | {"PENSTOCK_IDENTITY_DIR": "/tmp/unused"})
        assert "the store is up to date" in upgraded.stdout, upgraded.stderr
    assert (tmp_path / "identity" / "observer" / "observer.key").stat().st_mode & 0o777 == 0o644
    for each in described.compose():
        folder = tmp_path / "identity" / each.hosts[0]
        [certificate] = [path for path in folder.glob("*.crt") if path.name != "authority.crt"]
        assert each.hosts[0] in read(certificate.read_bytes(), "cell").hosts
        assert (folder / f"{certificate.stem}.key").stat().st_mode & 0o077 == 0


@pytest.mark.long
def test_a_pod_of_the_chart_keeps_its_own_identity_alone(database_url: str, tmp_path: Path) -> None:
    [found] = [each for each in chart.rendered() if each["kind"] == "StatefulSet"]
    [before] = found["spec"]["template"]["spec"]["initContainers"]
    everybodys = tmp_path / "all"
    everybodys.mkdir(mode=0o700)
    pods = [f"cell-task-manager-{index}" for index in (0, 1)]
    names = ["authority.crt", *(f"task_manager.{pod}.{kind}" for pod in pods for kind in ("crt", "key"))]
    for name in names:
        (everybodys / name).write_text(name)
    give(everybodys, store_of(database_url).owner())
    kept = {"/identity": tmp_path / "identity"}
    with lone_box(tmp_path, store_of(database_url), kept, {"/all": everybodys}) as box:
        said = box.run(before["command"], {**described.image_environment(), "PENSTOCK_CONTAINER": pods[1]})
    assert said.returncode == 0, said.stderr
    assert sorted(path.name for path in (tmp_path / "identity").iterdir()) == [names[0], *names[3:]]
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "identity").iterdir())
