"""The ports of a Spark host: its host tasks, and the parts that some kinds of them are made of."""

from __future__ import annotations

import re
from typing import Any

from penstock.spark.checkpoint import COLLECTED
from penstock.spark.files import LocalFiles
from penstock.spark.hadoop import CheckpointWriter
from penstock.spark.host.handlers import RunningHostTasks
from penstock.spark.redistribute import seal
from penstock.spark.redistribute.move import StateMover
from penstock.spark.redistribute.new import NewGeneration
from penstock.spark.redistribute.old import OldGeneration
from penstock.spark.savepoint.take import Taking, _OfJob
from penstock.spark.task import RunningTask
from penstock.tasks.host_task import POLICIES, HostTask
from penstock.tasks.spec import TaskSpec
from tests.support.faults.orders import Port, named

FILES = {"offsets": "plan of a task", "commits": "commit of a task"}

CHECKPOINT = re.compile(r"/g[0-9]+/task-[0-9]+$", re.ASCII)


def task_of(_: RunningHostTasks, task: HostTask, *others: Any) -> str:
    """A host task as a whole; after it the reply is still to be sent."""
    return task.request.kind


def file_of(_: CheckpointWriter, name: str, content: bytes) -> str | None:
    """The files of one task's new checkpoint that count: those of the others are there or not. A seal is no plan."""
    return None if content.startswith(seal.SEAL) else FILES.get(name.partition("/")[0])


def mark_of(_: LocalFiles, path: str, content: bytes) -> str | None:
    """The file that says that a generation's checkpoints go."""
    return "mark remove_generation" if path.endswith(f"/{COLLECTED}") else None


def deletion_of(_: LocalFiles, folder: str) -> str | None:
    """One task's checkpoint of a generation that is collected."""
    return "delete task in remove_generation" if CHECKPOINT.search(folder) else None


def order_of(_: RunningTask, spec: TaskSpec) -> str | None:
    """A task that runs is to take no more rows."""
    return "take no more rows" if spec.quiescing else None


PORTS = (
    Port(RunningTask, "follow", ("take no more rows",), order_of),
    Port(RunningHostTasks, "_run", tuple(POLICIES), task_of),
    named(OldGeneration, "take_over", "take over"),
    named(OldGeneration, "finish_pending", "finish pending"),
    named(OldGeneration, "level", "level"),
    named(NewGeneration, "clear", "clear"),
    Port(CheckpointWriter, "write", tuple(FILES.values()), file_of),
    named(StateMover, "move", "move"),
    named(StateMover, "change", "bring changes"),
    named(StateMover, "verify", "verify"),
    named(NewGeneration, "note_copy", "note what was copied"),
    named(NewGeneration, "commit_batch", "commit of all tasks"),
    named(seal, "_seal_checkpoint", "seal of a task"),
    named(_OfJob, "save", "copy of a task"),
    named(Taking, "_publish", "publish savepoint"),
    Port(LocalFiles, "write", ("mark remove_generation",), mark_of),
    Port(LocalFiles, "delete", ("delete task in remove_generation",), deletion_of),
)
