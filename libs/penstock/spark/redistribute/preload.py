"""Stores on the heap, loaded before the task that uses them starts: from a copy of the state that is whole.

    load    all rows of the new stores as the copy left them, by the host that will run the task
    allow   the start found the mark of this very copy in its checkpoint: the first batch takes the rows, and brings
            them up to the version that it reads by the store's own files of changes

A redistribution that does not use the copy clears the checkpoint, and so removes the mark. Nothing else writes the
versions that the copy wrote. Without the rows Spark loads the files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from penstock.control.logs import logger
from penstock.spark.checkpoint import generation_folder, last_commit, planned_batch
from penstock.spark.hadoop import CheckpointWriter
from penstock.spark.redistribute.manifest import MANIFEST, CopyManifest, mark_of, parse_manifest
from penstock.spark.redistribute.stores import join_format_version
from penstock.spark.task import Runtime
from penstock.tasks.spec import TaskSpec

log = logger(__name__)


class Preloaded(NamedTuple):
    """What was loaded for a checkpoint: `copy_id` is the attempt that wrote it, `folder` its qualified path."""

    checkpoint: str
    copy_id: str
    folder: str

    def allow(self, runtime: Runtime, token: str) -> None:
        """Lets the query take the rows that is about to start, whose claim gave it `token`; if they are still right."""
        finished = last_commit(self.checkpoint, runtime.files)
        if finished is not None and mark_of(self.copy_id) in runtime.files.names(self.checkpoint):
            _java(runtime).allow(self.folder, self.copy_id, token, finished + 1)
        else:
            self.drop(runtime)

    def drop(self, runtime: Runtime) -> None:
        """Gives up what no query has taken."""
        _java(runtime).drop(self.folder)

    def drop_if_short(self, runtime: Runtime) -> bool:
        """Gives up what no query of any task has taken, if the heap is short; whether it is."""
        return bool(_java(runtime).dropIfShort())


def preload(
    runtime: Runtime, spec: TaskSpec, session: SparkSession, begins: Callable[[Preloaded], bool]
) -> Preloaded | None:
    """Loads the stores of a task that was not started, as far as the heap has room; None when there is nothing to load.

    `session`: of the task. `begins` is told what is about to be loaded, and says whether it is still wanted: who drops
    it ends the load. Raises Spark's errors for files that cannot be read; nothing is kept then.
    """
    manifest = _copied(runtime, spec)
    if manifest is None:
        return None
    checkpoint = runtime.checkpoint(spec.job, spec.generation, spec.index)
    made = Preloaded(checkpoint, manifest.id, CheckpointWriter(session, checkpoint).qualified_folder)
    try:
        loading = _loading(runtime, spec, session, manifest, made)
        loaded = _load(runtime, spec, manifest, loading) if begins(made) else 0
    except BaseException:
        made.drop(runtime)
        raise
    log.info("state loaded ahead", task=spec.task_id, generation=spec.generation, stores=loaded)
    return made


def _loading(runtime: Runtime, spec: TaskSpec, session: SparkSession, manifest: CopyManifest, made: Preloaded) -> Any:
    """The load in the JVM. It can be dropped from here on."""
    jvm: Any = runtime.spark._jvm
    threads = spec.config.threads_per_task
    return jvm.io.penstock.state.Preload(session._jsparkSession, made.folder, made.copy_id, threads, manifest.version)


def _load(runtime: Runtime, spec: TaskSpec, manifest: CopyManifest, loading: Any) -> int:
    """How many partitions of stores were loaded."""
    form = _join_format_version(runtime, manifest, spec.job)
    return sum(
        loading.load(store.operator, store.operator_name, store.name, store.prefix_columns, form)
        for store in manifest.stores
    )


def _copied(runtime: Runtime, spec: TaskSpec) -> CopyManifest | None:
    """The copy that the task begins with, if its stores can be loaded ahead: on the heap of this JVM."""
    settings, files = runtime.settings, runtime.files
    if spec.config.state_backend != "heap" or not settings.spark_master.startswith("local"):
        return None
    folder = generation_folder(settings.checkpoint_root, spec.job, spec.generation)
    if MANIFEST not in files.names(folder):
        return None
    manifest = parse_manifest(files.read(f"{folder}/{MANIFEST}"))
    has_mark = manifest is not None and manifest.id and manifest.target.generation == spec.generation
    return manifest if has_mark else None


def _join_format_version(runtime: Runtime, manifest: CopyManifest, job: str) -> int:
    """As the old tasks have it that had finished a batch."""
    index = next(index for index, version in enumerate(manifest.copied) if version)
    old = runtime.checkpoint(job, manifest.source.generation, index)
    finished = last_commit(old, runtime.files)
    assert finished is not None
    return join_format_version(planned_batch(old, finished, runtime.files).metadata)


def _java(runtime: Runtime) -> Any:
    jvm: Any = runtime.spark._jvm
    return jvm.io.penstock.spark42.PreloadedStores
