"""What is said of a job's inputs: partitions, and the keys that a sample found."""

from __future__ import annotations

import re
import zlib

import pytest

from penstock.config.model import Input, JobConfig
from penstock.control.errors import BrokenTask
from penstock.spark.inputs.checks import require_no_problem
from penstock.spark.inputs.key_hash import HASHES, PlacedKey, fits, murmur2
from penstock.spark.inputs.key_sample import SampledKey, judge, judge_spark, key_in
from penstock.spark.inputs.topic_checks import topic_problems
from penstock.spark.redistribute.offsets import SourceOffsets, grown, require_growth
from penstock.spark.topics import Topic
from tests.support.config.jobs import job

PARTITIONS = 8
KEYS = [f"k{number}".encode() for number in range(40)]


# The vectors of Kafka's own test of its function.
@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536), (b"abc", 479470107)],
)
def test_murmur2_is_that_of_kafka(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed % 2**32


def test_an_empty_key_of_librdkafka_is_anywhere() -> None:
    keys = [PlacedKey(b"", 3), PlacedKey(b"a", zlib.crc32(b"a") % PARTITIONS)]
    assert fits("crc32", keys, PARTITIONS) == 2
    assert fits("kafka", [PlacedKey(b"", 3)], PARTITIONS) == (murmur2(b"") & 0x7FFFFFFF) % PARTITIONS // 3


def sampled(function: str, columns: bool = True) -> list[SampledKey]:
    """Records that `function` placed by their key; the column has the same bytes, or others."""
    place = HASHES[function]
    return [SampledKey(place(key) % PARTITIONS, key, key if columns else b'"' + key + b'"') for key in KEYS]


def source(function: str) -> Input:
    return Input(topic="t", key_groups=PARTITIONS, key_function=function, key_columns=("k",))  # type: ignore[arg-type]


@pytest.mark.parametrize("function", ["kafka", "crc32"])
def test_keys_where_the_function_puts_them_are_no_problem(function: str) -> None:
    assert judge("events", source(function), "events", sampled(function)) is None
    nulls = [SampledKey(partition, None, None) for partition in range(PARTITIONS)]
    assert judge("events", source(function), "events", sampled(function) + nulls) is None


def test_too_few_keys_tell_nothing() -> None:
    assert judge("events", source("kafka"), "events", sampled("crc32")[:7]) is None


@pytest.mark.parametrize(
    ("declared", "found", "text"),
    [
        ("kafka", sampled("crc32"), "set key_function to crc32"),
        ("crc32", sampled("kafka"), "set key_function to kafka"),
        ("kafka", sampled("kafka", columns=False), "the column k does not have the bytes of the record's key"),
        ("kafka", [SampledKey(0, key, key) for key in KEYS], "none of kafka, crc32 gives"),
        (
            "kafka",
            [*sampled("kafka"), SampledKey(1, None, KEYS[0], None, 17), SampledKey(2, None, KEYS[0], None, 18)],
            "the record at partition 1, offset 17 has no key",
        ),
    ],
)
def test_a_wrong_function_is_told_with_the_one_that_fits(declared: str, found: list[SampledKey], text: str) -> None:
    problem = judge("events", source(declared), "events", found)
    assert problem is not None
    assert (problem.field, problem.rule) == ("inputs.events.key_function", "key_function_of_producer")
    assert text in problem.detail


@pytest.mark.parametrize(
    ("partitions", "field", "text"),
    [
        (None, "inputs.flights.topic", "there is no topic flights"),
        (12, "inputs.flights.key_groups", "key_groups is 8, but the topic flights has 12 partitions, so 4 would"),
        (4, "inputs.flights.key_groups", "has 4 partitions: set it to 4"),
    ],
)
def test_a_topic_with_other_partitions_is_refused(partitions: int | None, field: str, text: str) -> None:
    config = JobConfig.model_validate(job())
    (problem,) = topic_problems(config, {config.inputs["flights"].topic: Topic(partitions)})
    assert problem.field == field
    assert text in problem.detail
    with pytest.raises(BrokenTask, match=problem.detail[:20]):
        require_no_problem([problem])
    require_no_problem([problem], ignored=[problem.rule])


def test_key_groups_that_are_new_begin_where_their_partition_begins() -> None:
    known = (SourceOffsets({"t": {0: 5, 1: 7}}),)
    assert grown(known, lambda topic, fresh: dict.fromkeys(fresh, 0), range(2, 4)) == (
        SourceOffsets({"t": {0: 5, 1: 7, 2: 0, 3: 0}}),
    )
    assert grown(known, lambda topic, fresh: {}, range(2, 2)) == known


@pytest.mark.parametrize(
    ("after", "keeps_state", "single", "text"),
    [(7, False, True, "shrink"), (9, True, False, "keeps state in several tasks")],
)
def test_key_groups_that_do_not_fit_the_checkpoints_are_refused(
    after: int, keeps_state: bool, single: bool, text: str
) -> None:
    with pytest.raises(BrokenTask, match=text):
        require_growth(8, after, keeps_state=keeps_state, single=single)
    require_growth(8, 9, keeps_state=True, single=True)
    require_growth(8, 9, keeps_state=False, single=False)
    require_growth(8, 8, keeps_state=True, single=False)


@pytest.mark.parametrize(
    ("placed", "found", "text"),
    [
        (40, [], None),
        (30, sampled("crc32"), "only 30 of 40 sampled keys .* set key_function to crc32"),
        (30, [SampledKey(0, key, key) for key in KEYS], "give the key columns the types that they have"),
    ],
)
def test_what_spark_says_of_its_own_placement(placed: int, found: list[SampledKey], text: str | None) -> None:
    there = {f"k{number}": number < placed for number in range(40)}
    problem = judge_spark("events", source("spark"), "events", found, there)
    assert (problem is None) == (text is None)
    assert problem is None or re.search(str(text), problem.detail)
    assert judge_spark("events", source("spark"), "events", found, dict(list(there.items())[33:])) is None


def test_a_topic_that_may_not_be_read_is_not_missing() -> None:
    config = JobConfig.model_validate(job())
    for topic in (Topic(None, may_read=False, may_write=False), Topic(8, may_read=False)):
        (problem,) = topic_problems(config, {"flights": topic})
        assert (problem.field, problem.rule) == ("inputs.flights.topic", "topic_readable")


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "value",
    [b"no JSON", b"[1]", b'{"k": 1}', pytest.param(DEEP, id="deep"), pytest.param(b'{"k": "a", "x": ' + DEEP, id="in")],
)
def test_a_record_whose_key_cannot_be_read_has_none(value: bytes) -> None:
    """Also one that is too deep for Python."""
    assert key_in(source("kafka"), value) is None
    assert key_in(source("kafka"), b'{"k": "a"}') == b"a"
