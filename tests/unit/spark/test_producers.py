"""Who says how far it has come, and who waits for whom."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.keygroups import KeyGroupRange
from penstock.spark.producers import (
    marked_topics,
    marks_of,
    marks_topic,
    reader_options,
    series_outputs,
    writer_options,
)
from penstock.spark.sinks.kafka import transactional_id_prefix
from penstock.tasks.sinks import has_transactions
from penstock.tasks.spec import TaskSpec
from tests.support.spark.hosts import job_config

_FILES = {"type": "files", "path": "/out"}
_TOPIC = {"type": "kafka", "topic": "mid"}


@pytest.mark.parametrize(
    ("output", "topics"), [(_FILES, []), (_TOPIC, ["mid"]), (_TOPIC | {"delivery": "at_least_once"}, [])]
)
def test_only_an_exactly_once_topic_has_marks(output: dict[str, Any], topics: list[str]) -> None:
    assert marked_topics(job_config("t", 4, output)) == topics


def test_each_topic_that_is_written_in_transactions_has_a_series_and_marks() -> None:
    """Beside topics at least once, and tables. A job announces if only a side output has marks."""
    sides = {
        "b": {"output": _TOPIC | {"topic": "b", "cluster": "eu"}},
        "a": {"output": _TOPIC | {"topic": "a"}},
        "c": {"output": _TOPIC | {"topic": "c", "delivery": "at_least_once"}},
        "d": {"output": {"type": "delta", "path": "/d"}},
    }
    config = job_config("t", 4, _TOPIC, side_outputs=sides)
    assert [(name, output.topic) for name, output in series_outputs(config)] == [(None, "mid"), ("a", "a"), ("b", "b")]
    assert marked_topics(config) == ["mid", "a", "b@eu"]
    (source,) = config.inputs.values()
    beside_a_table = job_config("t", 4, {"type": "delta", "path": "/main"}, side_outputs={"a": sides["a"]})
    assert reader_options(beside_a_table, source)["announce"] == "true"


@pytest.mark.parametrize(
    "side", [None, {"type": "delta", "path": "/d"}, _TOPIC, _TOPIC | {"delivery": "at_least_once"}]
)
@pytest.mark.parametrize("output", [_FILES, _TOPIC, _TOPIC | {"delivery": "at_least_once"}])
def test_the_state_syncer_finds_the_same_outputs_in_transactions(
    output: dict[str, Any], side: dict[str, Any] | None
) -> None:
    config = job_config("t", 4, output, side_outputs={} if side is None else {"a": {"output": side}})
    assert has_transactions(config.model_dump(mode="json")) == bool(list(series_outputs(config)))


def test_the_series_of_a_side_output_is_none_of_the_main_one() -> None:
    names = [transactional_id_prefix("j", 1, 7, side) for side in (None, "a", "b")]
    assert names == ["penstock-j/1/7", "penstock-j/1/7/a", "penstock-j/1/7/b"]


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
