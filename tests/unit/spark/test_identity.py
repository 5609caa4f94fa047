"""A topic that was deleted and made again is not the one that a checkpoint's offsets count in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Uuid

from penstock.control.errors import BrokenTask
from penstock.spark.files import LOCAL_FILES
from penstock.spark.inputs.identity import require_same_topics
from penstock.spark.topics import Topic, id_text


def test_a_topic_with_another_id_is_refused(tmp_path: Path) -> None:
    """1. Two topics are noted. 2. One is missing for a while, or the broker does not say. 3. It has another id, until
    the file that the error names is deleted."""
    both = {"a": Topic(4, id="one-1"), "b": Topic(4, id="_2-x")}
    for topics in (both, both, {"a": Topic(None)}, {"a": Topic(4)}, both):
        require_same_topics(LOCAL_FILES, str(tmp_path), topics)
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(BrokenTask, match="the topic b was deleted and made again") as refused:
        require_same_topics(LOCAL_FILES, str(tmp_path), {**both, "b": Topic(4, id="new")})
    assert "starting_position earliest" in str(refused.value)
    Path(str(refused.value).rpartition("delete ")[2]).unlink()
    require_same_topics(LOCAL_FILES, str(tmp_path), {**both, "b": Topic(4, id="new")})


def test_an_id_is_part_of_a_file_name() -> None:
    """The text that Kafka's client gives to a third of all ids has a slash."""
    ids = [id_text(Uuid(most, least)) for most in (-1, 0, 2**62) for least in (-(2**63), 5)]
    assert all(re.fullmatch(r"[0-9a-f]{32}", each) for each in ids)
    assert len(set(ids)) == len(ids)
    assert "/" in str(Uuid(-1, -1))
