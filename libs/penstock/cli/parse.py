"""What people type: JSON or a file of it, and durations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any, Literal

import orjson

from penstock.config.names import NAME, NAME_RULE
from penstock.control.errors import UserError
from penstock.control.unique_keys import DuplicateKey, unique_keys

_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_WORDS = {"d": "d|days?", "h": "h|hrs?|hours?", "m": "m|mins?|minutes?", "s": "s|secs?|seconds?"}
_DURATION = re.compile(r"\s*".join(rf"(?:(?P<{unit}>\d{{1,9}})\s*(?:{words}))?" for unit, words in _WORDS.items()))


def json_object(text: str, *, names: dict[str, str] | None = None, field: str = "config") -> dict[str, Any]:
    """A JSON object given as text, or the name of a file that holds one; `${name}` is replaced in a file.

    Raises UserError when it is neither, or not an object.
    """
    path = Path(text)
    source = text
    if not text.lstrip().startswith("{"):
        if not path.is_file():
            raise UserError(f"{text} is neither a JSON object nor a file", field=field, rule="json_object")
        source = Template(path.read_text()).safe_substitute(names or {})
    try:
        value = orjson.loads(source)
        json.loads(source, object_pairs_hook=unique_keys)
    except DuplicateKey as error:
        raise UserError(str(error), field=error.key, rule="duplicate_key") from error
    except orjson.JSONDecodeError as error:
        raise UserError(f"this is not JSON: {error}", field=field, rule="json_object") from error
    if not isinstance(value, dict):
        raise UserError("write a JSON object: {...}", field=field, rule="json_object")
    return value


def name_of(what: str) -> Callable[[str | None], str | None]:
    """A check of an argument that is the name of a job, a layer and so on. It raises UserError."""

    def check(name: str | None) -> str | None:
        if name is not None and re.fullmatch(NAME, name) is None:
            raise UserError(f"{name!r} cannot be a name: a {what}'s name {NAME_RULE}", field=what, rule="name")
        return name

    return check


def layer_before_file(text: str | None) -> str | None:
    """A check of a layer that may be left out. It raises UserError, also for a configuration in its place."""
    if text is not None and (text.lstrip().startswith("{") or (Path(text).suffix and Path(text).is_file())):
        hint = "give the layer before the file: `penstock plan JOB base FILE`"
        raise UserError(f"{text} is a configuration: {hint}", field="layer", rule="name")
    return name_of("layer")(text)


def expiry_seconds(text: str | None) -> int | Literal["default"] | None:
    """For `expires_in_seconds`: a duration; None for `never`; `default` for nothing. Raises UserError."""
    if text is None:
        return "default"
    return None if text == "never" else duration_seconds(text, others=" or never")


def duration_seconds(text: str, *, field: str = "for", others: str = "") -> int:
    """`90`, `90s`, `30m`, `30minutes`, `2h`, `1h30m`, `1d` in seconds. Raises UserError; `others` is what else may be
    written there."""
    plain = text.strip().lower()
    parts = _DURATION.fullmatch(f"{plain}s" if plain.isdecimal() else plain)
    seconds = 0 if parts is None else sum(int(parts[unit] or 0) * length for unit, length in _UNITS.items())
    if seconds == 0:
        raise UserError(
            f"{text} is not a duration: write 90s, 30m, 1h30m, 2h or 1d{others}", field=field, rule="duration"
        )
    return seconds
