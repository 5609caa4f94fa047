"""Paths of jobs: below the roots of the cell, whatever way they are written."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.model import JobConfig
from penstock.config.paths import RULE, is_below, outside, path_problems
from tests.support.config.jobs import job

ROOTS = ("/cell/outputs", "s3a://lake/jobs/", "file:///mnt/shared")


@pytest.mark.parametrize(
    "path",
    [
        "/cell/outputs/a",
        "file:/cell/outputs/a",
        "file:///cell/outputs//a/./b",
        "/mnt/shared/a",
        "s3a://lake/jobs/a",
        "/cell/outputs/a%20b",
        "/cell/outputs/*/part-?.csv",
    ],
)
def test_below_a_root(path: str) -> None:
    assert is_below(path, ROOTS)


@pytest.mark.parametrize(
    "path",
    [
        "/cell/outputs",
        "/cell/outputs/",
        "/cell/outputs/..",
        "/cell/outputs/link/../a",
        "/cell/outputs/../admin.token",
        "/cell/outputs-of-others/a",
        "/cell/admin.token",
        "file:/cell/outputs/%2e%2e/admin.token",
        "FILE:/cell/admin.token",
        "/cell/outputs/{../{../outside,zz},x}",
        "/cell/outputs/\\.\\./outside",
        "s3a://lake/jobs/%7b../x,y%7d",
        "cell/outputs/a",
        "file:cell/outputs/a",
        "//host/cell/outputs/a",
        "file://host/cell/outputs/a",
        "s3a://other/jobs/a",
        "s3a://lake/jobs/../private/a",
        "s3a:/jobs/a",
        "hdfs:///cell/outputs/a",
        "jar:file:/cell/outputs/a!/b",
        "/",
        "",
    ],
)
def test_not_below_a_root(path: str) -> None:
    assert not is_below(path, ROOTS)


def test_without_roots_nothing_is_allowed_and_the_root_of_all_allows_all() -> None:
    assert not is_below("/a", ())
    assert is_below("/a/b", ("/",))
    assert not is_below("s3a://a/b", ("/",))
    assert is_below("s3a://a/b", ("s3a://a",))
    assert not is_below("s3a://a", ("s3a://a",))


@pytest.mark.parametrize("path", ["/cell/outputs/a/../b", "file:/cell/outputs/%2e%2e/a", "../a"])
def test_a_path_with_dots_is_told_why(path: str) -> None:
    assert "may have no .. in it, since behind a link" in outside("output.path", path, ROOTS).detail
    assert "allowed are paths below" in outside("output.path", "/other..s/a", ROOTS).detail


def test_each_path_of_a_job_is_named_with_its_arguments_put_in() -> None:
    tables: dict[str, Any] = {
        "good": {"path": "/cell/outputs/${day}"},
        "bad": {"path": "/cell/outputs/${up}/admin.token"},
    }
    tables["planes"] = None
    changes = {"tables": tables, "args": {"day": "2013", "up": "../.."}}
    config = JobConfig.model_validate(job(changes) | {"output": {"type": "files", "path": "/etc/x"}})
    problems = list(path_problems(config, ROOTS))
    assert [(each.field, each.rule) for each in problems] == [("tables.bad.path", RULE), ("output.path", RULE)]
    assert "/cell/outputs/../../admin.token: a path may have no .. in it" in problems[0].detail
    assert "PENSTOCK_PATH_ROOTS" in problems[1].detail
