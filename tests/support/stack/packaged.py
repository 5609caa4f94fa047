"""A row job whose query is in a package: what its tasks run is known by the version."""

from __future__ import annotations

import tempfile
from pathlib import Path

from penstock.control.process import wait_until
from penstock.local.services import task_manager_name
from penstock.local.stack import LocalStack
from penstock.spark.packages import pack
from penstock.wire.overview import TaskView
from tests.support.stack.rows import CONVERGE_S, RowJob

GOOD = """
def read(session, inputs, args):
    return inputs["rows"].select("id")
"""
BROKEN = """
def read(session, inputs, args):
    # An analysis has no checkpoint, so only a task of this version fails.
    if session.conf.get("penstock.fence.token"):
        raise RuntimeError("this version does not start")
    return inputs["rows"].select("id")
"""


class PackagedJob(RowJob):
    """Two tasks on one container, which has a host for each version.

    `seen`: every state and revision that each task was reported in while `watch` looked.
    """

    def __init__(self, stack: LocalStack, name: str) -> None:
        super().__init__(stack, name)
        self._packages = stack.data_dir / "packages"
        self.version = "1"
        self.publish("1", GOOD)
        self.seen: dict[int, set[tuple[str, int | None]]] = {}

    def config(self) -> dict[str, object]:
        package = {"name": self.name, "version": self.version}
        return super().config() | {
            "query": {"python": "job:read"},
            "package": package,
            "container_labels": {"name": task_manager_name(1)},
        }

    def publish(self, version: str, code: str) -> None:
        """A version of the package."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "job.py").write_text(code)
            pack(Path(folder), self.name, version, self._packages)

    def release(self, version: str, code: str) -> int:
        """The job is asked to run a version; the revision of that."""
        self.publish(version, code)
        self.version = version
        with self._stack.client() as client:
            return client.put_job(self.name, self.config()).revision

    def watch(self, version: str) -> None:
        """Looks at the tasks until the job has converged with this version."""
        wait_until(lambda: self._has_converged(version), CONVERGE_S, f"{self.name} to run {version}", poll_s=0.1)

    def _has_converged(self, version: str) -> bool:
        with self._stack.client() as client:
            for task in client.tasks(self.name).tasks:
                self._see(task)
            job = client.get_job(self.name)
        return job.converged and job.config["package"]["version"] == version

    def _see(self, task: TaskView) -> None:
        self.seen.setdefault(task.index, set()).add((task.state, task.revision))
