"""Digests tell the kind of a difference, as `classify` does from the configurations."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.classify import classify
from penstock.config.declare import ChangeKind
from penstock.config.tree import ROOT, Group, rows
from penstock.config.validate import check_merged
from penstock.tasks import digests
from penstock.tasks.digests import CHANGED, FIRST, digests_of
from penstock.tasks.rollout import is_upgrade
from penstock.tasks.sinks import has_several_tasks, is_prepared, prepared_part
from tests.support.config.jobs import job

OUTPUTS = [
    {"type": "kafka", "topic": "clean"},
    {"type": "kafka", "topic": "clean", "key_groups": 4},
    {"type": "kafka", "topic": "other"},
    {"type": "delta", "path": "file:/out"},
    {"type": "files", "path": "file:/out"},
    {"type": "files", "path": "file:/out", "format": "json"},
    {"type": "files", "path": "file:/out", "format": "csv"},
    {"type": "files", "path": "file:/out", "format": "csv", "csv": {"delimiter": ";"}},
    {"type": "postgres", "table": "out"},
]
SIDES = [
    {},
    {"a": {"output": {"type": "kafka", "topic": "a"}}},
    {"a": {"output": {"type": "kafka", "topic": "a", "key_groups": 2}, "where": "delay > 1"}},
    {"a": {"output": {"type": "delta", "path": "file:/a"}}},
    {"a": {"output": {"type": "delta", "path": "file:/a", "partition_columns": ["dest"]}, "columns": ["dest"]}},
    {"b": {"output": {"type": "kafka", "topic": "a"}}, "a": {"output": {"type": "postgres", "table": "a"}}},
]
ARGS = st.dictionaries(st.sampled_from("ab"), st.sampled_from([1, 1.0, True, "1", 0, False, "", 2.5]), max_size=2)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "package": st.fixed_dictionaries({}, optional={"name": st.sampled_from(["builtin", "p"]), "version": st.just("2")}),
    "query": st.sampled_from([{"sql": "SELECT * FROM flights"}, {"sql": "SELECT dest FROM flights"}]),
    "args": ARGS,
    "output": st.sampled_from(OUTPUTS),
    "side_outputs": st.sampled_from(SIDES),
    "resources": st.sampled_from([{}, {"cpu_cores": 1}, {"cpu_cores": 1.0}, {"memory_bytes": 2**30}]),
    "dead_letter_topic": st.sampled_from([None, "bad"]),
    "tables": st.sampled_from([{}, {"planes": {"path": "file:/planes"}}, {"planes": {"path": "file:/x"}}]),
    "task_count": st.sampled_from([1, 2]),
    "threads_per_task": st.sampled_from([1, 2]),
    "trigger_interval_seconds": st.sampled_from([5, 5.0, 1]),
    "state_backend": st.sampled_from(["heap", "rocksdb"]),
    "completeness": st.sampled_from(["wait", "drop_late"]),
    "completeness_wait_seconds": st.sampled_from([600.0, 1.0]),
    "priority": st.sampled_from([0, 5]),
    "owner": st.sampled_from(["", "ann"]),
    "region": st.sampled_from([None, "eu"]),
    "labels": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2),
    "container_labels": st.dictionaries(st.just("disk"), st.sampled_from(["ssd"]), max_size=1),
    "desired_state": st.sampled_from(["running", "stopped"]),
    "spark_settings": st.sampled_from(
        [{}, {"spark.sql.ansi.enabled": "false"}, {"spark.sql.adaptive.enabled": "true"}]
    ),
    "secrets": st.just({}),
}


def complete(changes: dict[str, Any]) -> dict[str, Any]:
    """As the store has it: merged, validated, dumped and read again."""
    config = fitting({**job(), **changes})
    return dict(orjson.loads(orjson.dumps(check_merged(config).model_dump(mode="json"))))


def fitting(config: dict[str, Any]) -> dict[str, Any]:
    """Without side outputs where there may be none: beside files."""
    return {**config, "side_outputs": {}} if config["output"]["type"] == "files" else config


def kind_of(old: dict[str, str], new: dict[str, str]) -> ChangeKind:
    """The greatest kind whose digests differ, as the store determines it."""
    return max((kind for kind in ChangeKind if old[kind.name.lower()] != new[kind.name.lower()]), default=ChangeKind(0))


CHANGES = st.fixed_dictionaries({}, optional=FIELDS)
CONFIGS = CHANGES.map(complete)
PAIRS = st.tuples(CHANGES, CHANGES, st.booleans()).map(
    lambda drawn: (complete(drawn[0]), complete({**drawn[0], **drawn[1]} if drawn[2] else drawn[1]))
)


@given(PAIRS)
def test_the_greatest_kind_whose_digests_differ_is_the_kind_of_the_difference(pair: Any) -> None:
    old, new = pair
    assert kind_of(digests_of(old), digests_of(new)) is classify(old, new).kind


@given(PAIRS)
def test_each_kind_has_a_digest_of_its_own(pair: Any) -> None:
    old, new = pair
    told = {change.kind.name.lower() for change in classify(old, new).fields}
    before, after = digests_of(old), digests_of(new)
    assert {kind.name.lower() for kind in ChangeKind if before[kind.name.lower()] != after[kind.name.lower()]} == told


@given(PAIRS)
def test_the_digest_of_the_package_differs_where_a_rollout_begins(pair: Any) -> None:
    old, new = pair
    is_other = digests_of(old)["package"] != digests_of(new)["package"]
    assert is_other == is_upgrade(tuple(change.path for change in classify(old, new).fields))


@given(PAIRS)
def test_the_digests_of_what_a_host_prepares_differ_where_it_must_be_asked(pair: Any) -> None:
    """Where several tasks become one, or an output need not be made any more, they differ without need."""
    old, new = pair
    before, after = digests_of(old), digests_of(new)
    prepared = prepared_part(new, started=False)
    assert (after[FIRST] not in ("", before[FIRST])) == (prepared not in ({}, prepared_part(old, started=False)))
    becomes_one = has_several_tasks(old) and not has_several_tasks(new)
    differs = after[CHANGED] not in ("", before[CHANGED])
    is_less = prepared_part(new, started=True).keys() < prepared_part(old, started=True).keys()
    assert differs == (not is_prepared(new, old) or becomes_one or is_less)


@given(CHANGES)
def test_an_absent_leaf_counts_as_its_default(changes: dict[str, Any]) -> None:
    short = fitting({**job(), **changes})
    checked = check_merged(short).model_dump(mode="json")
    assert kind_of(digests_of(short), digests_of(checked)) is classify(short, checked).kind


@pytest.mark.parametrize(("old", "new"), [(1, True), (0, False), (1, 1.0), ("1", 1)])
def test_arguments_differ_by_type(old: Any, new: Any) -> None:
    before, after = digests_of(complete({"args": {"x": old}})), digests_of(complete({"args": {"x": new}}))
    assert kind_of(before, after) is ChangeKind.RESTART


def test_a_field_of_another_version_is_a_restart() -> None:
    assert kind_of(digests_of(complete({}) | {"gone": {"since": 2}}), digests_of(complete({}))) is ChangeKind.RESTART


def test_no_digest_equals_one_of_a_release_with_another_field_table(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digests_of(complete({"output": OUTPUTS[3]}))
    monkeypatch.setattr(digests, "MODEL_FINGERPRINT", "another")
    assert not set(before.values()) & set(digests_of(complete({"output": OUTPUTS[3]})).values())


def test_every_field_of_the_model_is_in_the_strategy_or_below_an_input() -> None:
    known = {*FIELDS, "inputs", "output_mode", "key_group_bounds", "max_task_count", "isolation", "slo"}
    known |= {
        "max_records_per_trigger",
        "max_bytes_per_trigger",
        "max_batch_seconds",
        "rescale_within_seconds",
        "streams",
    }
    assert isinstance(ROOT, Group)
    assert set(ROOT.fields) == known
    assert {row.change for row in rows(ROOT)} == set(ChangeKind)


def test_digests_of_other_rules_are_never_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digests_of(complete({}))
    monkeypatch.setattr(digests, "RULES", digests.RULES + 1)
    after = digests_of(complete({}))
    assert all(before[kind] != after[kind] for kind in before if before[kind])
