"""The settings of a README against those of a class: the same names with the same defaults, units and meanings.

A README has its settings in tables with the header `| setting | default | unit | meaning |`, a row for each variable.
A name such as `..._seconds` says the unit. A service's README repeats the descriptions of its class, where it has any.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

from penstock.control.settings import CommonSettings
from penstock.kafka.settings import KafkaSettings

HEADER = re.compile(r"^\| setting \| default \| unit \| meaning \|$", re.MULTILINE)
PREFIX = "PENSTOCK_"
ANY_DEFAULT = object()
"""A default that depends on the machine: the README says how."""


UNITS = {
    "BYTES_PER_SECOND": "B/s",
    "SECONDS": "s",
    "BYTES": "B",
    "DAYS": "days",
    "CORES": "cores",
}
"""How a README writes the unit that the end of a name says, the longest end first."""


class Setting(NamedTuple):
    """A field of a class. `meaning`: what the README must say of it; None leaves that to the README."""

    default: Any
    meaning: str | None = None


class Row(NamedTuple):
    """A line of a README's table, without its name."""

    default: str
    unit: str
    meaning: str


def own_settings(settings: type[BaseModel]) -> dict[str, Setting]:
    """By variable, the fields that the class itself declares or changes."""
    inherited = {name: field for base in settings.__bases__ for name, field in _shared_fields(base).items()}
    is_a_service = issubclass(settings, CommonSettings)
    return {
        PREFIX + name.upper(): Setting(
            ANY_DEFAULT if field.default_factory else field.default, field.description if is_a_service else None
        )
        for name, field in settings.model_fields.items()
        if name not in inherited or field.default != inherited[name].default
    }


def rows_of(readme: str) -> dict[str, Row]:
    """The rows, as they are written, by variable, from all settings tables of a README."""
    found: dict[str, Row] = {}
    for part in HEADER.split(readme)[1:]:
        for line in part.strip().splitlines():
            if not line.startswith("|"):
                break
            name, *cells = (cell.strip() for cell in line.strip().strip("|").split("|"))
            if name.strip("-"):
                found[name.strip("`")] = Row(*cells)
    return found


def differences(readme: str, settings: Mapping[str, Setting]) -> list[str]:
    """What a README's tables lack, have too much, or say wrongly."""
    rows = rows_of(readme)
    missing = [f"{name} is missing (default {settings[name].default!r})" for name in settings if name not in rows]
    unknown = [f"{name} is no setting of the class" for name in rows if name not in settings]
    wrong = [
        f"{name} {error}" for name in settings if name in rows for error in _errors(name, rows[name], settings[name])
    ]
    return missing + unknown + wrong


def _errors(name: str, row: Row, setting: Setting) -> list[str]:
    errors = []
    if not _is_same(row.default, setting.default):
        errors.append(f"has the default {setting.default!r}, not {row.default!r}")
    if not _is_unit_of(name, row.unit):
        errors.append(f"is not in the unit {row.unit!r}")
    if setting.meaning not in (None, row.meaning):
        errors.append(f"means {setting.meaning!r}, not {row.meaning!r}")
    return errors


def _is_unit_of(name: str, unit: str) -> bool:
    """A name that says no unit has none, or the form of its value: a folder, a URL."""
    of_name = next((unit_of_end for end, unit_of_end in UNITS.items() if name.endswith(f"_{end}")), None)
    return unit not in UNITS.values() if of_name is None else unit == of_name


def _shared_fields(base: type) -> Mapping[str, FieldInfo]:
    """The fields of a settings class that has a table of its own; other models are parts of the class."""
    return base.model_fields if issubclass(base, (BaseSettings, KafkaSettings)) else {}


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
