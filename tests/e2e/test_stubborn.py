"""A package whose code outlives all that ends a call: its host is killed, and its neighbours have moved before."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.control.process import wait_until
from penstock.local.services import task_manager_name
from penstock.local.stack import LocalStack
from tests.support.spark.redistribution import rows_of_topic
from tests.support.stack.packaged import GOOD, PackagedJob
from tests.support.stack.rows import RowJob
from tests.support.stack.told import Line, told

CODE = f"""
import time
from pathlib import Path
{GOOD}
def hold(frame, batch_id, args):
    while True:
        try:
            Path(args["mark"]).touch()
            time.sleep(0.1)
        except BaseException:
            pass
"""
LEFT_S = 120.0
"""30 s to stop, a cold host, and the move."""


class Neighbour(PackagedJob):
    """Two tasks that copy rows to a topic, in the host of their package."""

    def config(self) -> dict[str, object]:
        return super().config() | {"output": {"type": "kafka", "topic": f"{self.name}-out", "key_groups": 1}}

    def counts(self) -> dict[int, int]:
        return Counter(row["id"] for row in rows_of_topic(self._bootstrap, f"{self.name}-out"))


class Stubborn(RowJob):
    """A task of the neighbour's package, whose output never returns and swallows what would end it."""

    def __init__(self, stack: LocalStack, neighbour: Neighbour) -> None:
        super().__init__(stack, "stubborn")
        self._neighbour = neighbour
        self.mark = stack.data_dir / "stubborn.mark"

    def config(self) -> dict[str, object]:
        """One task; the package, its function and its container are those of the neighbour."""
        shared = self._neighbour.config() | {"inputs": super().config()["inputs"], "task_count": 1}
        return shared | {"output": {"type": "foreach_batch", "python": "job:hold"}, "args": {"mark": str(self.mark)}}


@pytest.mark.long
def test_neighbours_of_code_that_never_ends_go_on_elsewhere_before_its_host_is_killed(stack: LocalStack) -> None:
    """1. Tasks of two jobs share a host. Code of one is in a batch that never ends, whatever is raised in it. 2. Its
    job is deleted, while rows of the other come. 3. That one's tasks run on a fresh host before theirs is killed, none
    of them has crashed, and each row is there once. 4. The deleted job is forgotten."""
    container = task_manager_name(1)
    neighbour = Neighbour(stack, "neighbour")
    neighbour.publish("1", CODE)
    neighbour.create()
    stubborn = Stubborn(stack, neighbour)
    stubborn.create()
    neighbour.send_and_wait()
    stubborn.send(1)
    wait_until(stubborn.mark.exists, 60, "the batch that never ends")
    (shared,) = {line.fields["host"] for line in told(stack, container, "task runs", task="stubborn/0")}
    assert [line.fields["host"] for line in _runs(stack, container)] == [shared, shared]
    with neighbour.fed(0.2), stack.client() as client:
        client.delete_job(stubborn.name)
        wait_until(lambda: told(stack, container, "host killed", host=shared), LEFT_S, "the host to be killed")
    (left,) = told(stack, container, "host evacuated", host=shared)
    (killed,) = told(stack, container, "host killed", host=shared)
    assert {line.fields["reason"] for line in (left, killed)} == {"stubborn/0 did not stop in time"}
    moved = _runs(stack, container)[2:]
    assert {line.fields["task"] for line in moved} == {"neighbour/0", "neighbour/1"}
    assert shared not in {line.fields["host"] for line in moved}
    assert left.at < min(line.at for line in moved)
    assert max(line.at for line in moved) <= killed.at
    assert not [line for line in told(stack, container, "task crashed") if _is_of(line.fields["task"], "neighbour")]
    with stack.client() as client:
        assert [task.crashes for task in client.tasks(neighbour.name).tasks] == [0, 0]
    neighbour.send_and_wait()
    neighbour.assert_exact()
    wait_until(stubborn.is_forgotten, LEFT_S, "the job to be forgotten")
    neighbour.delete()


def _runs(stack: LocalStack, container: str) -> list[Line]:
    return [line for line in told(stack, container, "task runs") if _is_of(line.fields["task"], "neighbour")]


def _is_of(task: str, job: str) -> bool:
    return task.partition("/")[0] == job
