"""Which command helps after an error. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from penstock.cli.commands import COMMANDS
from penstock.control.errors import (
    Conflict,
    Forbidden,
    InvalidConfig,
    NotFound,
    RetryableError,
    Unauthenticated,
    UserError,
    VersionConflict,
)

_DOCTOR = "penstock doctor"
_LISTS = {
    "job": "penstock jobs list",
    "container": "penstock containers",
    "layer": "penstock layers list",
    "token": "penstock tokens list",
    "alert": "penstock alerts",
    "silence": "penstock silences list",
    "topic": "penstock topics list",
}
# The first word after these is no job.
_OTHERS = ("topics", "packages", "tokens", "secrets", "silences", "certificates", "acknowledge", "fields")
_CONTAINERS = ("containers", "cordon", "drain", "uncordon", "forget")


_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_ARGUMENTS = ("checkpoint", "requirements")


_OF_QUERY = {
    "foreign_code": "penstock packages pack --help",
    "foreign_files": "penstock packages pack --help",
    "stateful_needs_keys": "penstock fields key_function",
    "kafka_key_of_one_column": "penstock fields key_columns",
    "unknown_relation": "penstock fields inputs",
    "unresolved_column": "penstock fields value_schema",
}
"""Where a query is refused: code of one's own is a package, an input is a view with its own name, and its schema says
which columns it has. What a query may be at all is in the table of fields."""


def next_command(error: Exception, words: Sequence[str]) -> str:
    """What to try after a command of these words (without `penstock`) has ended with the error."""
    command, subject = _split(words)
    job = subject if subject and _first(command) not in (*_OTHERS, *_CONTAINERS) else None
    match error:
        case TimeoutError():
            return f"penstock watch {job}" if job else "penstock status"
        case Unauthenticated() | RetryableError():
            return _DOCTOR
        case Forbidden():
            return "penstock tokens list"
        case InvalidConfig() if _is_argument(error.field or "", command):
            return _help(command)
        case InvalidConfig() if error.rule in _OF_QUERY:
            return _OF_QUERY[error.rule]
        case InvalidConfig() if error.field:
            known = error.rule != "unknown_field" and error.field != "config"
            return f"penstock fields {_typed(error.field)}" if known else "penstock fields"
        case VersionConflict():
            return f"penstock history {job}" if job else "penstock history"
        case NotFound():
            return _of_what_is_not_there(error, command, job)
        case Conflict() if job and command in ("import", "savepoint create"):
            return f"penstock savepoint list {job}"
        case Conflict() if job and error.field == "expires_in_seconds":
            return f"penstock explain {job}"
        case Conflict() if not job and (listed := _list_of(command)):
            return listed
        case Conflict():
            return f"penstock jobs show {job}" if job else "penstock status"
        case UserError() if not (error.field or "").startswith("PENSTOCK_"):
            return _help(command)
        case OSError():
            return _help(command)
    return _DOCTOR


def _typed(field: str) -> str:
    """A field as it can be typed: up to the first key that is no plain word."""
    return ".".join(takewhile(_PLAIN.fullmatch, field.split("."))) or field.split(".")[0]


def _is_argument(field: str, command: str) -> bool:
    """Whether the field of an error is what the command was given, and no field of a job."""
    return field.startswith("body.") or field in _ARGUMENTS or command.startswith("packages")


def _of_what_is_not_there(error: NotFound, command: str, job: str | None) -> str:
    if command == "override" and error.rule == "known" and error.field != "job":
        return "penstock fields"
    if error.field == "savepoint" and job:
        return f"penstock savepoint list {job}"
    named = _LISTS.get(error.field or "") or _list_of(command)
    return named or (_LISTS["job"] if job else _help(command))


def _list_of(command: str) -> str | None:
    """The list of what the command is about: topics for `topics delete`."""
    return _LISTS["container"] if command in _CONTAINERS else _LISTS.get(_first(command).removesuffix("s"))


def _help(command: str) -> str:
    return f"penstock {command} --help".replace("  ", " ")


def _first(command: str) -> str:
    return command.partition(" ")[0]


def _split(words: Sequence[str]) -> tuple[str, str | None]:
    """The command that the words begin with, and the word after it unless that is an option."""
    for row in COMMANDS:
        path = row.path.split()
        if list(words[: len(path)]) == path:
            after = words[len(path) : len(path) + 1]
            return row.path, after[0] if after and not after[0].startswith("-") else None
    return "", None
