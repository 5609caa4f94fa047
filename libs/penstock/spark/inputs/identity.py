"""Whether the input topics of a checkpoint are still those that its offsets count in.

A topic that is deleted and made again has the same name and another id. Its offsets begin anew, so a task would skip as
many records as it has read of the old one, without an error once the new topic is as long.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from penstock.control.errors import BrokenTask
from penstock.spark.files import Files
from penstock.spark.topics import Topic

NOTE = "TOPIC-"
"""In a checkpoint: begins the name of a file for each input topic. A digest of the topic's name and its id follow."""


def require_same_topics(files: Files, checkpoint: str, topics: Mapping[str, Topic]) -> None:
    """Raises BrokenTask when a topic is not the one that the checkpoint was begun with. Notes those that are new to it.

    To be called by the owner of the checkpoint. Topics that are missing, or whose id is unknown, are passed over.
    """
    notes = [name for name in files.names(checkpoint) if name.startswith(NOTE)]
    for name, topic in topics.items():
        if topic.id is None:
            continue
        prefix = f"{NOTE}{hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()}-"
        noted = _id_of(notes, prefix)
        if noted is None:
            files.write(f"{checkpoint}/{prefix}{topic.id}", b"")
        elif noted != topic.id:
            same = f"where it has the same records at the same offsets, delete {checkpoint}/{prefix}{noted}"
            raise BrokenTask(f"{made_again(name)}. Or, {same}", rule="same_topic")


def made_again(topic: str, seen: str = "") -> str:
    """What to do about it. `seen`: how it shows."""
    return (
        f"inputs: the topic {topic} was deleted and made again{seen}. The job's offsets are those of the old topic, so "
        "it would skip records of the new one. Delete the job and create it again with starting_position earliest: it "
        "reads the new topic from its beginning, with new state; or create a job of another name"
    )


def _id_of(notes: Iterable[str], prefix: str) -> str | None:
    return next((note.removeprefix(prefix) for note in notes if note.startswith(prefix)), None)
