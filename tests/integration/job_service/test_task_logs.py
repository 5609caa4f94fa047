"""The log of a task, from its host's file through a Task Manager's port and the Job Service to the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from penstock.control.errors import Conflict, Forbidden, NotFound
from penstock.control.masks import Masks
from penstock.local.ports import free_port
from penstock.store.engine import transaction
from services.task_manager.api import build_app
from services.task_manager.decide.model import Place
from services.task_manager.hosts.host_logs import HostLogs
from tests.support import identity
from tests.support.cli.shell import Shell, lone
from tests.support.control.serving import serving
from tests.support.job_service.service import CONFIG, RunningJobService, job_service
from tests.support.store.running import commit_job
from tests.support.task_manager.world import World

SECRET = "hunter2-hunter2"


@pytest.fixture
def service(database_url: str) -> Iterator[RunningJobService]:
    with job_service(database_url, identity.outgoing("job_service")) as running, running.client() as client:
        client.put_job("etl", CONFIG)
        commit_job(running.engine, "etl", task_count=2)
        yield running


@pytest.fixture
def log(service: RunningJobService, tmp_path: Path) -> Iterator[Path]:
    """The log of the host that runs task 0 in `c1`. Task 1 is in a container that does not answer."""
    logs = HostLogs("c1", tmp_path, lambda name: Place("h1", 2) if name == "etl/0" else None, lambda: [SECRET], Masks())
    app = build_app(World().container, identity.identity("task_manager/c1"), logs=logs)
    with serving(app, free_port()) as url:
        with transaction(service.engine) as connection:
            for index, (name, where) in enumerate((("c1", url), ("c2", f"http://127.0.0.1:{free_port()}"))):
                given = {"name": name, "url": where, "index": index}
                connection.execute(
                    text(
                        """
                        INSERT INTO containers (name, incarnation, url, region, cpu_cores, memory_bytes, disk_bytes,
                            state) VALUES (:name, 'i', :url, 'here', 2, 1, 1, 'live')
                        """
                    ),
                    given,
                )
                insert = (
                    "INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch)"
                    " VALUES ('etl', :index, :name, 'running', 1, 1, 0, 1)"
                )
                connection.execute(text(insert), given)
        yield tmp_path / "h1.log"


def test_a_log_is_read_in_parts_by_who_is_on_call(service: RunningJobService, log: Path) -> None:
    """1. The newest lines, then what came since, without secrets. 2. Not by a reader. 3. Not of a task that nobody
    reports, of one that does not exist, nor of a container that does not answer."""
    log.write_text(f"started\nkey {SECRET}\n")
    with service.client() as client:
        first = client.task_log("etl", 0)
        assert (first.text, first.host, first.container, first.tasks) == ("started\nkey ***\n", "h1", "c1", 2)
        log.write_text(log.read_text() + "more\n")
        assert client.task_log("etl", 0, host="h1", offset=first.end).text == "more\n"
        with pytest.raises(Conflict, match="the container of etl/1 does not answer"):
            client.task_log("etl", 1)
        with pytest.raises(NotFound, match="etl has 2 tasks: 0 to 1"):
            client.task_log("etl", 7)
        with pytest.raises(NotFound):
            client.task_log("other", 0)
        reader = client.create_token("ann", "reader")
        with transaction(service.engine) as connection:
            connection.execute(text("DELETE FROM tasks WHERE index = 1"))
        with pytest.raises(Conflict, match="no container reports etl/1"):
            client.task_log("etl", 1)
    with service.client(reader) as client, pytest.raises(Forbidden):
        client.task_log("etl", 0)


def test_a_log_is_shown_and_followed_in_a_terminal(
    service: RunningJobService,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """1. Of the first task. 2. Followed until Ctrl-C. 3. What is no task."""
    log.write_text("started\n\x1b[2Jcleared\n")
    with lone(monkeypatch, capsys, tmp_path) as shell:
        monkeypatch.setenv("PENSTOCK_URL", service.url)
        monkeypatch.setenv("PENSTOCK_TOKEN", service.admin)
        shown = shell("logs", "etl")
        assert shown.ok() == "started\n?[2Jcleared\n"
        assert shown.err.startswith("etl/0: host h1 of c1, which runs 2 tasks; ")
        assert _followed(shell, log, monkeypatch) == "started\n?[2Jcleared\nmore\n"
        assert "(field task, rule index)" in shell("logs", "etl", "one").refusal()
        assert "(field index, rule known)" in shell("logs", "etl", "etl/9").refusal()


def _followed(shell: Shell, log: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What `logs -f` prints when a line comes while it waits, and then Ctrl-C."""
    waits = iter([lambda: log.write_text(log.read_text() + "more\n")])

    def sleep(_: float) -> None:
        step = next(waits, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr("penstock.cli.logs.time.sleep", sleep)
    return shell("logs", "etl", "0", "-f").ok()
