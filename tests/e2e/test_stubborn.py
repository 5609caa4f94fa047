"""Code of one job that does not end costs other jobs a short pause at most: no crash, no row, no host under them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from penstock.control.process import wait_until
from penstock.local.services import task_manager_name
from penstock.local.stack import LocalStack
from tests.support.spark.redistribution import rows_of_topic
from tests.support.spark.session import unique
from tests.support.stack.commits import Commits
from tests.support.stack.packaged import GOOD, PackagedJob
from tests.support.stack.rows import RowJob
from tests.support.stack.told import Line, told

pytestmark = pytest.mark.long

CONTAINER = task_manager_name(1)
DECIDES = "services.task_manager.state"
"""A Task Manager's own account. What watches the process of a host has lines of its own."""
TASKS = 3
PAUSE_S = 0.2
LEFT_S = 150.0
"""30 s to stop, a cold host, and the move; then 30 s more where the stop is not waited for."""
WITHIN_S = 15.0
SOON_S = 90.0
NEVER_ENDS = f"""
import time
from pathlib import Path
{GOOD}
def hold(frame, batch_id, args):
    while True:
        try:
            while True:
                Path(args["mark"]).touch()
                time.sleep(0.1)
        except BaseException:
            pass
"""
WAITS = f"""
import json
import time
from pathlib import Path
{GOOD}
def write(frame, batch_id, series, args):
    folder, index = Path(args["folder"]), series.rpartition("/")[2]
    ids = [row.id for row in frame.collect()]
    while index == "0" and ids and (folder / "wait").exists():
        (folder / "waits").touch()
        time.sleep(0.05)
    if ids:
        part = folder / f"{{series.replace('/', '-')}}-{{batch_id}}"
        part.with_suffix(".new").write_text(json.dumps(ids))
        part.with_suffix(".new").rename(part.with_suffix(".json"))
"""


class Neighbour(PackagedJob):
    """Three tasks that copy rows to a topic, in the host of their package."""

    def __init__(self, stack: LocalStack, name: str) -> None:
        super().__init__(stack, name)
        self.version = "2"
        self.publish(self.version, NEVER_ENDS)

    def config(self) -> dict[str, object]:
        output = {"type": "kafka", "topic": f"{self.name}-out", "key_groups": 1}
        return super().config() | {"task_count": TASKS, "output": output}

    def counts(self) -> dict[int, int]:
        return Counter(row["id"] for row in rows_of_topic(self._bootstrap, f"{self.name}-out"))


class Stubborn(RowJob):
    """A task of the neighbour's package, whose output never returns and swallows what would end it."""

    def __init__(self, stack: LocalStack, neighbour: Neighbour) -> None:
        super().__init__(stack, unique("stubborn"))
        self._neighbour = neighbour
        self.mark = stack.data_dir / f"{self.name}.mark"

    def config(self) -> dict[str, object]:
        """One task; the package and the container are those of the neighbour."""
        shared = self._neighbour.config() | {"inputs": super().config()["inputs"], "task_count": 1}
        return shared | {"output": {"type": "foreach_batch", "python": "job:hold"}, "args": {"mark": str(self.mark)}}


class Waiting(PackagedJob):
    """Two tasks whose output writes a file for each batch. That of task 0 waits as long as there is a file `wait`."""

    def __init__(self, stack: LocalStack, name: str) -> None:
        super().__init__(stack, name)
        self.folder = stack.data_dir / name
        self.folder.mkdir()
        self.version = "2"
        self.publish(self.version, WAITS)

    def config(self) -> dict[str, object]:
        output = {"type": "foreach_batch", "python": "job:write"}
        return super().config() | {"output": output, "args": {"folder": str(self.folder)}}

    @property
    def wait(self) -> Path:
        return self.folder / "wait"

    def counts(self) -> dict[int, int]:
        return Counter(number for file in self.folder.glob("*.json") for number in orjson.loads(file.read_bytes()))


class Story:
    """What the container has logged since the story began. Hosts of an earlier life of it had the same names."""

    def __init__(self, stack: LocalStack) -> None:
        self._stack = stack
        self._begun_at = datetime.now(UTC)

    def told(self, event: str, **fields: Any) -> list[Line]:
        lines = told(self._stack, CONTAINER, event, component=DECIDES, **fields)
        return [line for line in lines if line.at >= self._begun_at]

    def of_job(self, job: str, event: str, **fields: Any) -> list[Line]:
        """Of tasks of the job."""
        return [line for line in self.told(event, **fields) if line.fields["task"].partition("/")[0] == job]

    def hosts(self, job: str) -> dict[str, str]:
        """The host in which each task runs, or ran last."""
        return {line.fields["task"]: line.fields["host"] for line in self.of_job(job, "task runs")}


