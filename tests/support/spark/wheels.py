"""Wheels of the tests' own, so that pip needs no index."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path


def wheel(folder: Path, name: str, version: str, files: Mapping[str, bytes], *requires: str, tag: str = "") -> Path:
    """A wheel with these files, for any Python unless a tag says another; in `folder`."""
    tag = tag or "py3-none-any"
    path = folder / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    about = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
    }
    with zipfile.ZipFile(path, "w") as archive:
        names = [*files, *about]
        for each, content in {**files, **about}.items():
            archive.writestr(each, content)
        archive.writestr(f"{info}/RECORD", "".join(f"{each},,\n" for each in [*names, f"{info}/RECORD"]))
    return path


def machine_code() -> tuple[str, bytes]:
    """The name and content of a compiled module of this Python, which needs nothing else."""
    spec = find_spec("markupsafe._speedups")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).name, Path(spec.origin).read_bytes()
