"""The settings of a service as the table that its README must have."""

from __future__ import annotations

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from penstock.control.settings import CommonSettings

_UNITS = {"bytes_per_second": "B/s", "seconds": "s", "bytes": "B", "days": "days", "cores": "cores"}


def settings_table(settings: type[CommonSettings]) -> str:
    """A Markdown table of the settings that the class adds to those of all services."""
    own = {name: field for name, field in settings.model_fields.items() if name not in CommonSettings.model_fields}
    rows = [
        f"| `PENSTOCK_{name.upper()}` | {_default(f)} | {_unit(name)} | {f.description} |" for name, f in own.items()
    ]
    return "\n".join(["| name | default | unit | meaning |", "|---|---|---|---|", *rows])


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined or field.default is None:
        return ""
    return f"`{field.default:g}`" if isinstance(field.default, float) else f"`{field.default}`"


def _unit(name: str) -> str:
    return next((unit for suffix, unit in _UNITS.items() if name.endswith(f"_{suffix}")), "")
