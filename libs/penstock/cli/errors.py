"""How a command fails: one line on the error stream, with field and rule where there are any, and exit code 1."""

from __future__ import annotations

import sys

import typer
from pydantic import ValidationError

from penstock.cli.output import err
from penstock.control.errors import PenstockError, TerminalError, UserError


def run(app: typer.Typer, name: str) -> None:
    """Runs a program as `name`. Errors that are expected of one are told in a line each; others are bugs and show."""
    try:
        app(prog_name=name)
    except (PenstockError, ValidationError, OSError) as error:
        err.print(f"{type(error).__name__}: {line(error)}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)


def line(error: PenstockError | ValidationError | OSError) -> str:
    """What an error says, in one line; only terminal errors may quote the log of what failed, as it is."""
    match error:
        case TerminalError():
            return error.detail
        case PenstockError():
            field, rule, detail = getattr(error, "field", None), getattr(error, "rule", None), error.detail
        case ValidationError():
            first = error.errors(include_url=False)[0]
            field, rule, detail = ".".join(str(part) for part in first["loc"]), first["type"], first["msg"]
        case _:
            field, rule, detail = None, None, str(error)
    where = ", ".join(f"{what} {value}" for what, value in (("field", field), ("rule", rule)) if value)
    return " ".join(detail.split()) + (f" ({where})" if where else "")


def required(what: str, *, field: str) -> UserError:
    """The refusal of a command that lacks something; `what` is one sentence that says how to give it."""
    return UserError(what, field=field, rule="required")
