"""A job with libraries of its own on a cell: its tasks and host tasks all run in its environment, and stay exact."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.local.processes import children_with
from penstock.local.services import HOST_MODULE, task_manager_name
from penstock.local.stack import LocalStack
from tests.support.spark.environments import packed_with
from tests.support.spark.session import unique
from tests.support.spark.wheels import wheel
from tests.support.stack.counts import CountJob

OWN, MODULE = "0.1", "owncount"
CODE = f"""
import markupsafe
from importlib.metadata import version
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

def own(number):
    assert (version("markupsafe"), markupsafe.WORD) == ("{OWN}", "own"), markupsafe.__file__
    return number

def count(session, inputs, args):
    rows = inputs["rows"].withColumn("id", F.udf(own, LongType())("id")).where(F.lit(own(1)) == 1)
    return rows.groupBy("word").agg(F.count("*").alias("n"), F.sum("id").alias("total"))
"""


class OwnCountJob(CountJob):
    """A count job whose query asserts, in the driver and for each row, that it has its own version of a library."""

    def __init__(self, stack: LocalStack, name: str, folder: Path) -> None:
        super().__init__(stack, name)
        wheel(folder, "markupsafe", OWN, {"markupsafe.py": b"WORD = 'own'\n"})
        root = stack.data_dir / "packages"
        self._package = packed_with(folder, MODULE, CODE, ["markupsafe"], folder, root=root, PIP_NO_INDEX="1")

    def config(self, task_count: int, trigger_interval_seconds: float) -> dict[str, Any]:
        query = {"query": {"python": f"{MODULE}:count"}, "package": self._package}
        return super().config(task_count, trigger_interval_seconds) | query


@pytest.fixture
def own(stack: LocalStack, tmp_path: Path) -> Iterator[OwnCountJob]:
    job = OwnCountJob(stack, unique("owncount"), tmp_path)
    job.create(task_count=2)
    yield job
    job.delete()


def hosts_in_environments(stack: LocalStack) -> list[psutil.Process]:
    """Those whose Python is an environment's, which is named in their command."""
    managers = [stack.supervisor.pid(task_manager_name(number)) for number in (1, 2)]
    hosts = [host for pid in managers for host in children_with(pid, [HOST_MODULE])]
    return [host for host in hosts if "/environments/" in host.cmdline()[0]]


@pytest.mark.long
def test_a_job_with_libraries_of_its_own_is_exact_through_kills_and_a_rescale(
    stack: LocalStack, own: OwnCountJob
) -> None:
    """1. Two tasks count. 2. Their hosts are killed. 3. They become three while rows keep coming, and the hosts are
    killed again. 4. A savepoint; the job goes back to it with one task. Each count was made with the job's own
    version."""
    assert version("markupsafe") != OWN
    own.send(80)
    with own.fed():
        killed = hosts_in_environments(stack)
        assert killed
        for host in killed:
            host.kill()
        own.rescale_and_wait(3)
        for host in hosts_in_environments(stack):
            host.kill()
    own.wait_counted()
    own.assert_exact()
    own.save("before")
    own.restore("before", task_count=1)
    own.send(40)
    own.assert_exact()
