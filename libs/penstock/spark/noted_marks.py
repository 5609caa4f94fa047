"""Which topics the tasks of a job write marks to, for the end of the job (`collect`)."""

from __future__ import annotations

from contextlib import suppress

from penstock.config.model import JobConfig
from penstock.spark.files import Files
from penstock.spark.producers import NOTED_MARKS, marked_topics


def note_marks(files: Files, config: JobConfig, checkpoint: str) -> None:
    """Notes them in the folder of the generation. `checkpoint`: of one of its tasks."""
    topics = marked_topics(config)
    if not topics:
        return
    folder, _, _ = checkpoint.rpartition("/")
    for name in {f"{NOTED_MARKS}{topic}" for topic in topics}.difference(files.names(folder)):
        with suppress(FileExistsError):
            files.write(f"{folder}/{name}", b"")
