"""The Java checkpoint file manager, called in a JVM of its own: publishing, and the fence around it."""

from __future__ import annotations

import fcntl
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from py4j import java_gateway, protocol
from py4j.protocol import Py4JJavaError

from penstock.control.process import kill_group, wait_until
from penstock.local.jars import share_dir
from penstock.spark.fence import FENCE
from penstock.spark.files import LOCAL_FILES
from penstock.spark.gateway import Jvm, start_jvm
from tests.support.spark.session import quick_jvm_settings

EXISTS = "org.apache.hadoop.fs.FileAlreadyExistsException"


@pytest.fixture(scope="module")
def java() -> Iterator[Jvm]:
    jvm = start_jvm({**quick_jvm_settings(share_dir() / "jars"), "spark.driver.memory": "300m"})
    yield jvm
    kill_group(jvm.process)


@pytest.fixture(autouse=True)
def _errors_as_java_gives_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session in this process makes pyspark look into its own JVM for what an error of any JVM means."""
    monkeypatch.setattr(java_gateway, "get_return_value", protocol.get_return_value)


@dataclass
class Manager:
    """A checkpoint file manager as Spark makes it for the log `folder` in `root`."""

    java: Any
    root: Path
    token: str | None = None
    fence: str | None = None
    scheme: str = ""
    folder: str = "offsets"
    more: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        self.settings = self.java.org.apache.hadoop.conf.Configuration()
        for name, value in self.more:
            self.settings.set(name, value)
        if self.token is not None:
            self.settings.set("penstock.fence.path", self.fence or f"{self.scheme}{self.root}/{FENCE}")
            self.settings.set("penstock.fence.token", self.token)
        self.spark = self.java.io.penstock.checkpoint.FencedCheckpointFileManager(self.path(self.folder), self.settings)

    def path(self, name: str) -> Any:
        return self.java.org.apache.hadoop.fs.Path(f"{self.scheme}{self.root}/{name}")

    def publish(self, name: str, text: str, *, overwrite: bool = False) -> None:
        stream = self.spark.createAtomic(self.path(name), overwrite)
        stream.write(text.encode())
        stream.close()


def failure(error: pytest.ExceptionInfo[Py4JJavaError]) -> tuple[str, str]:
    thrown = error.value.java_exception
    return thrown.getClass().getName(), thrown.getMessage()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_published_files_appear_whole_and_leave_nothing_behind(java: Jvm, tmp_path: Path) -> None:
    manager = Manager(java.gateway.jvm, tmp_path)
    stream = manager.spark.createAtomic(manager.path("offsets/0"), False)
    stream.write(b"v1")
    stream.flush()
    assert not (tmp_path / "offsets/0").exists()
    stream.close()
    assert (tmp_path / "offsets/0").read_text() == "v1"
    assert names(tmp_path / "offsets") == ["0"]


def test_a_cancelled_file_never_appears(java: Jvm, tmp_path: Path) -> None:
    manager = Manager(java.gateway.jvm, tmp_path)
    stream = manager.spark.createAtomic(manager.path("offsets/0"), False)
    stream.write(b"half")
    stream.cancel()
    assert names(tmp_path / "offsets") == []


def test_without_overwrite_the_first_one_stays(java: Jvm, tmp_path: Path) -> None:
    manager = Manager(java.gateway.jvm, tmp_path)
    manager.publish("offsets/0", "first")
    with pytest.raises(Py4JJavaError) as error:
        manager.publish("offsets/0", "second")
    assert failure(error)[0] == EXISTS
    assert (tmp_path / "offsets/0").read_text() == "first"
    assert names(tmp_path / "offsets") == ["0"]


def test_with_overwrite_the_last_one_stays(java: Jvm, tmp_path: Path) -> None:
    manager = Manager(java.gateway.jvm, tmp_path)
    manager.publish("state/1.delta", "first", overwrite=True)
    manager.publish("state/1.delta", "second", overwrite=True)
    assert (tmp_path / "state/1.delta").read_text() == "second"


def test_of_many_writers_at_once_one_wins(java: Jvm, tmp_path: Path) -> None:
    manager = Manager(java.gateway.jvm, tmp_path, LOCAL_FILES.claim(str(tmp_path), 1, "host"))

    def attempt(number: int) -> bool:
        try:
            manager.publish("offsets/7", str(number))
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != EXISTS:
                raise
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(40))) == 1
    assert names(tmp_path / "offsets") == ["7"]


def test_files_and_folders(java: Jvm, tmp_path: Path) -> None:
    manager = Manager(java.gateway.jvm, tmp_path)
    manager.publish("state/0/1.delta", "x")
    assert manager.spark.exists(manager.path("state/0"))
    assert [status.getPath().getName() for status in manager.spark.list(manager.path("state/0"))] == ["1.delta"]
    assert bytes(manager.spark.open(manager.path("state/0/1.delta")).readAllBytes()) == b"x"
    manager.spark.delete(manager.path("state"))
    manager.spark.delete(manager.path("state"))
    assert not manager.spark.exists(manager.path("state"))
    assert manager.spark.createCheckpointDirectory().toString() == f"file:{tmp_path}/offsets"


def test_no_process_is_forked_for_any_of_it(java: Jvm, tmp_path: Path) -> None:
    """Hadoop's local file system forks chmod and readlink. A fork adds to the time of ended children."""
    manager = Manager(java.gateway.jvm, tmp_path, LOCAL_FILES.claim(str(tmp_path), 1, "host"))
    before = minor_faults_of_children(java.process)
    for number in range(20):
        manager.publish(f"offsets/{number}", "x")
        manager.spark.mkdirs(manager.path(f"state/{number}"))
    manager.spark.createCheckpointDirectory()
    assert minor_faults_of_children(java.process) == before


