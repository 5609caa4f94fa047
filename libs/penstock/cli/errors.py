"""How a command fails: a line for each problem on the error stream, with field and rule, then what to try; and the
exit codes. Nobody sees a traceback: that of a fault of Penstock's own is written to a file.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from pydantic import ValidationError

from penstock.cli.hints import next_command
from penstock.cli.output import err
from penstock.config.pattern_words import message_of
from penstock.control.errors import PenstockError, TerminalError, UserError


class Exit(IntEnum):
    """The exit codes of all commands. The README explains them."""

    DONE = 0
    REFUSED = 1
    OPTIONS = 2
    LATE = 3
    DRIFT = 4
    UNVERIFIED = 5
    FAULT = 70
    INTERRUPTED = 130


def run(app: Callable[..., Any], name: str) -> None:
    """Runs a program under a name. An error is told in lines; one that is not expected is a fault of Penstock's."""
    try:
        app(prog_name=name)
    except BrokenPipeError:
        # Whoever reads (`| head`) has seen enough. What Python would still write at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (PenstockError, ValidationError, OSError) as error:
        told = [f"{type(error).__name__}: {line(error)}", *further(error)]
        _tell([*told, *_hint(error, "\n".join(told))])
        sys.exit(Exit.LATE if isinstance(error, TimeoutError) else Exit.REFUSED)
    except Exception as error:  # noqa: BLE001 (a fault of the CLI itself, whatever it is)
        first = " ".join(str(error).split())
        _tell([f"a fault of penstock itself: {type(error).__name__}: {first}", f"  please report {_kept(error)}"])
        sys.exit(Exit.FAULT)


def _tell(lines: list[str]) -> None:
    err.print("\n".join(lines), style="red", markup=False, highlight=False, soft_wrap=True)


def _hint(error: Exception, told: str) -> list[str]:
    """A line with the next command to try, unless what is told names one."""
    command = None if "`penstock " in told else next_command(error, sys.argv[1:])
    return [] if command is None else [f"  try: {command}"]


def _kept(error: Exception) -> str:
    """Where the traceback is. It has no values of variables, so no secret of a token; only its owner may read it."""
    with tempfile.NamedTemporaryFile("w", prefix="penstock-fault-", suffix=".log", delete=False) as file:
        file.write("".join(traceback.format_exception(error)))
    return file.name


def line(error: PenstockError | ValidationError | OSError) -> str:
    """The text of an error in one line. Only a terminal error may quote several lines of a log."""
    match error:
        case TerminalError():
            return error.detail
        case PenstockError():
            field, rule, detail = getattr(error, "field", None), getattr(error, "rule", None), error.detail
        case ValidationError():
            first = error.errors(include_url=False)[0]
            field, rule, detail = ".".join(str(part) for part in first["loc"]), first["type"], message_of(first)
        case _:
            field, rule, detail = None, None, str(error)
    where = ", ".join(f"{what} {value}" for what, value in (("field", field), ("rule", rule)) if value)
    return " ".join(detail.split()) + (f" ({where})" if where else "")


def further(error: Exception) -> list[str]:
    """A line for each problem of a configuration but the first, which `line` tells."""
    problems = error.extra.get("errors") if isinstance(error, PenstockError) else None
    others = problems[1:] if isinstance(problems, list) else []
    return [_line_of(other) for other in others if isinstance(other, dict)]


def _line_of(other: dict[str, Any]) -> str:
    """A further field without words of its own is told of as the first one is."""
    detail = other.get("detail")
    return f"  and {detail} (field {other.get('field')})" if detail else f"  and also the field {other.get('field')}"


def required(what: str, *, field: str) -> UserError:
    """The refusal of a command without something it needs; `what` is one sentence that says how to give it."""
    return UserError(what, field=field, rule="required")
