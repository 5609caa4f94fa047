"""The settings of a README against those of a class: the same names with the same defaults.

A README has its settings in tables with the header `| setting | default | unit | meaning |`, a row for each variable.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

HEADER = re.compile(r"^\| *(?:setting|name)\b[^|]*\| *default *\| *unit *\| *meaning *\|$", re.MULTILINE)
PREFIX = "PENSTOCK_"
ANY_DEFAULT = object()
"""A default that depends on the machine: the README says how."""


def own_settings(settings: type[BaseModel]) -> dict[str, Any]:
    """Default by variable of the fields that the class itself declares or changes."""
    inherited = {name: field for base in settings.__bases__ for name, field in _shared_fields(base).items()}
    return {
        PREFIX + name.upper(): ANY_DEFAULT if field.default_factory else field.default
        for name, field in settings.model_fields.items()
        if name not in inherited or field.default != inherited[name].default
    }


def rows_of(readme: str) -> dict[str, str]:
    """Default, as it is written, by variable, from all settings tables of a README."""
    found: dict[str, str] = {}
    for part in HEADER.split(readme)[1:]:
        for line in part.strip().splitlines():
            if not line.startswith("|"):
                break
            name, default = (cell.strip() for cell in line.split("|")[1:3])
            name = name.strip("`")
            if name.strip("-"):
                found[PREFIX + name.removeprefix(PREFIX)] = default
    return found


def differences(readme: str, settings: Mapping[str, Any]) -> list[str]:
    """What a README's tables lack, have too much, or say wrongly."""
    rows = rows_of(readme)
    missing = [f"{name} is missing (default {settings[name]!r})" for name in settings if name not in rows]
    unknown = [f"{name} is no setting of the class" for name in rows if name not in settings]
    wrong = [
        f"{name} has the default {default!r}, not {rows[name]!r}"
        for name, default in settings.items()
        if name in rows and not _is_same(rows[name], default)
    ]
    return missing + unknown + wrong


def _shared_fields(base: type) -> Mapping[str, FieldInfo]:
    """The fields of a settings class that has a table of its own; other models are parts of the class."""
    return base.model_fields if issubclass(base, BaseSettings) else {}


def _is_same(cell: str, default: Any) -> bool:
    """A default that is absent or depends on the machine may be said in words, which have no backticks around."""
    written = cell.strip("`")
    if default is ANY_DEFAULT or isinstance(default, BaseModel) or str(default).startswith(sys.prefix):
        return True
    if default is PydanticUndefined or str(default) in ("None", "", "{}", "()"):
        return written in ("", "{}", "[]") or not cell.startswith("`")
    if isinstance(default, bool):
        return written == str(default).lower()
    if isinstance(default, int | float):
        return re.fullmatch(r"[0-9.e+-]+", written) is not None and float(written) == float(default)
    return written == str(default)
