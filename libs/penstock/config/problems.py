"""A problem with a configuration, and the one error that carries all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.control.errors import InvalidConfig


class Problem(NamedTuple):
    """`field` is the dotted path at fault, `rule` the name of the rule it breaks, `detail` a sentence for people."""

    field: str
    rule: str
    detail: str


PYDANTIC_RULES = {"extra_forbidden": "unknown_field", "missing": "required", "union_tag_not_found": "required"}
"""Pydantic's words for what Penstock has its own words for; all other rules keep pydantic's names."""
# What one answer says at most; the caller mends these and asks again.
MAX_PROBLEMS = 100
MAX_CHARACTERS = 2000


def refusal(problems: Sequence[Problem]) -> InvalidConfig:
    """The error for at least one problem: the first one's field and rule, the first hundred in `extra["errors"]`."""
    shown = [_printable(problem) for problem in problems[:MAX_PROBLEMS]]
    first = shown[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    errors = [problem._asdict() for problem in shown]
    return InvalidConfig(first.detail + more, field=first.field, rule=first.rule, errors=errors)


def require_all(*checks: Callable[[], object]) -> None:
    """Makes all checks. Raises InvalidConfig with the problems of every one that did."""
    found: list[Problem] = []
    for check in checks:
        try:
            check()
        except InvalidConfig as error:
            found += problems_in(error)
    if found:
        raise refusal(found)


def problems_in(error: InvalidConfig) -> list[Problem]:
    """The problems that an error carries; itself, where it is one alone."""
    errors = error.extra.get("errors")
    if isinstance(errors, list):
        return [Problem(each["field"], each["rule"], each["detail"]) for each in errors]
    return [Problem(error.field or "config", error.rule or "valid", error.detail)]


def _printable(problem: Problem) -> Problem:
    """The problem in text that any answer can carry: a caller's keys may hold lone surrogates."""
    field, rule, detail = (text[:MAX_CHARACTERS].encode("utf-8", "replace").decode() for text in problem)
    return Problem(field, rule, detail)
