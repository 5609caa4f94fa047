"""Packages of the tests with libraries of their own, and hosts in their environments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from penstock.spark.dependencies import entries, has_dependencies, resolved
from penstock.spark.environments import Environments
from penstock.spark.packages import pack
from penstock.spark.settings import SparkSettings


def packed_with(
    folder: Path,
    name: str,
    code: str,
    requirements: Iterable[str],
    wheels: Path,
    *,
    root: Path | None = None,
    **pip: str,
) -> dict[str, str]:
    """A package with one module of its name, as a job names it, with what pip resolves from `wheels` and where it is
    configured to look. `root`: of the packages, else `folder/packages`. `pip`: variables of pip."""
    (source := folder / name).mkdir(parents=True)
    (source / f"{name}.py").write_text(code)
    (needed := folder / f"{name}.txt").write_text("".join(f"{each}\n" for each in requirements))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_FIND_LINKS", str(wheels))
        for variable, value in pip.items():
            patch.setenv(variable, value)
        with resolved(needed) as site:
            _, digest = pack(source, name, "1", root or folder / "packages", entries(site))
    return {"name": name, "version": "1", "digest": digest}


def in_environment(settings: SparkSettings, package: Mapping[str, str], folder: Path) -> SparkSettings:
    """The settings of a host for a package, as a Task Manager with this folder gives them."""
    path = settings.packages_root / f"{package['name']}-{package['version']}.zip"
    if not has_dependencies(path):
        return settings
    kept = Environments(folder / "environments", 2**32, for_all=False)
    return settings.model_copy(update={"package_environment": kept.take(path, package["name"])})
