"""Patterns of topics: what may stand in one, and what it matches."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from penstock.config.model import Input
from penstock.config.topic_patterns import beginning, covers, matches, pattern_name, problem_of, regex_of_names

GOOD = [
    "orders-.*",
    "orders|payments",
    "^orders-.*$",
    r"(?:eu|us)\.orders\.\d{4}",
    "[a-z_.-]+-v[0-9]?",
    r"[^\d]\w*",
    "(a|b)?c",
    "()|a",
    r".*-.*-\d{4}",
    "[a-z]{240}",
    "|".join(f"tenant-{number}" for number in range(300)),
]
BAD = [
    ("(a+)+b", "repeats a group"),
    ("(a|b)*", "repeats a group"),
    ("a{2}{3}", "stands behind nothing"),
    ("a*?", "stands behind nothing"),
    ("a*+", "stands behind nothing"),
    ("*", "stands behind nothing"),
    ("(?i)a", "(?i) at character 1: a group is ( ) or (?: )"),
    ("(?=a)b", "(?=a at character 1: a group is ( ) or (?: ), with alternatives, and looks neither ahead"),
    ("orders-(?!eu).*", "(?!e at character 8: a group is ( ) or (?: )"),
    ("(?<!a)b", "Topics that are not to be read are named in excluded_topics"),
    ("a{,2}", "not allowed"),
    (r"a\Z", "not allowed"),
    (r"(a)\1", "not allowed"),
    ("[[a]]", "not allowed"),
    ("[a&&b]", "not allowed"),
    ("[]", "not allowed"),
    ("orders@eu", "not allowed"),
    ("a^b", "not allowed"),
    ("[z-a]", "bad character range"),
    ("(a", "not closed"),
    ("a)", "not opened"),
    ("((((((a))))))", "deep"),
    (".*-.*-.*", "too many ways"),
    ("a?" * 15 + "[a-z]{230}1", "too many ways"),
    ("a{\u0661}", "not allowed"),
    ("a?" * 30, "too many ways"),
    ("(a|a)" * 30, "too many ways"),
    ("(a?a?a?)?" * 10, "too many ways"),
]


@pytest.mark.parametrize("pattern", GOOD)
def test_what_may_stand_in_a_pattern(pattern: str) -> None:
    assert problem_of(pattern) is None


@pytest.mark.parametrize(("pattern", "why"), BAD)
def test_what_may_not(pattern: str, why: str) -> None:
    assert why in (problem_of(pattern) or "")
    assert not matches(pattern, "a")


@pytest.mark.parametrize(
    ("pattern", "topic", "is_read"),
    [
        ("orders-.*", "orders-a", True),
        ("orders-.*", "my-orders-a", False),
        ("orders", "orders-a", False),
        ("orders|payments", "payments", True),
        (".*", "__consumer_offsets", False),
        (".*", "orders.penstock-marks", False),
        (".*", "orders.penstock-marks-not", True),
        ("orders.a", "orders-a", True),
        (r"orders\.a", "orders-a", False),
    ],
)
def test_the_whole_name_counts_and_no_topic_of_kafka_or_of_marks(pattern: str, topic: str, is_read: bool) -> None:
    assert matches(pattern, topic) is is_read


def test_an_excluded_topic_is_left_out_by_its_whole_name() -> None:
    found = [name for name in ("a.1", "a.11", "a-1", "a.2") if matches("a.*", name, ("a.1",))]
    assert found == ["a.11", "a-1", "a.2"]


def test_names_are_not_read_as_expressions() -> None:
    expression = regex_of_names(["b.x", "a-1"])
    assert [name for name in ("a-1", "b.x", "b-x") if matches(expression, name)] == ["a-1", "b.x"]


@pytest.mark.parametrize("pattern", [".*-.*x", "(?:-*-?|-*)x", "-{0,249}-{0,249}x"])
def test_the_slowest_pattern_is_quick_with_many_names(pattern: str) -> None:
    """Others may make topics of such names."""
    begun = process_time()
    assert problem_of(pattern) is None
    assert not any(matches(pattern, "-" * (249 - number)) for number in range(50))
    assert process_time() - begun < 1


def test_an_input_reads_topics_of_its_own_cluster() -> None:
    def reads(**fields: Any) -> list[str]:
        source = Input(key_groups=4, format="raw", **fields)
        return [name for name in ("orders", "orders@eu", "orders-a", "orders-a@eu") if source.reads(name)]

    assert reads(topic="orders") == ["orders"]
    assert reads(topic="orders", cluster="eu") == ["orders@eu"]
    assert reads(topic_pattern="orders.*") == ["orders", "orders-a"]
    assert reads(topic_pattern="orders-.*", cluster="eu") == ["orders-a@eu"]
    assert reads(topic_pattern="orders.*", excluded_topics=("orders",)) == ["orders-a"]


@pytest.mark.parametrize(
    ("pattern", "begins", "topics"),
    [
        ("orders-.*", "orders-", ["orders-", "orders-eu"]),
        ("^orders$", "orders", ["orders"]),
        ("orders|payments", "", ["orders", "payments"]),
        ("ab?c", "a", ["ac", "abc"]),
        ("ab*", "a", ["a", "abb"]),
        ("ab{0,2}", "a", ["a", "abb"]),
        ("ab+", "ab", ["ab", "abb"]),
        (r"a\.b", "a", ["a.b"]),
        ("a(b|c)", "", ["ab", "ac"]),
        (".*", "", ["", "a"]),
    ],
)
def test_the_beginning_of_a_pattern_is_that_of_all_topics_that_it_matches(
    pattern: str, begins: str, topics: list[str]
) -> None:
    name = pattern_name(pattern, [], "eu")
    assert beginning(name) == begins
    assert all(covers(name, f"{topic}@eu") and topic.startswith(begins) for topic in topics if topic)