def minor_faults_of_children(process: subprocess.Popen[bytes]) -> int:
    """Page faults of all children that the process has waited for: no child leaves this unchanged."""
    after_name = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(after_name[8])


def test_an_old_token_publishes_nothing(java: Jvm, tmp_path: Path) -> None:
    """1. A publishes. 2. B claims. 3. A is fenced, with and without overwrite. 4. B publishes."""
    old = Manager(java.gateway.jvm, tmp_path, LOCAL_FILES.claim(str(tmp_path), 1, "a"))
    old.publish("offsets/0", "a")
    new = Manager(java.gateway.jvm, tmp_path, LOCAL_FILES.claim(str(tmp_path), 2, "b"))
    for overwrite in (False, True):
        with pytest.raises(Py4JJavaError) as error:
            old.publish("offsets/1", "a", overwrite=overwrite)
        kind, message = failure(error)
        assert kind == "io.penstock.checkpoint.FencedException"
        assert message.startswith("FENCED: token 1.1 was replaced by 2.1")
    new.publish("offsets/1", "b")
    assert (tmp_path / "offsets/1").read_text() == "b"
    assert names(tmp_path / "offsets") == ["0", "1"]


def test_files_outside_of_the_checkpoint_are_fenced_too(java: Jvm, tmp_path: Path) -> None:
    """The log of a files sink is in its output folder."""
    checkpoint = tmp_path / "checkpoint"
    token, fence = LOCAL_FILES.claim(str(checkpoint), 1, "a"), str(checkpoint / FENCE)
    sink = Manager(java.gateway.jvm, tmp_path / "output", token, fence)
    sink.publish("_spark_metadata/0", "x")
    LOCAL_FILES.claim(str(checkpoint), 1, "a again")
    with pytest.raises(Py4JJavaError, match="FENCED"):
        sink.publish("_spark_metadata/1", "x")


@pytest.mark.parametrize("what", ["fence", "checkpoint"])
def test_a_fence_that_is_gone_is_not_passed(java: Jvm, tmp_path: Path, what: str) -> None:
    checkpoint = tmp_path / "checkpoint"
    manager = Manager(java.gateway.jvm, checkpoint, LOCAL_FILES.claim(str(checkpoint), 1, "a"))
    (checkpoint / FENCE).unlink()
    if what == "checkpoint":
        (checkpoint / f"{FENCE}.lock").unlink()
        checkpoint.rmdir()
    with pytest.raises(Py4JJavaError, match="FENCED"):
        manager.publish("offsets/0", "x")
    assert not (checkpoint / "offsets/0").exists()


def test_check_and_publish_are_one_step_for_a_new_owner(java: Jvm, tmp_path: Path) -> None:
    """1. A new owner is in its claim (has the lock). 2. The old one publishes: it waits. 3. The claim ends: fenced."""
    old = Manager(java.gateway.jvm, tmp_path, LOCAL_FILES.claim(str(tmp_path), 1, "a"))
    with ThreadPoolExecutor(1) as pool:
        with (tmp_path / f"{FENCE}.lock").open("ab") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            publishing = pool.submit(old.publish, "offsets/0", "a")
            wait_until(lambda: is_blocked_on_a_lock(java.process), 10, "the JVM to wait for the lock")
            assert not publishing.done()
            (tmp_path / FENCE).write_text("2.1\nb\n")
        with pytest.raises(Py4JJavaError, match="FENCED"):
            publishing.result(10)
    assert names(tmp_path / "offsets") == []


