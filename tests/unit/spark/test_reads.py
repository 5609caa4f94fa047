"""Which input each source of a query reads, by what the tasks' checkpoints say."""

from __future__ import annotations

import pytest

from penstock.config.model import Input
from penstock.config.topics import topic_and_cluster
from penstock.control.errors import BrokenCheckpoint
from penstock.spark.redistribute.offsets import SourceOffsets
from penstock.spark.redistribute.reads import Read, as_read, inputs_of, reads_of
from tests.unit.spark.test_redistribute_parts import both, source


@pytest.mark.parametrize(
    ("topic", "inputs", "named"),
    [
        pytest.param("a@eu", ["a@eu", "a"], "a@eu", id="a full name"),
        pytest.param("a", ["a@eu", "a"], "a", id="of the cell's own Kafka"),
        pytest.param("a", ["a@eu", "b"], "a@eu", id="of Spark, with one such input"),
        pytest.param("a", ["a@eu", "a@us"], "a", id="of one of two, nobody knows which"),
        pytest.param("a@us", ["a@eu"], "a@us", id="of no input"),
        pytest.param("ab", ["a.*@eu", "b"], "ab@eu", id="of a pattern"),
    ],
)
def test_an_imported_checkpoint_has_plain_names(topic: str, inputs: list[str], named: str) -> None:
    assert as_read(source(topic, p0=1), reading(*inputs)) == source(named, p0=1)


def test_offsets_of_excluded_topics_are_forgotten() -> None:
    many = Input(topic_pattern="a.*", excluded_topics=("a2",), key_groups=8)
    noted = both(source("a1", p0=1), source("a2", p0=2))
    assert as_read(noted, inputs_of([many])) == source("a1", p0=1)


def test_a_topic_that_one_input_excludes_and_another_reads_stays() -> None:
    """Where a pattern matches the topic of another input, that is what the rule says to do."""
    inputs = inputs_of(
        [Input(topic_pattern="a.*", excluded_topics=("a2",), key_groups=8), Input(topic="a2", key_groups=8)]
    )
    sources = [as_read(source("a1", p0=1), inputs), as_read(source("a2", p0=2), inputs)]
    assert sources == [source("a1", p0=1), source("a2", p0=2)]
    assert reads_of([sources], inputs, begun=True) == (read("a.*", "a1"), read("a2", "a2"))


def reading(*names: str) -> dict[str, Input]:
    """Inputs of a topic, or of a pattern where there is a star."""
    found = [(*topic_and_cluster(name), "topic_pattern" if "*" in name else "topic") for name in names]
    return inputs_of(Input(**{field: name}, cluster=cluster, key_groups=8) for name, cluster, field in found)  # type: ignore[arg-type]


def noted(*topics: str | None) -> list[SourceOffsets | None]:
    """Of each source the topics `a+b`; None: the task does not say."""
    return [
        None if topic is None else both(*(source(name, p0=1) for name in topic.split("+") if name)) for topic in topics
    ]


def read(name: str | None, *topics: str) -> Read:
    return Read(name, frozenset(topics))


def test_what_a_source_reads_is_told_by_any_task_that_knows_it() -> None:
    inputs = reading("a", "b")
    tasks = [noted(), noted(None, "b"), noted("a", "b")]
    assert reads_of(tasks, inputs, begun=True) == (read("a", "a"), read("b", "b"))
    assert reads_of([noted(), noted(None, None)], inputs, begun=False) == ()
    assert reads_of([noted("a", None)], inputs, begun=False) == (read("a", "a"),)


def test_tasks_may_have_seen_different_topics_of_a_pattern() -> None:
    tasks = [noted("a1", "b"), noted("a1+a2", "b"), noted("", "b"), noted(None, "b")]
    assert reads_of(tasks, reading("a.*", "b"), begun=True) == (read("a.*", "a1", "a2"), read("b", "b"))


def test_a_topic_of_two_patterns_is_of_the_source_that_only_one_of_them_reads() -> None:
    inputs = reading("a.*", ".*b")
    assert reads_of([noted("a+ab", "ab+b")], inputs, begun=True) == (read("a.*", "a", "ab"), read(".*b", "ab", "b"))
    with pytest.raises(BrokenCheckpoint, match="source 0 of the query reads ab"):
        reads_of([noted("ab", "b")], inputs, begun=True)


def test_a_source_without_topics_is_of_a_pattern_that_no_other_source_reads() -> None:
    """All topics of the pattern are excluded now, or none was there."""
    assert reads_of([noted("", "b")], reading("a.*", "b"), begun=True) == (read("a.*"), read("b", "b"))
    assert reads_of([noted("a1", "")], reading("b.*", "a.*"), begun=True) == (read("a.*", "a1"), read("b.*"))
    assert reads_of([noted("a1", "")], reading("a.*"), begun=True) == (read("a.*", "a1"), read("a.*"))


@pytest.mark.parametrize(
    ("inputs", "tasks"),
    [(["a.*", "b"], noted("a1", "")), (["a", "b"], noted("a", "")), (["a"], noted("")), (["a.*", "b"], noted("", ""))],
)
def test_a_source_without_topics_is_refused_where_it_may_be_of_a_topic(
    inputs: list[str], tasks: list[SourceOffsets | None]
) -> None:
    with pytest.raises(BrokenCheckpoint, match="reads no topic: expected topics of one input"):
        reads_of([tasks], reading(*inputs), begun=True)


@pytest.mark.parametrize(
    "tasks", [[noted("a"), noted("b")], [noted(None)], [noted("a+b")], [noted("c")]], ids=["two", "none", "both", "c"]
)
def test_topics_that_contradict_or_are_unknown_are_an_error(tasks: list[list[SourceOffsets | None]]) -> None:
    with pytest.raises(BrokenCheckpoint, match="expected topics of one input"):
        reads_of(tasks, reading("a", "b"), begun=True)
