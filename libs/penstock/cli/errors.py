"""How a command fails: a line for each problem on the error stream, with field and rule, and an exit code.

1: refused, or it cannot be done. 3: it is not done in the time that was given, and continues. (2: wrong options, by
typer.)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from penstock.cli.output import err
from penstock.control.errors import PenstockError, TerminalError, UserError

REFUSED, LATE = 1, 3


def run(app: Callable[..., Any], name: str) -> None:
    """Runs a program under a name. An expected error is told in lines; any other is a bug and shows its traceback."""
    try:
        app(prog_name=name)
    except BrokenPipeError:
        # Whoever reads (`| head`) has seen enough. What Python would still write at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (PenstockError, ValidationError, OSError) as error:
        told = "\n".join([f"{type(error).__name__}: {line(error)}", *further(error)])
        err.print(told, style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(LATE if isinstance(error, TimeoutError) else REFUSED)


def line(error: PenstockError | ValidationError | OSError) -> str:
    """The text of an error in one line. Only a terminal error may quote several lines of a log."""
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
