"""Whether the input topics of a checkpoint are still those that its offsets count in.

A topic that is deleted and made again has the same name and another id. Its offsets begin anew, so a task would skip as
many records as it has read of the old one, without an error once the new topic is as long.

A checkpoint notes the ids of its topics in the names of empty files. Savepoints and new generations get the same notes.
A checkpoint of an earlier release has none, and nothing is asked for it.

Topics of a pattern that a running task takes in are noted by its source (`TopicNotes`, in Java, in the same form).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

from penstock.control.errors import BrokenTask
from penstock.spark.files import Files
from penstock.spark.topics import Topic

NOTE = "TOPIC-"
"""In a checkpoint: begins the name of a file for each input topic. A digest of the topic's name and its id follow."""
CREATE_AGAIN = (
    "Delete the job and create it again with starting_position earliest, or create a job of another name. It reads the "
    "new topic from its beginning. The old state is lost, and rows that were written before may be written twice"
)
"""What to do about a topic that was made again."""


def notes_in(files: Files, checkpoint: str) -> list[str]:
    """The names of a checkpoint's notes."""
    return sorted(name for name in files.names(checkpoint) if name.startswith(NOTE))


def require_same_topics(files: Files, checkpoint: str, topics: Mapping[str, Topic]) -> None:
    """Raises BrokenTask when a topic is not the one that the checkpoint was begun with. Notes those that are new to it.

    To be called by the owner of the checkpoint. Topics that are missing, or whose id is unknown, are passed over.
    """
    note_topics(files, checkpoint, topics)
    _require_noted(notes_in(files, checkpoint), checkpoint, topics)


def note_topics(files: Files, checkpoint: str, topics: Mapping[str, Topic]) -> None:
    """Notes the topics of which the checkpoint has no note yet."""
    notes = notes_in(files, checkpoint)
    for name, topic in topics.items():
        if topic.id is not None and not _of(notes, name):
            # An owner before this one, which hung, may write its note at the same time.
            with suppress(FileExistsError):
                files.write(f"{checkpoint}/{_prefix(name)}{topic.id}", b"")


def forget_other_topics(files: Files, checkpoint: str, topics: Collection[str]) -> None:
    """Removes the notes of topics that the checkpoint has no offsets of any more: of `topics` it has. One that is read
    again later is a new one to it. To be called by the owner of the checkpoint."""
    for note in notes_in(files, checkpoint):
        if not any(note.startswith(_prefix(name)) for name in topics):
            files.delete(f"{checkpoint}/{note}")


def require_noted_topics(files: Files, checkpoints: Iterable[str], ask: Callable[[], Mapping[str, Topic]]) -> None:
    """As `require_same_topics` for several checkpoints, but nothing is noted. Without notes nothing is asked."""
    noted = {checkpoint: notes for checkpoint in checkpoints if (notes := notes_in(files, checkpoint))}
    topics = ask() if noted else {}
    for checkpoint, notes in noted.items():
        _require_noted(notes, checkpoint, topics)


def _require_noted(notes: Iterable[str], checkpoint: str, topics: Mapping[str, Topic]) -> None:
    for name, topic in topics.items():
        others = [note for note in _of(notes, name) if topic.id is not None and note != _prefix(name) + topic.id]
        if others:
            raise BrokenTask(
                f"inputs: the topic {name} was deleted and made again. The job's offsets are those of the old topic, "
                f"so it would skip records of the new one. {CREATE_AGAIN}. If the topic is the old one, moved with its "
                "offsets (same records at the same offsets), delete the files "
                f"{_prefix(name)}* of each task instead, here {checkpoint}/{others[0]}",
                rule="same_topic",
            )


def _of(notes: Iterable[str], topic: str) -> list[str]:
    return [note for note in notes if note.startswith(_prefix(topic))]


def _prefix(topic: str) -> str:
    return f"{NOTE}{hashlib.md5(topic.encode(), usedforsecurity=False).hexdigest()}-"
