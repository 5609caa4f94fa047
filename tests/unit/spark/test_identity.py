"""A topic that was deleted and made again is not the one that a checkpoint's offsets count in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Uuid

from penstock.control.errors import BrokenTask
from penstock.spark.files import LOCAL_FILES, LocalFiles
from penstock.spark.inputs.identity import forget_other_topics, notes_in, require_noted_topics, require_same_topics
from penstock.spark.topics import Topic, id_text

MADE_AGAIN = "the topic b was deleted and made again"


def test_a_topic_with_another_id_is_refused(tmp_path: Path) -> None:
    """1. Two topics are noted. 2. One is missing for a while, or the broker does not say. 3. It has another id, until
    the file that the error names is deleted."""
    both = {"a": Topic(4, id="one-1"), "b": Topic(4, id="_2-x")}
    for topics in (both, both, {"a": Topic(None)}, {"a": Topic(4)}, both):
        require_same_topics(LOCAL_FILES, str(tmp_path), topics)
    assert len(list(tmp_path.iterdir())) == 2
    again = {**both, "b": Topic(4, id="new")}
    with pytest.raises(BrokenTask, match=MADE_AGAIN):
        require_noted_topics(LOCAL_FILES, [str(tmp_path / "unnoted"), str(tmp_path)], lambda: again)
    with pytest.raises(BrokenTask, match=MADE_AGAIN) as refused:
        require_same_topics(LOCAL_FILES, str(tmp_path), again)
    assert "The old state is lost, and rows" in str(refused.value)
    Path(str(refused.value).rpartition("here ")[2]).unlink()
    require_same_topics(LOCAL_FILES, str(tmp_path), again)


def test_a_topic_that_is_not_read_any_more_is_a_new_one_later(tmp_path: Path) -> None:
    both = {"a": Topic(4, id="1"), "b": Topic(4, id="2")}
    require_same_topics(LOCAL_FILES, str(tmp_path), both)
    forget_other_topics(LOCAL_FILES, str(tmp_path), ["a"])
    require_same_topics(LOCAL_FILES, str(tmp_path), {"b": Topic(4, id="new")})
    with pytest.raises(BrokenTask, match="the topic a was deleted and made again"):
        require_same_topics(LOCAL_FILES, str(tmp_path), {"a": Topic(4, id="new")})


def test_checkpoints_without_notes_are_not_asked_about(tmp_path: Path) -> None:
    """They are of an earlier release."""
    asked: list[str] = []
    require_noted_topics(LOCAL_FILES, [str(tmp_path)], lambda: asked.append("kafka") or {})  # type: ignore[func-returns-value]
    assert asked == []


class _Late(LocalFiles):
    """Sees no notes at its first look: another owner writes them right after it."""

    def __init__(self) -> None:
        self.looks = 0

    def names(self, folder: str) -> list[str]:
        self.looks += 1
        return [] if self.looks == 1 else super().names(folder)


@pytest.mark.parametrize("other", ["same", "another"])
def test_two_owners_note_a_topic_at_once(tmp_path: Path, other: str) -> None:
    """Both the same: that is well. Two ids: neither owner goes on, now or later."""
    require_same_topics(LOCAL_FILES, str(tmp_path), {"b": Topic(4, id=other)})
    topics = {"b": Topic(4, id="same")}
    if other == "same":
        require_same_topics(_Late(), str(tmp_path), topics)
        assert len(notes_in(LOCAL_FILES, str(tmp_path))) == 1
        return
    for files in (_Late(), LOCAL_FILES):
        with pytest.raises(BrokenTask, match=MADE_AGAIN):
            require_same_topics(files, str(tmp_path), topics)


def test_an_id_is_part_of_a_file_name() -> None:
    """The text that Kafka's client gives to a third of all ids has a slash."""
    ids = [str(id_text(Uuid(most, least))) for most in (-1, 0, 2**62) for least in (-(2**63), 5)]
    assert all(re.fullmatch(r"[0-9a-f]{32}", each) for each in ids)
    assert len(set(ids)) == len(ids)
    assert "/" in str(Uuid(-1, -1))


def test_zero_is_no_id() -> None:
    """Brokers and proxies without ids answer it."""
    assert id_text(Uuid(0, 0)) is None
