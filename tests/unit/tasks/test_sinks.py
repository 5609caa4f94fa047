"""Which part of a job a host makes or checks before tasks start."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.tasks.digests import CHANGED, FIRST, digests_of
from penstock.tasks.sinks import is_prepared, prepared_part
from tests.support.store.jobs import make_config

PYTHON = {"query": {"sql": None, "python": "m:f"}, "package": {"name": "p"}}
ALONE = {"task_count": 1}
SECOND = {"inputs": {"more": {"topic": "more", "key_groups": 8, "format": "raw"}}}
SIZED = {"output": {"key_groups": 4}}
QUERY = {"query", "inputs"}
CALL = {*QUERY, "package", "args"}


@pytest.mark.parametrize(
    ("change", "first", "changed"),
    [
        (ALONE, set(), QUERY),
        (ALONE | {"output": {"cluster": "eu"}}, {"output"}, {"output", *QUERY}),
        ({}, set(), QUERY),
        (SIZED, {"output"}, {"output", *QUERY}),
        (SECOND, QUERY, QUERY),
        (SECOND | ALONE, set(), QUERY),
        (PYTHON, CALL, CALL),
        (PYTHON | ALONE, set(), QUERY),
        (PYTHON | SIZED, {"output", *CALL}, {"output", *CALL}),
    ],
)
def test_prepared_are_outputs_and_the_queries_of_jobs_that_run_or_have_several_tasks(
    change: dict[str, Any], first: set[str], changed: set[str]
) -> None:
    config = make_config(**change)
    for started, name, prepared in ((False, FIRST, first), (True, CHANGED, changed)):
        assert prepared_part(config, started=started).keys() & {"output", *CALL} == prepared
        assert bool(digests_of(config)[name]) == bool(prepared)


def test_more_tasks_of_a_checked_query_are_not_checked_again() -> None:
    two, four = (make_config(**PYTHON, task_count=count) for count in (2, 4))
    assert prepared_part(two, started=True) == prepared_part(four, started=True)
    assert digests_of(two)[CHANGED] == digests_of(four)[CHANGED]
    other = make_config(**PYTHON | {"args": {"x": 1}})
    assert prepared_part(two, started=True) != prepared_part(other, started=True)


@pytest.mark.parametrize(
    ("before", "after", "done"),
    [
        ({"task_count": 2}, {"task_count": 4}, True),
        ({"task_count": 2}, ALONE, True),
        (ALONE, {"task_count": 2}, False),
        (ALONE, ALONE | {"priority": 2}, True),
        (ALONE, ALONE | {"query": {"sql": "SELECT orgin FROM events"}}, False),
        (ALONE, ALONE | {"inputs": {"events": {"malformed_alert_share": 0.5}}}, True),
        (ALONE, ALONE | {"inputs": {"events": {"starting_position": "latest"}}}, True),
        (ALONE, ALONE | {"inputs": {"events": {"malformed": "fail"}}}, False),
        (ALONE, ALONE | {"spark_settings": {"spark.sql.adaptive.enabled": "true"}}, True),
        (ALONE, ALONE | {"spark_settings": {"spark.sql.ansi.enabled": "false"}}, False),
        (PYTHON | {"task_count": 4}, PYTHON | ALONE, True),
        (PYTHON | {"task_count": 4}, PYTHON | ALONE | {"query": {"sql": None, "python": "m:g"}}, False),
        (PYTHON | ALONE, PYTHON | {"task_count": 4}, False),
        (SIZED, {}, True),
        ({}, SIZED, False),
    ],
)
def test_a_job_that_runs_is_checked_before_another_query_and_before_its_rows_are_in_several_tasks(
    before: dict[str, Any], after: dict[str, Any], *, done: bool
) -> None:
    configs = make_config(**after), make_config(**before)
    assert is_prepared(*configs) is done
    same = digests_of(configs[0])[CHANGED] == digests_of(configs[1])[CHANGED]
    assert not same or done, "equal digests never leave a check out"


@pytest.mark.parametrize(
    ("change", "is_asked"),
    [
        ({"inputs": {"events": {"malformed_alert_share": 0.5}}}, False),
        ({"inputs": {"events": {"malformed": "fail"}}}, True),
        ({"spark_settings": {"spark.sql.adaptive.enabled": "true"}}, False),
        ({"spark_settings": {"spark.sql.ansi.enabled": "false"}}, True),
    ],
)
def test_what_changes_while_tasks_run_changes_no_digest_of_the_query(change: dict[str, Any], *, is_asked: bool) -> None:
    """So no write of a layer has thousands of jobs wait for a host."""
    assert (digests_of(make_config(**change))[CHANGED] != digests_of(make_config())[CHANGED]) is is_asked


def test_a_release_of_sql_jobs_needs_no_host() -> None:
    """Their package holds no query, so neither it nor an argument tells where rows are."""
    released = make_config(package={"version": "2"}, args={"x": 1})
    assert prepared_part(released, started=True) == prepared_part(make_config(), started=True)


def test_the_streams_of_several_tasks_are_checked_too() -> None:
    streams = {"a": {"format": "delta"}, "b": {"format": "delta"}}
    config = {**make_config(), "inputs": {}, "streams": streams}
    assert [prepared_part(config, started=started).get("streams") for started in (False, True)] == [streams, streams]
    one = {**config, "streams": {"a": {"format": "delta"}}}
    assert prepared_part(one, started=False).keys() & QUERY == set()
    assert "streams" not in prepared_part(make_config(), started=True)
