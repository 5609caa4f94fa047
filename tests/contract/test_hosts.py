"""The contract of Spark hosts: every command is answered once, nothing is said after the end, no call blocks."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.control.errors import BrokenTask
from penstock.control.masks import Masks
from penstock.control.process import wait_until
from penstock.spark.channel import Event, Exit, Lease, Live, Progress, Ready, Reply, Start, Stop
from penstock.spark.packages import pack
from services.task_manager.decide.host_choice import DEFAULT_KEY
from services.task_manager.decide.model import HostExit, HostKey
from services.task_manager.hosts.spark_host import SparkHost
from services.task_manager.hosts.spark_hosts import SparkHosts
from tests.support.spark.hosts import READY_SECONDS, settings_for
from tests.support.task_manager.fake_hosts import FakeHosts
from tests.support.task_manager.world import spec

NO_KAFKA = "127.0.0.1:1"


class SparkForm:
    key = DEFAULT_KEY

    def __init__(self, folder: Path) -> None:
        self.settings = settings_for(folder, NO_KAFKA, spark_master="local[1]")
        self.hosts = SparkHosts(self.settings, folder / "hosts", Masks())
        self._folder = folder

    def broken(self) -> SparkHosts:
        """There is no folder for it to write to."""
        file = self._folder / "file"
        file.touch()
        return SparkHosts(self.settings, file, Masks())

    def break_task(self, host: str, task_id: str) -> None:
        """The task reads a table that is not there."""

    def pump(self) -> None:
        """Real hosts act by themselves."""


class OwnPythonForm(SparkForm):
    """A host that waits for the environment of its package."""

    key = HostKey(package=("own", "1", ""))

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (source := folder / "source").mkdir()
        (source / "job.py").write_text("")
        pack(source, "own", "1", self.settings.packages_root, [("_dependencies/manners.py", b"")])

    def broken(self) -> SparkHosts:
        """The same before anything is built: there is no such package."""
        (self.settings.packages_root / "own-1.zip").unlink()
        return super().broken()


class FakeForm:
    key = DEFAULT_KEY

    def __init__(self) -> None:
        self.fakes = FakeHosts()
        self.hosts = self.fakes

    def broken(self) -> FakeHosts:
        hosts = FakeHosts()
        hosts.broken = True
        return hosts

    def break_task(self, host: str, task_id: str) -> None:
        self.fakes.all[host].refuse[task_id] = "broken_task"

    def pump(self) -> None:
        for host in self.fakes.alive():
            host.answer()
            host.speak()


class Listener:
    """What hosts say."""

    def __init__(self, form: Any) -> None:
        self.form = form
        self.events: list[tuple[str, Event]] = []
        self.ended = threading.Event()

    def start(self, name: str) -> SparkHost:
        host: SparkHost = self.form.hosts.start(
            name, self.form.key, lambda *event: self.events.append(event), self.ended.set
        )
        return host

    def replies(self) -> list[Reply]:
        return [event for _, event in self.events if isinstance(event, Reply)]

    def is_ready(self) -> bool:
        self.form.pump()
        return any(isinstance(event, Ready) for _, event in self.events)

    def has_spoken(self) -> bool:
        self.form.pump()
        return any(event == Progress(tasks={}) for _, event in self.events)

    def await_replies(self, count: int) -> dict[int, Reply]:
        def enough() -> bool:
            self.form.pump()
            return len(self.replies()) >= count

        wait_until(enough, 30, f"{count} replies")
        assert len(self.replies()) == count
        return {reply.id: reply for reply in self.replies()}

    def await_end(self, host: SparkHost) -> HostExit:
        wait_until(lambda: (self.form.pump(), self.ended.is_set())[1], 60, "the end")
        how = host.exit()
        assert how is not None, "`on_exit` comes after the end"
        return how


@pytest.fixture(params=["spark", "fake", pytest.param("own python", marks=pytest.mark.long)])
def form(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "fake":
        return FakeForm()
    return SparkForm(tmp_path) if request.param == "spark" else OwnPythonForm(tmp_path)


def test_the_life_of_a_host(form: Any) -> None:
    """1. It becomes ready, and speaks without being asked. 2. Every command is answered once, by its own id, also where
    it is refused. 3. It is asked to end: it answers, ends, and tells so. 4. What is sent then is lost."""
    heard = Listener(form)
    host = heard.start("h1")
    try:
        wait_until(heard.is_ready, READY_SECONDS, "the host to be ready")
        wait_until(heard.has_spoken, 30, "progress, without any task")
        assert host.exit() is None
        assert {name for name, _ in heard.events} == {"h1"}
        form.break_task("h1", "flights/0")
        host.send(Lease(id=70, seconds=60.0))
        host.send(Stop(id=30, task_id="flights/0"))
        host.send(Live(id=50, spec=spec()))
        host.send(Start(id=40, spec=spec(), epoch=1))
        replies = heard.await_replies(4)
        assert {number: (reply.ok, reply.error_kind) for number, reply in replies.items()} == {
            70: (True, None),
            30: (True, None),
            50: (False, "retryable"),
            40: (False, "broken_task"),
        }
        host.send(Lease(id=20, seconds=60.0))
        assert heard.await_replies(5)[20].ok
        host.send(Exit(id=10))
        assert heard.await_end(host) == HostExit("asked")
        assert heard.await_replies(6)[10].ok
        host.send(Lease(id=80, seconds=60.0))
        host.kill()
        form.pump()
        assert heard.await_replies(6).keys() == {70, 30, 50, 40, 20, 10}
        assert host.exit() == HostExit("asked")
    finally:
        host.kill()


def test_a_host_that_cannot_start_leaves_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java refuses an option that it finds in the environment of the machine."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+NoSuchFlag")
    form = SparkForm(tmp_path)
    settings = form.settings.model_copy(update={"host_environment": ("JAVA_TOOL_OPTIONS",)})
    form.hosts = SparkHosts(settings, tmp_path / "hosts", Masks())
    heard = Listener(form)
    how = heard.await_end(heard.start("h1"))
    assert how.reason == "not started"
    assert "Unrecognized VM option 'NoSuchFlag'" in how.last_words
    assert how.why_not_started.startswith("not started: ")


def test_a_killed_host_ends_and_answers_nothing_more(form: Any) -> None:
    heard = Listener(form)
    host = heard.start("h1")
    host.send(Lease(id=1, seconds=60.0))
    host.kill()
    assert heard.await_end(host) == HostExit("killed")
    assert heard.replies() == []


def test_a_host_that_cannot_be_made_is_an_error_of_the_system(form: Any) -> None:
    hosts = form.broken()
    with pytest.raises((OSError, BrokenTask), match=r"processes|exists|Not a directory|is missing"):
        hosts.start("h1", form.key, lambda *event: None, lambda: None)
