"""Which paths a write may give a job, where the roots of the cell have changed since the job was written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.config.validate import check_merged
from penstock.control.errors import InvalidConfig
from penstock.model.jobs import LayerRow, StoredJob, StoredLayer
from services.job_service.path_rules import require_paths
from services.job_service.writes import unknown_job

LAYERS = {"base": LayerRow("base", 0)}
ROOTS = ("/cell/outputs",)


def with_table(path: str, **args: str) -> dict[str, Any]:
    return {
        "query": {"sql": "SELECT * FROM flights"},
        "inputs": {"flights": {"topic": "flights", "key_groups": 8, "value_schema": "a INT"}},
        "output": {"type": "kafka", "topic": "clean"},
        "owner": "ann",
        "tables": {"t": {"path": path, "format": "csv"}},
        "args": args,
    }


def job_of(config: dict[str, Any], running: dict[str, Any] | None = None) -> StoredJob:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    layer = StoredLayer("base", config, 1, 1, "ann", "", now, None)
    return replace(unknown_job("a"), revision=1, running=running, layers={"base": layer})


def is_allowed(job: StoredJob, after: dict[str, Any]) -> bool:
    """Whether the write is done; a refusal names the table's path."""
    try:
        require_paths(job, LAYERS, check_merged(after), ROOTS)
    except InvalidConfig as error:
        return (error.field, error.rule) != ("tables.t.path", "below_path_roots")
    return True


def test_a_path_that_the_job_has_stays_and_no_other_comes() -> None:
    job = job_of(with_table("/old/t"))
    assert is_allowed(job, {**with_table("/old/t"), "desired_state": "stopped"})
    assert is_allowed(job, with_table("/cell/outputs/t"))
    assert not is_allowed(job, with_table("/old/other"))


def test_a_new_job_gets_none() -> None:
    assert not is_allowed(unknown_job("a"), with_table("/old/t"))


def test_a_job_goes_back_to_what_it_runs_with() -> None:
    job = job_of(with_table("/cell/outputs/t"), running=with_table("/old/t"))
    assert is_allowed(job, with_table("/old/t"))
    assert not is_allowed(replace(job, running=None), with_table("/old/t"))


@pytest.mark.parametrize(("folder", "allowed"), [("old", True), ("other", False)])
def test_an_argument_that_changes_changes_the_path(folder: str, *, allowed: bool) -> None:
    job = job_of(with_table("/${folder}/t", folder="old"))
    assert is_allowed(job, with_table("/${folder}/t", folder=folder)) is allowed


def test_a_stored_configuration_that_is_not_valid_now_allows_nothing() -> None:
    assert not is_allowed(job_of({**with_table("/old/t"), "inputs": {"flights": {}}}), with_table("/old/t"))
