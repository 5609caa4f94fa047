"""Wheels without content that stand for what every host has, so that pip resolves libraries which require it.

PySpark is published as source only, which `pack` does not build; and a package may not bring one of its own.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Collection
from importlib import metadata
from pathlib import Path

_LABEL = "+penstock"
"""Ends the version of a stand-in, so that pip takes no published wheel of that version."""


def stand_ins(names: Collection[str], folder: Path) -> list[str]:
    """Writes a wheel for each of the distributions that is installed here, in its version; the constraints (`==`) that
    have pip take these and no others."""
    versions = {name: version for name in sorted(names) if (version := _version(name)) is not None}
    for name, version in versions.items():
        _write(name, f"{version}{_LABEL}", folder)
    return [f"{name}=={version}{_LABEL}" for name, version in versions.items()]


def remove_stand_ins(site: Path) -> None:
    """Removes what pip has installed of them."""
    for found in site.glob(f"*{_LABEL}.dist-info"):
        shutil.rmtree(found)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _write(name: str, version: str, folder: Path) -> None:
    info = f"{name}-{version}.dist-info"
    contents = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: penstock\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "".join(f"{info}/{each},,\n" for each in ("METADATA", "WHEEL", "RECORD")),
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for each, text in contents.items():
            wheel.writestr(f"{info}/{each}", text)
