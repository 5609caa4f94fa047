"""The option `-o`: the same answer as a table, wide, JSON or YAML."""

from __future__ import annotations

import json

import pytest
import yaml

from penstock.cli import output
from penstock.cli.commands import COMMANDS
from penstock.cli.lazy import Command, LazyCommand
from tests.support.cli.shell import Shell


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


def test_each_form_has_the_same_answer(shell: Shell) -> None:
    document = json.loads(shell("fields", "--json").ok())
    assert json.loads(shell("fields", "-o", "json").ok()) == document
    assert yaml.safe_load(shell("fields", "--output", "yaml").ok()) == document
    assert shell("fields", "-o", "table").ok() == shell("fields").ok()
    assert yaml.safe_load(shell("fields", "task_count", "-o", "yaml").ok())["fields"][0]["path"] == "task_count"


def test_wide_cuts_nothing_and_breaks_no_row(shell: Shell) -> None:
    rows = shell("fields", "-o", "wide").ok().splitlines()
    longest = max(json.loads(shell("fields", "--json").ok())["fields"], key=lambda field: len(field["documentation"]))
    assert len(longest["documentation"]) > 200
    assert longest["path"] in rows
    assert f"  {longest['documentation']}" in rows
    assert "..." not in "".join(shell("fields", "-o", "wide").ok())


def test_the_form_of_one_command_is_not_that_of_the_next(shell: Shell) -> None:
    shell("fields", "-o", "wide").ok()
    assert output.cell("x" * 500).endswith("...")


def test_another_form_is_refused_with_those_there_are(shell: Shell) -> None:
    refused = shell("fields", "-o", "xml")
    assert refused.code == 2
    assert all(form in refused.err for form in ("table", "wide", "json", "yaml"))


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.path)
def test_each_list_and_each_document_has_the_option(row: Command) -> None:
    path = row.path
    names = {name for param in LazyCommand(row).load().params for name in param.opts}
    lists = path.endswith((" list", " show")) or path in ("tasks", "alerts", "containers", "shards", "leaders", "sync")
    assert not lists or {"--output", "-o"} <= names
    assert ("--json" not in names) or "-o" in names


def test_a_field_that_an_error_names_is_found_with_the_key_of_the_job_in_it(shell: Shell) -> None:
    """Of one that there is not, those of what it would be in are shown; a first word that is none is refused."""
    (found,) = json.loads(shell("fields", "side_outputs.late.output.table", "--json").ok())["fields"]
    assert found["path"] == "side_outputs.*.output.table"
    around = json.loads(shell("fields", "side_outputs.late.output.nonsense", "--json").ok())["fields"]
    assert around
    assert all(row["path"].startswith("side_outputs.*.output.") for row in around)
    assert "there is no field nonsense.x" in shell("fields", "nonsense.x").refusal()
