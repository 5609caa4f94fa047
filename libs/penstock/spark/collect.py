"""Deletes the checkpoints of an old generation and leaves a file in their place.

<root>/<job>/g<generation>/COLLECTED    no checkpoint here may be claimed any more (`penstock.spark.task`)

The seal is deleted with the checkpoints. Without COLLECTED a container with an outdated list of tasks would start them
from the beginning of their input. Savepoints and later generations refer to no file of the deleted generation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.config.topics import topic_and_cluster
from penstock.control.errors import BrokenTask, Conflict, Unavailable
from penstock.control.logs import logger
from penstock.spark.checkpoint import COLLECTED, generation_folder
from penstock.spark.files import Files
from penstock.spark.producers import NOTED_MARKS
from penstock.spark.redistribute.manifest import MANIFEST
from penstock.spark.redistribute.new import was_started
from penstock.spark.redistribute.pins import remove_pins
from penstock.spark.redistribute.seal import is_sealed
from penstock.spark.sections import forget_sections
from penstock.spark.sinks.kafka import end_marks
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import GenerationRemoval

log = logger(__name__)

_GENERATION = re.compile(r"g([1-9][0-9]*)", re.ASCII)
_TASK = re.compile(r"task-[0-9]+", re.ASCII)


def collect(runtime: Runtime, request: GenerationRemoval) -> None:
    """Deletes the checkpoints of a generation. Safe to repeat and to kill at any point.

    Raises Conflict when the files do not show that the generation is over: a task started in it, it is not sealed, and
    no task of a later generation ever started. For a forgotten job this is not checked, and the readers of its topics
    are told that it writes no more; what it has read of streams is deleted, too. Raises what
    `Runtime.before_claim` raises between two checkpoints.
    """
    files, root = runtime.files, runtime.settings.checkpoint_root
    folder = generation_folder(root, request.job, request.generation)
    names = files.names(folder)
    if COLLECTED not in names:
        if not names:
            return
        if not request.forgotten:
            _require_over(files, root, request, folder)
        files.write(f"{folder}/{COLLECTED}", b"its checkpoints were deleted\n")
    files.delete(f"{folder}/{MANIFEST}")
    remove_pins(files, folder)
    for checkpoint in _tasks(folder, files):
        runtime.before_claim()
        files.remove_checkpoint(checkpoint)
    if request.forgotten:
        runtime.before_claim()
        forget_sections(files, root, request.job, request.generation)
        _end_marks(runtime, request, names)
    log.info("generation collected", job=request.job, generation=request.generation)


def _end_marks(runtime: Runtime, request: GenerationRemoval, names: Iterable[str]) -> None:
    """Readers of what a forgotten job wrote wait for it no more. Raises BrokenTask or Unavailable for a cluster that is
    unknown or away, when those of all others have ended. One that is gone for good has no readers."""
    failed: BrokenTask | Unavailable | None = None
    for name in names:
        if name.startswith(NOTED_MARKS):
            topic, cluster = topic_and_cluster(name.removeprefix(NOTED_MARKS))
            if cluster in runtime.settings.gone_clusters:
                continue
            try:
                end_marks(runtime.settings.cluster(cluster), topic, request.job, request.generation)
            except (BrokenTask, Unavailable) as error:
                failed = error
    if failed is not None:
        raise failed


def _require_over(files: Files, root: str, request: GenerationRemoval, folder: str) -> None:
    begun = [task for task in _tasks(folder, files) if was_started(files, task)]
    if all(is_sealed(task, files) for task in begun):
        return
    later = [task for later in _later(files, root, request) for task in _tasks(later, files)]
    if not any(was_started(files, task) for task in later):
        raise Conflict(
            f"{folder} is not sealed, and no later generation was started", field="generation", rule="is_over"
        )


def _later(files: Files, root: str, request: GenerationRemoval) -> list[str]:
    found = (_GENERATION.fullmatch(name) for name in files.names(f"{root.rstrip('/')}/{request.job}"))
    later = [number for match in found if match and (number := int(match[1])) > request.generation]
    return [generation_folder(root, request.job, number) for number in later]


def _tasks(folder: str, files: Files) -> list[str]:
    """The checkpoints of a generation."""
    return [f"{folder}/{name}" for name in sorted(files.names(folder)) if _TASK.fullmatch(name)]