def is_blocked_on_a_lock(process: subprocess.Popen[bytes]) -> bool:
    """The kernel lists who waits for a file lock with an arrow."""
    waiting = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
    return any(str(process.pid) in words for words in waiting)


def test_a_stop_while_waiting_for_the_fence_is_seen_as_a_stop(java: Jvm, tmp_path: Path) -> None:
    """Spark stops a query by an interrupt, and takes only certain exceptions for one."""
    manager = Manager(java.gateway.jvm, tmp_path, LOCAL_FILES.claim(str(tmp_path), 1, "a"))
    threads: list[Any] = []
    started = threading.Event()

    def publish() -> None:
        threads.append(java.gateway.jvm.java.lang.Thread.currentThread())
        started.set()
        manager.publish("offsets/0", "a")

    with ThreadPoolExecutor(1) as pool, (tmp_path / f"{FENCE}.lock").open("ab") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        publishing = pool.submit(publish)
        started.wait(10)
        wait_until(lambda: is_blocked_on_a_lock(java.process), 10, "the JVM to wait for the lock")
        threads[0].interrupt()
        with pytest.raises(Py4JJavaError) as error:
            publishing.result(10)
    assert failure(error)[0] == "java.io.InterruptedIOException"


def view_of(folder: Path) -> tuple[tuple[str, str], ...]:
    """A Hadoop file system that is not `file:`, with a local folder behind it."""
    link = ("fs.viewfs.mounttable.default.link./data", f"file://{folder}")
    return (link, ("fs.viewfs.impl.disable.cache", "true"))


def test_other_file_systems_are_refused_unless_allowed(java: Jvm, tmp_path: Path) -> None:
    with pytest.raises(Py4JJavaError, match="has no file locks"):
        Manager(java.gateway.jvm, Path("/data/ck"), "1.1", scheme="viewfs://", more=view_of(tmp_path))


def test_other_file_systems_are_checked(java: Jvm, tmp_path: Path) -> None:
    more = (*view_of(tmp_path), ("penstock.fence.allow_not_atomic", "true"))
    LOCAL_FILES.claim(str(tmp_path / "ck"), 1, "a")
    manager = Manager(java.gateway.jvm, Path("/data/ck"), "1.1", scheme="viewfs://", more=more)
    manager.spark.mkdirs(manager.path("offsets"))
    manager.publish("offsets/0", "x")
    LOCAL_FILES.claim(str(tmp_path / "ck"), 2, "b")
    with pytest.raises(Py4JJavaError, match="FENCED"):
        manager.publish("offsets/1", "x")
    assert [name for name in names(tmp_path / "ck/offsets") if not name.endswith(".crc")] == ["0"]


def test_the_jvm_is_a_child_of_this_process(java: Jvm) -> None:
    assert psutil.Process(java.process.pid).ppid() == psutil.Process().pid


def test_checksums_of_a_delta_table_need_no_fence(java: Jvm, tmp_path: Path) -> None:
    """Of a session without a checkpoint, as the one that makes the table, and of an owner that was replaced. The first
    one stays. All else of the same session is fenced."""
    fence = str(tmp_path / "task" / FENCE)
    checksum = "_delta_log/00000000000000000000.crc"
    nobody = Manager(java.gateway.jvm, tmp_path, "", fence=f"/{FENCE}", folder="_delta_log")
    nobody.publish(checksum, "the first")
    assert (tmp_path / checksum).read_text() == "the first"
    token = LOCAL_FILES.claim(str(tmp_path / "task"), 1, "host")
    LOCAL_FILES.claim(str(tmp_path / "task"), 2, "host")
    replaced = Manager(java.gateway.jvm, tmp_path, token, fence=fence, folder="_delta_log")
    replaced.publish(checksum.replace("0.crc", "1.crc"), "the next")
    with pytest.raises(Py4JJavaError) as error:
        replaced.publish(checksum, "another")
    assert failure(error)[0] == EXISTS
    assert names(tmp_path / "_delta_log") == ["00000000000000000000.crc", "00000000000000000001.crc"]
    for folder in ("offsets", "_spark_metadata"):
        with pytest.raises(Py4JJavaError) as error:
            Manager(java.gateway.jvm, tmp_path, token, fence=fence, folder=folder).publish(f"{folder}/0", "x")
        assert failure(error)[1].startswith("FENCED")
