"""The fence of a checkpoint on S3, by Java's file manager: who may publish, and what a late owner leaves behind.

On the small server of the tests, and on versitygw: a real one, with a relay before it. So a request can be held up or
its answer lost.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from py4j import java_gateway, protocol
from py4j.protocol import Py4JJavaError

from penstock.control.process import kill_group
from penstock.local.jars import share_dir
from penstock.spark.gateway import start_jvm
from penstock.spark.settings import QUICK_JVM, driver_classpath
from tests.support.s3.jars import s3_jars
from tests.support.s3.server import CutOff, Store
from tests.support.s3.servers import SERVERS, Server, server_and_login
from tests.support.spark.session import unique

pytestmark = pytest.mark.long
BUCKET = "checkpoints"


@dataclass
class Java:
    """A JVM with S3A, and the server that it uses."""

    jvm: Any
    store: Server

    def settings(self, **more: str) -> Any:
        settings = self.jvm.org.apache.hadoop.conf.Configuration()
        for name, value in (self.store.spark_conf() | more).items():
            settings.set(name.removeprefix("spark.hadoop."), value)
        return settings

    def path(self, name: str) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(f"s3a://{BUCKET}/{name}")

    def files(self) -> Any:
        return self.path("").getFileSystem(self.settings())


@pytest.fixture(scope="module", params=SERVERS)
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    folder = tmp_path_factory.mktemp("s3")
    with (
        pytest.MonkeyPatch.context() as patch,
        server_and_login(patch, request.param, folder, BUCKET, "blind") as store,
    ):
        classpath = f"{driver_classpath(share_dir() / 'jars')}:{s3_jars()}/*"
        options = {"spark.driver.memory": "300m", "spark.driver.extraJavaOptions": " ".join(QUICK_JVM)}
        started = start_jvm({"spark.driver.extraClassPath": classpath, **options})
        yield Java(started.gateway.jvm, store)
        kill_group(started.process)


@pytest.fixture(autouse=True)
def _errors_as_java_gives_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session in this process makes pyspark look into its own JVM for what an error of any JVM means."""
    monkeypatch.setattr(java_gateway, "get_return_value", protocol.get_return_value)


@pytest.fixture(autouse=True)
def _server_as_it_was(java: Java) -> Iterator[None]:
    yield
    java.store.before = java.store.after = lambda method, key: None


class Checkpoint:
    """A checkpoint in a folder of its own."""

    def __init__(self, java: Java) -> None:
        self._java = java
        self.name = unique("task")
        fence = java.path(f"{self.name}/FENCE")
        self.log = java.jvm.io.penstock.checkpoint.FenceLog(java.files(), fence)

    def claim(self, token: str) -> None:
        assert self.log.claim(self.log.newestClaim(), f"{token}\nhost\n")

    def publish(self, token: str, name: str, text: str, *, overwrite: bool = False) -> None:
        fence = {"penstock.fence.path": f"s3a://{BUCKET}/{self.name}/FENCE", "penstock.fence.token": token}
        root = self._java.path(f"{self.name}/{name.partition('/')[0]}")
        manager = self._java.jvm.io.penstock.checkpoint.FencedCheckpointFileManager(root, self._java.settings(**fence))
        stream = manager.createAtomic(self._java.path(f"{self.name}/{name}"), overwrite)
        stream.write(text.encode())
        stream.close()

    def fenced(self, token: str, name: str) -> str:
        with pytest.raises(Py4JJavaError) as error:
            self.publish(token, name, "late", overwrite=True)
        thrown = error.value.java_exception
        assert thrown.getClass().getName() == "io.penstock.checkpoint.FencedException"
        return str(thrown.getMessage())

    @property
    def files(self) -> dict[str, str]:
        """All but the fence."""
        objects = self._java.store.objects(BUCKET)
        below = {key.removeprefix(f"{self.name}/"): value for key, value in objects.items() if self.name in key}
        return {key: value.decode() for key, value in below.items() if not key.startswith("FENCE") and key}

    @property
    def slots(self) -> list[str]:
        return self._java.store.names(BUCKET, f"{self.name}/FENCE.log/")


@pytest.fixture
def checkpoint(java: Java) -> Checkpoint:
    return Checkpoint(java)


def test_an_old_owner_publishes_nothing(checkpoint: Checkpoint) -> None:
    """1. A publishes. 2. B claims. 3. A is fenced: from plans, commits and state. 4. B publishes. 5. The slots of A's
    entries are gone; claims stay."""
    checkpoint.claim("1.1")
    checkpoint.publish("1.1", "offsets/0", "a")
    checkpoint.publish("1.1", "state/0/0/1.delta", "a")
    checkpoint.publish("1.1", "commits/0", "a")
    checkpoint.claim("2.1")
    for name in ("offsets/1", "commits/1", "state/0/0/2.delta", "metadata"):
        assert checkpoint.fenced("1.1", name).startswith("FENCED: token 1.1 was replaced by 2.1")
    checkpoint.publish("2.1", "offsets/1", "b")
    assert checkpoint.files == {"offsets/0": "a", "state/0/0/1.delta": "a", "commits/0": "a", "offsets/1": "b"}
    assert checkpoint.slots == ["000000000001", "000000000004", "000000000005"]