def test_neighbours_of_code_that_never_ends_have_left_its_host_before_it_is_killed(stack: LocalStack) -> None:
    """1. Four tasks of two jobs share a host. Code of one is in a batch that never ends, whatever is raised in it. 2.
    Its job is deleted, while rows of the other come. 3. When that host is killed, the stuck task alone is on it: the
    others had stopped between two batches, when a fresh host was ready, where they go on. None has crashed, and each
    row is there once. 4. The deleted job is forgotten."""
    story, neighbour = Story(stack), Neighbour(stack, unique("neighbour"))
    neighbour.create()
    stubborn, commits = Stubborn(stack, neighbour), Commits(stack, neighbour.name)
    stubborn.create()
    neighbour.send_and_wait()
    stubborn.send(1)
    wait_until(stubborn.mark.exists, SOON_S, "the batch that never ends")
    before = story.hosts(neighbour.name)
    (shared,) = set(story.hosts(stubborn.name).values())
    assert list(before.values()) == [shared] * TASKS
    with neighbour.fed(PAUSE_S), commits.watched(), stack.client() as client:
        client.delete_job(stubborn.name)
        wait_until(lambda: story.told("host killed", host=shared), LEFT_S, "the host to be killed")
        wait_until(lambda: _are_elsewhere(story.hosts(neighbour.name), shared), SOON_S, "the others to run elsewhere")
        sent = neighbour.sent
        wait_until(lambda: neighbour.counts().keys() >= set(range(sent)), SOON_S, "rows from there")
    _assert_left(story, neighbour.name, shared, f"{stubborn.name}/0 did not stop in time")
    print(f"longest time without a commit: {_seconds(commits.pauses().values())}")
    assert story.of_job(neighbour.name, "task crashed") == []
    with stack.client() as client:
        assert [task.crashes for task in client.tasks(neighbour.name).tasks] == [0] * TASKS
    neighbour.send_and_wait()
    neighbour.assert_exact()
    wait_until(stubborn.is_forgotten, SOON_S, "the job to be forgotten")
    neighbour.delete()


def _are_elsewhere(hosts: Mapping[str, str], left: str) -> bool:
    return len(hosts) == TASKS and left not in hosts.values()


def _assert_left(story: Story, job: str, shared: str, why: str) -> None:
    (evacuated,) = story.told("host evacuated", host=shared)
    killed, *_ = story.told("host killed", host=shared)  # again and again until it has ended
    assert {line.fields["reason"] for line in (evacuated, killed)} == {why}
    (ended,) = story.told("host ended", host=shared)
    assert ended.fields["tasks"] == 1, "only the task that never ends was still there"
    (fresh,) = set(story.hosts(job).values())
    (ready,) = story.told("host ready", host=fresh)
    stopped = story.of_job(job, "task stopped", host=shared)
    again = story.of_job(job, "task runs", host=fresh)
    assert len(stopped) == len(again) == TASKS
    for line in stopped:
        assert evacuated.at < ready.at < line.at < killed.at
    events = {"host ready": [ready], "stopped": stopped, "killed": [killed], "run again": again}
    print({event: _seconds((line.at - evacuated.at).total_seconds() for line in of) for event, of in events.items()})


def _seconds(figures: Iterable[float]) -> str:
    return ", ".join(f"{figure:.1f} s" for figure in figures)


def test_tasks_of_a_rescale_that_cannot_be_quiesced_take_rows_again_and_were_never_stopped(stack: LocalStack) -> None:
    """1. One of two tasks is in a batch that does not end. The job is to have three tasks within 15 s. 2. The time is
    over: the rescale is taken back. Rows that came meanwhile, and rows that come now, are read by the other task, which
    never stopped. 3. The batch ends: the rescale is tried again and succeeds, and each row was written once."""
    story, job = Story(stack), Waiting(stack, unique("waiting"))
    job.create()
    job.send_and_wait()
    job.wait.touch()
    job.send(8)
    wait_until((job.folder / "waits").exists, SOON_S, "task 0 to wait")
    with stack.client() as client:
        client.rescale(job.name, TASKS, within_seconds=WITHIN_S, reason="test")
        wait_until(
            lambda: story.told("live change applied", task=f"{job.name}/1"), SOON_S, "the order to take no more rows"
        )
        job.send(8)
        wait_until(lambda: client.sync(job.name).state == "failed", SOON_S, "the rescale to be taken back")
        assert "the job was never stopped" in (client.sync(job.name).detail or "")
    job.send(8)
    of_task_1 = {number for number in range(job.sent) if number % 4 >= 2}
    wait_until(lambda: job.counts().keys() >= of_task_1, SOON_S, "task 1 to read what came")
    assert story.of_job(job.name, "task stops") == []
    job.wait.unlink()
    with stack.client() as client:
        wait_until(lambda: len(client.tasks(job.name).tasks) == TASKS, LEFT_S, "three tasks")
    job.wait_converged()
    job.send_and_wait()
    job.assert_exact()
    job.delete()
