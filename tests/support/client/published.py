"""What `penstock.client` has published, as text: `python -m tests.support.client.published` writes it anew.

A line that goes or changes breaks a program of somebody else. A new line breaks nobody.
"""

from __future__ import annotations

import inspect
import typing
from pathlib import Path
from typing import Any

import penstock.client

GOLDEN = Path(__file__).resolve().parents[2] / "contract" / "golden" / "client.txt"


def published() -> list[str]:
    """A line for each name of `__all__`, each public method of a class, and each keyword that `**` stands for."""
    lines = []
    for name in penstock.client.__all__:
        thing = getattr(penstock.client, name)
        parents = [base.__name__ for base in thing.__mro__[1:] if base.__name__ in penstock.client.__all__]
        lines.append(f"{name}({', '.join(parents)}) {inspect.signature(thing.__init__)}")
        lines += [f"{name}.{member}{_signature(found)}" for member, found in inspect.getmembers(thing, _is_callable)]
    return lines


def _is_callable(member: object) -> bool:
    """Public methods, as `penstock` itself declares them: those of `dict` or `Exception` are Python's."""
    name = getattr(member, "__name__", "_")
    return not name.startswith("_") and str(getattr(member, "__module__", "")).startswith("penstock")


def _signature(method: Any) -> str:
    """The signature with the keywords of `**name: Unpack[...]` put in."""
    signature = str(inspect.signature(method))
    hints = typing.get_type_hints(inspect.unwrap(method), include_extras=True)
    unpacked = [hint for hint in hints.values() if typing.get_origin(hint) is typing.Unpack]
    keywords = [typing.get_args(hint)[0].__annotations__ for hint in unpacked]
    return signature + "".join(
        f" with {name}: {getattr(kind, '__forward_arg__', kind)}"
        for each in keywords
        for name, kind in sorted(each.items())
    )


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(published()) + "\n")
