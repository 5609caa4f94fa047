"""How commands fail: the next command to try, the exit code, and never a traceback."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from penstock.cli import errors
from penstock.cli.commands import COMMANDS
from penstock.cli.hints import next_command
from penstock.cli.lazy import LazyCommand
from penstock.control.errors import (
    Conflict,
    Forbidden,
    InvalidConfig,
    NotFound,
    TerminalError,
    Unauthenticated,
    Unavailable,
    UserError,
    VersionConflict,
)
from tests.support.cli.shell import Shell
from tests.tidy.source import REPOSITORY

_RULE = re.compile(r'(?:sql_problem\(|\brule=)"([a-z_]+)"')


def _rules() -> set[str]:
    """All rules that are named where something is refused."""
    files = [file for folder in ("libs", "services") for file in (REPOSITORY / folder).rglob("*.py")]
    found = {rule for file in files for rule in _RULE.findall(file.read_text(encoding="utf-8"))}
    assert {"sql_syntax", "one_select", "unknown_relation", "immutable"} <= found
    return found


def _is_command(words: list[str]) -> bool:
    """Whether `penstock` takes these words."""
    row = next((row for row in COMMANDS if words[: len(row.path.split())] == row.path.split()), None)
    if row is None or words[-1] == "--help":
        return row is not None or words == ["--help"]
    path = row.path.split()
    return LazyCommand(row).make_context(row.path, words[len(path) :]).command.name == path[-1]


@pytest.mark.parametrize(
    ("error", "typed", "command"),
    [
        (Unavailable("x"), "jobs list", "penstock doctor"),
        (Unauthenticated("x"), "jobs list", "penstock doctor"),
        (UserError("x", field="PENSTOCK_URL"), "jobs list", "penstock doctor"),
        (TerminalError("x"), "up", "penstock doctor"),
        (Forbidden("x"), "jobs list", "penstock tokens list"),
        (
            InvalidConfig("x", field="slo.max_lag_seconds"),
            "jobs apply etl a.json",
            "penstock fields slo.max_lag_seconds",
        ),
        (
            InvalidConfig("x", field="side_outputs.late.output.table"),
            "jobs apply etl a.json",
            "penstock fields side_outputs.late.output.table",
        ),
        (InvalidConfig("x", field="inputs.My Input.topic"), "jobs apply etl a.json", "penstock fields inputs"),
        (InvalidConfig("x", field="args.?"), "jobs apply etl a.json", "penstock fields args"),
        (
            InvalidConfig("x", field="query.sql", rule="foreign_code"),
            "jobs apply etl a.json",
            "penstock packages pack --help",
        ),
        (
            InvalidConfig("x", field="task_count", rule="stateful_needs_keys"),
            "jobs apply etl a.json",
            "penstock fields key_function",
        ),
        (
            InvalidConfig("x", field="query.sql", rule="string_too_long"),
            "jobs apply etl a.json",
            "penstock fields query.sql",
        ),
        (
            InvalidConfig("x", field="query.sql", rule="sql_syntax"),
            "plan etl base a.json",
            "penstock fields query.sql",
        ),
        (
            InvalidConfig("x", field="query.sql", rule="one_select"),
            "plan etl base a.json",
            "penstock fields query.sql",
        ),
        (
            InvalidConfig("x", field="query.sql", rule="unknown_relation"),
            "plan etl base a.json",
            "penstock fields inputs",
        ),
        (
            InvalidConfig("x", field="query.sql", rule="unresolved_column"),
            "plan etl base a.json",
            "penstock fields value_schema",
        ),
        (InvalidConfig("x", field="slq", rule="unknown_field"), "jobs apply etl a.json", "penstock fields"),
        (InvalidConfig("x", field="body.seconds"), "jobs profile etl", "penstock jobs profile --help"),
        (InvalidConfig("x", field="checkpoint"), "import etl /x", "penstock import --help"),
        (InvalidConfig("x", field="package"), "packages pack a b 1", "penstock packages pack --help"),
        (Conflict("x", field="name"), "import etl /x", "penstock savepoint list etl"),
        (VersionConflict("x", current_version=2), "layers patch etl base {}", "penstock history etl"),
        (NotFound("x", field="job"), "explain etl", "penstock jobs list"),
        (NotFound("x"), "tasks etl", "penstock jobs list"),
        (NotFound("x", field="savepoint"), "savepoint show etl v1", "penstock savepoint list etl"),
        (NotFound("x", field="name"), "tokens revoke ann", "penstock tokens list"),
        (NotFound("x"), "drain c1", "penstock containers"),
        (NotFound("x", field="alert"), "acknowledge 7", "penstock alerts"),
        (Conflict("x"), "rescale etl 4", "penstock jobs show etl"),
        (Conflict("x", field="expires_in_seconds"), "override etl priority=1 --for 1h", "penstock explain etl"),
        (Conflict("x"), "topics delete bids", "penstock topics list"),
        (Conflict("x"), "forget c1", "penstock containers"),
        (TimeoutError("x"), "drain c1", "penstock status"),
        (TimeoutError("x"), "rescale etl 4", "penstock watch etl"),
        (UserError("x", field="for"), "override etl a=1", "penstock override --help"),
        (FileNotFoundError("x"), "packages pack a", "penstock packages pack --help"),
        (UserError("x"), "", "penstock --help"),
    ],
)
def test_each_error_has_a_next_command(error: Exception, typed: str, command: str) -> None:
    assert next_command(error, shlex.split(typed)) == command
    assert _is_command(shlex.split(command)[1:])


def test_no_rule_is_without_a_command_that_exists() -> None:
    """Of whatever field, and after whatever command."""
    fields = ("query.sql", "query.python", "inputs.a.topic", "body.seconds", None)
    typed = (["plan", "etl", "base", "a.json"], ["drain", "c1"], [])
    errors_seen = [InvalidConfig("x", field=field, rule=rule) for field in fields for rule in _rules()]
    commands = {next_command(error, words) for error in errors_seen for words in typed}
    assert len(commands) > len(typed)
    for command in commands:
        name, *words = shlex.split(command)
        assert (name, _is_command(words)) == ("penstock", True), command


def test_a_fault_of_the_cli_shows_no_traceback_and_keeps_it_in_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def broken(**_: object) -> None:
        raise KeyError("state")

    with pytest.raises(SystemExit) as ended:
        errors.run(broken, "penstock")
    assert ended.value.code == errors.Exit.FAULT
    told = capsys.readouterr().err
    [kept] = tmp_path.iterdir()
    assert told == f"a fault of penstock itself: KeyError: 'state'\n  please report {kept}\n"
    assert "Traceback" in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0


def test_a_refusal_names_the_next_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    told = Shell(monkeypatch, capsys)("override", "etl", "task_cont=4", "-r", "x")
    assert told.code == errors.Exit.REFUSED
    assert told.err.splitlines() == [
        "NotFound: there is no field task_cont: do you mean task_count, max_task_count? (field task_cont, rule known)",
        "  try: penstock fields",
    ]


def test_wrong_options_end_with_their_own_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Shell(monkeypatch, capsys)("jobs", "list", "--nosuch")
    assert told.code == errors.Exit.OPTIONS
    assert "Try 'penstock jobs list --help'" in told.err


def test_ctrl_c_ends_with_its_own_code(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("penstock.cli.cluster._named", interrupted)
    told = Shell(monkeypatch, capsys)("fields", "task_count")
    assert (told.code, "Traceback" in told.err) == (errors.Exit.INTERRUPTED, False)


def test_the_readme_has_each_exit_code() -> None:
    lines = (REPOSITORY / "libs" / "penstock" / "cli" / "README.md").read_text().splitlines()
    start = lines.index("| exit code | meaning |")
    end = lines.index("", start)
    assert [int(line.split("|")[1]) for line in lines[start + 2 : end]] == sorted(errors.Exit)
