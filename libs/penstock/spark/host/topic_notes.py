"""Notes the topics of patterns that running tasks have taken in (`penstock.spark.inputs.identity`)."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.control.logs import logger
from penstock.spark.inputs.identity import note_topics
from penstock.spark.inputs.topic_checks import Topics, has_pattern
from penstock.spark.task import RunningTask

log = logger(__name__)


def note_new_topics(tasks: Iterable[RunningTask], topics: Topics) -> None:
    """Notes what the tasks read and have no note of yet. `topics`: as the brokers describe them now. What cannot be
    noted is tried again at the next call."""
    for task in tasks:
        if task.progress is None or not has_pattern(task.spec.config):
            continue
        fresh = (task.progress.offsets.keys() & topics.keys()) - task.noted_topics
        if not fresh:
            continue
        try:
            note_topics(task.runtime.files, task.checkpoint, {name: topics[name] for name in fresh})
        except Exception:
            log.exception("topics not noted", task=task.spec.task_id)
            continue
        task.noted_topics |= fresh