def test_of_two_claims_of_one_epoch_one_is_believed(checkpoint: Checkpoint) -> None:
    """Many at once that have all seen the same newest claim: one wins; the others must look again."""
    checkpoint.claim("1.1")
    newest = checkpoint.log.newestClaim()
    with ThreadPoolExecutor(6) as pool:
        won = list(pool.map(lambda number: checkpoint.log.claim(newest, f"2.1\nhost {number}\n"), range(12)))
    assert won.count(True) == 1
    assert checkpoint.log.newestClaim() == f"2.1\nhost {won.index(True)}\n"


def test_a_put_that_is_held_up_while_another_claims_comes_too_late(java: Java, checkpoint: Checkpoint) -> None:
    """1. A has looked, and its put of a plan is on its way. 2. B claims. 3. A's put arrives: it is refused, and no plan
    appears."""
    checkpoint.claim("1.1")
    checkpoint.publish("1.1", "offsets/0", "a")
    arrived, go_on = threading.Event(), threading.Event()

    def hold(method: str, key: str) -> None:
        if method == "PUT" and key.endswith("FENCE.log/000000000003") and not arrived.is_set():
            arrived.set()
            assert go_on.wait(60)

    java.store.before = hold
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(checkpoint.fenced, "1.1", "commits/0")
        assert arrived.wait(60)
        checkpoint.claim("1.2")
        go_on.set()
        assert "was replaced by 1.2" in late.result(60)
    assert checkpoint.files == {"offsets/0": "a"}


def test_what_is_in_the_log_appears_though_its_owner_died(java: Java, checkpoint: Checkpoint) -> None:
    """1. A's slot is written, and A is cut off before the plan's file. 2. B claims: the plan is there. 3. A's late put
    of the file changes nothing."""
    checkpoint.claim("1.1")

    def cut(method: str, key: str) -> None:
        if method == "PUT" and key.endswith("offsets/0"):
            raise CutOff

    java.store.before = cut
    with pytest.raises(Py4JJavaError):
        checkpoint.publish("1.1", "offsets/0", "a")
    assert checkpoint.files == {}
    java.store.before = lambda method, key: None
    checkpoint.claim("2.1")
    assert checkpoint.files == {"offsets/0": "a"}
    assert checkpoint.slots == ["000000000001", "000000000003"]


def test_an_answer_that_is_lost_is_no_refusal(java: Java, checkpoint: Checkpoint) -> None:
    """The server takes a put and the answer is lost: the second try meets its own slot, and goes on."""
    checkpoint.claim("1.1")
    lost: list[str] = []

    def lose(method: str, key: str) -> None:
        if method == "PUT" and key.endswith("FENCE.log/000000000002") and not lost:
            lost.append(key)
            raise CutOff

    java.store.after = lose
    checkpoint.publish("1.1", "offsets/0", "a")
    assert len(lost) == 1
    checkpoint.publish("1.1", "commits/0", "a")
    assert checkpoint.files == {"offsets/0": "a", "commits/0": "a"}


def test_a_cancelled_file_never_appears(java: Java, checkpoint: Checkpoint) -> None:
    root = java.path(f"{checkpoint.name}/state")
    manager = java.jvm.io.penstock.checkpoint.FencedCheckpointFileManager(root, java.settings())
    stream = manager.createAtomic(java.path(f"{checkpoint.name}/state/1.zip"), True)
    stream.write(b"half")
    stream.cancel()
    assert checkpoint.files == {}


@pytest.mark.parametrize("java", ["small"], indirect=True)
def test_a_server_that_ignores_the_condition_is_refused(java: Java) -> None:
    """Of a bucket that was never tried: the first claim there tries it."""
    assert isinstance(java.store, Store)
    java.store.conditional = False
    try:
        folder = java.jvm.org.apache.hadoop.fs.Path("s3a://blind/x")
        with pytest.raises(Py4JJavaError, match="ignores If-None-Match"):
            java.jvm.io.penstock.checkpoint.NewFiles.require(folder.getFileSystem(java.settings()), folder)
        assert java.store.names("blind", "") in ([], ["x/"])
    finally:
        java.store.conditional = True


def test_of_two_writers_of_a_version_of_a_delta_table_one_wins(java: Java) -> None:
    settings, version = java.settings(), java.path(f"{unique('table')}/_delta_log/00000000000000000000.json")
    logs = [java.jvm.io.penstock.delta.ConditionalLogStore(settings) for _ in range(2)]
    actions = [java.jvm.java.util.ArrayList() for _ in logs]
    for number, each in enumerate(actions):
        each.add(f'{{"commitInfo":{number}}}')
    logs[0].write(version, actions[0].iterator(), False, settings)
    with pytest.raises(Py4JJavaError) as error:
        logs[1].write(version, actions[1].iterator(), False, settings)
    assert error.value.java_exception.getClass().getName() == "java.nio.file.FileAlreadyExistsException"
    assert bytes(java.jvm.io.penstock.checkpoint.NewFiles.read(java.files(), version)) == b'{"commitInfo":0}\n'


def test_of_several_writers_of_a_section_all_have_what_the_first_one_wrote(java: Java) -> None:
    """As tasks do that read a stream together: each has a content of its own, and all go on with one of them."""
    section = java.path(f"{unique('job')}/streams/g1/events/1")
    writer = java.jvm.io.penstock.checkpoint.FirstWriter(java.files())
    with ThreadPoolExecutor(6) as pool:
        told = set(pool.map(lambda number: bytes(writer.write(section, f"writer {number}".encode())), range(12)))
    assert told == {bytes(writer.read(section))}
    assert bytes(writer.write(section, b"late")) in told
