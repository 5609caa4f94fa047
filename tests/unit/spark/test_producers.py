"""Who says how far it has come, and who waits for whom."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.keygroups import KeyGroupRange
from penstock.spark.producers import marked_topics, marks_of, marks_topic, reader_options, writer_options
from penstock.tasks.spec import TaskSpec
from tests.support.spark.hosts import job_config

_FILES = {"type": "files", "path": "/out"}
_TOPIC = {"type": "kafka", "topic": "mid"}


@pytest.mark.parametrize(
    ("output", "topics"), [(_FILES, []), (_TOPIC, ["mid"]), (_TOPIC | {"delivery": "at_least_once"}, [])]
)
def test_only_an_exactly_once_topic_has_marks(output: dict[str, Any], topics: list[str]) -> None:
    assert marked_topics(job_config("t", 4, output)) == topics


def test_a_reader_waits_for_ever_unless_the_job_drops_late_rows() -> None:
    config = job_config("t", 4, _FILES)
    (source,) = config.inputs.values()
    assert reader_options(config, source)["producerMarks"] == "t.penstock-marks"
    assert "producerPatienceMillis" not in reader_options(config, source)
    late = config.model_copy(update={"completeness": "drop_late", "completeness_wait_seconds": 1.5})
    assert reader_options(late, source)["producerPatienceMillis"] == "1500"


def test_the_producers_of_a_pattern_s_topics_are_not_waited_for() -> None:
    config = job_config("t", 4, _TOPIC, source={"topic": None, "topic_pattern": "t.*"})
    (source,) = config.inputs.values()
    assert reader_options(config, source) == {"announce": "true"}
    assert marks_of(source) is None


def test_the_delay_of_the_input_is_taken_off() -> None:
    config = job_config("t", 4, _TOPIC)
    (source,) = config.inputs.values()
    timed = source.model_copy(update={"event_time_column": "at", "watermark_delay": "2 minutes"})
    assert reader_options(config, timed)["watermarkDelayMillis"] == "120000"
    assert reader_options(config, timed)["announce"] == "true"


def test_a_task_says_which_of_how_many_it_is() -> None:
    config = job_config("t", 4, _TOPIC, task_count=2)
    spec = TaskSpec(
        job="j", index=1, revision=1, generation=7, restarts=0, key_groups=KeyGroupRange(2, 4), config=config
    )
    assert writer_options(spec, "mid") == {
        "marksTopic": "mid.penstock-marks",
        "marksGroup": "j",
        "marksGeneration": "7",
        "marksMember": "1/2",
    }


def test_a_topic_whose_name_is_as_long_as_can_be_has_no_marks() -> None:
    assert marks_topic("t" * 234) is not None
    assert marks_topic("t" * 235) is None
