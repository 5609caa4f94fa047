"""What people type into forms, as the Job Service takes it. Pure. Each error names the field that it stands beside."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.cli.parse import expiry_seconds
from penstock.config.declare import NAME, NAME_RULE
from penstock.control.errors import PenstockError, UserError
from penstock.control.unique_keys import DuplicateKey, unique_keys
from penstock.model.alerts import AlertKind

Errors = dict[str, str]
"""By name of the field, what is wrong with it. The key `form` is of the form as a whole."""
WHOLE = "form"
_LONGEST_REASON = 2000
_MOST_TASKS = 10_000
_LONGEST_TIME = 20
_KEY = re.compile(r"^[!-~]{1,200}$")
_PATH = re.compile(r"^[A-Za-z_][\w-]*(\.[\w-]+)*$")
_FOR_OTHERS = re.compile(r" \((?:no )?`--[^)]*\)")
"""How the command line and the API name what a refusal proposes; a page has neither."""
_HERE = {"whole_layer": "the page of the plan has a box for that"}
"""By rule, where a page has what the refusal proposes."""
Expiry = int | Literal["default"] | None


@dataclass(frozen=True, slots=True)
class Filled:
    """A form as it was sent: what was typed, and what is wrong with it."""

    values: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)

    def value(self, name: str, default: str = "") -> str:
        """What stands in the field."""
        return self.values.get(name, default)

    def error(self, name: str) -> str:
        """What is wrong with the field; empty when nothing is."""
        return self.errors.get(name, "")


def changes(text: str, errors: Errors) -> dict[str, Any]:
    """A merge patch, typed as `field = value` lines or as a JSON object. An empty value, or `null`, drops the field."""
    if not text.strip():
        errors["changes"] = "write what to change: a line `field = value` for each field"
        return {}
    try:
        found = _json_object(text) if text.lstrip().startswith("{") else _lines(text.splitlines())
        _require_sendable(found)
        return found
    except UserError as error:
        errors["changes"] = error.detail
        return {}


def _require_sendable(patch: Mapping[str, Any]) -> None:
    """JSON has texts that UTF-8 has not, and names numbers that are too large for any computer. Raises UserError."""
    try:
        json.dumps(patch, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise _wrong(f"this cannot be sent: {str(error)[:80]}") from error


def _json_object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=unique_keys, parse_constant=_no_number)
    except DuplicateKey as error:
        raise _wrong(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise _wrong(f"this is not JSON: {error}") from error
    return dict(found)


def _lines(lines: Iterable[str]) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        path, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not _PATH.match(path):
            raise _wrong(f"line {number} is not `field = value`: {line.strip()[:80]}")
        _put(patch, path.split("."), _value(value), number)
    if not patch:
        raise _wrong("write what to change: a line `field = value` for each field")
    return patch


def _put(patch: dict[str, Any], path: list[str], value: Any, number: int) -> None:
    *parents, leaf = path
    for name in parents:
        patch = patch.setdefault(name, {})
        if not isinstance(patch, dict):
            raise _wrong(f"line {number}: {name} has a value of its own already")
    if leaf in patch:
        raise _wrong(f"line {number}: {'.'.join(path)} is there twice")
    patch[leaf] = value


def _value(text: str) -> Any:
    if not text:
        return None
    try:
        return json.loads(text, object_pairs_hook=unique_keys, parse_constant=_no_number)
    except DuplicateKey as error:
        raise _wrong(str(error)) from error
    except (ValueError, RecursionError):
        return text


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _wrong(detail: str) -> UserError:
    return UserError(detail, field="changes", rule="changes")


def reason(text: str, errors: Errors) -> str:
    """Why: the next person on call needs it."""
    if not text.strip():
        errors["reason"] = "say why: the next person on call will need it"
    elif len(text) > _LONGEST_REASON:
        errors["reason"] = f"at most {_LONGEST_REASON} characters"
    return text.strip()


def savepoint_name(text: str, errors: Errors) -> None:
    """A name, or nothing: then the Job Service names it after the time."""
    if text.strip() and re.fullmatch(NAME, text.strip()) is None:
        errors["name"] = f"a savepoint's name {NAME_RULE}"


def ends(text: str, errors: Errors) -> Expiry:
    """`30m`, `2h`, `1d` in seconds; None for `never`; `default` for nothing."""
    try:
        if len(text) > _LONGEST_TIME:
            raise UserError("write 30m, 2h or 1d", field="ends", rule="duration")
        return expiry_seconds(text.strip() or None)
    except UserError as error:
        errors["ends"] = error.detail
        return "default"


def needed_seconds(text: str, errors: Errors) -> int:
    """A duration that must be given."""
    found = ends(text, errors)
    if not isinstance(found, int):
        errors.setdefault("ends", "for how long: write 30m, 2h or 1d")
        return 1
    return found


def task_count(text: str, errors: Errors) -> int:
    """A number of tasks."""
    if not re.fullmatch(r"[0-9]{1,6}", text.strip()) or not 1 <= int(text) <= _MOST_TASKS:
        errors["task_count"] = f"write a number from 1 to {_MOST_TASKS:,}"
        return 1
    return int(text)


def alert_kind(text: str, errors: Errors) -> AlertKind | None:
    """A kind of alerts; None for every kind."""
    if text and text not in set(AlertKind):
        errors["kind"] = "choose one of the kinds"
        return None
    return AlertKind(text) if text else None


def idempotency_key(form: Mapping[str, str]) -> str | None:
    """The key that the page put into the form, so that a form that is sent twice is done once; None without a good
    one."""
    key = form.get("idempotency_key", "")
    return key if _KEY.match(key) and "\n" not in key else None


def whole_number(text: str) -> int:
    """A number that a page put into a form, such as a version. Raises UserError."""
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise UserError("this form is not as the page made it: open the page again", field=WHOLE, rule="number")
    return int(text)


def _told(error: PenstockError) -> list[str]:
    """Every problem of a configuration that the Job Service names, else the one sentence of the refusal."""
    problems = error.extra.get("errors")
    details = [each.get("detail") for each in problems if isinstance(each, dict)] if isinstance(problems, list) else []
    return [str(each) for each in details if each] or [error.detail]


def refused(error: PenstockError, fields: Mapping[str, str], default: str = WHOLE) -> Errors:
    """The error of a refused write, beside the field that it is about. `fields`: by the API's name of a field, the
    form's. What is about something else stands beside `default`."""
    named = getattr(error, "field", None)
    rule = getattr(error, "rule", None)
    told = _FOR_OTHERS.sub("", "; ".join(_told(error)))
    here = f": {_HERE[rule]}" if rule in _HERE else ""
    text = told + here + (f" (rule {rule})" if rule else "")
    return {fields.get(str(named).removeprefix("body."), default) if named else WHOLE: text}
