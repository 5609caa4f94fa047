"""A Python of its own for a folder of libraries, as `venv` makes one, with the platform's libraries behind them."""

from __future__ import annotations

import site
import sys
from pathlib import Path

PLATFORM_BEHIND = "zz-penstock-platform.pth"
"""Read after the `.pth` files of the libraries, as Python reads them by name."""
SETS_MODULES = frozenset(
    {
        *("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONSTARTUP", "PYTHONPLATLIBDIR", "PYTHONEXECUTABLE"),
        *("PYTHONINSPECT", "PYTHONPYCACHEPREFIX"),
    }
)
"""Variables by which Python finds other modules than its own, or runs other code."""
ISOLATED = {"PYTHONNOUSERSITE": "1", "PYTHONSAFEPATH": "1"}
"""Keeps modules of the account and of the working folder out of a Python and the Pythons that it starts."""


def python_of(environment: Path) -> Path:
    """The interpreter of an environment."""
    return environment / "bin" / "python"


def command_of(environment: Path | None) -> list[str]:
    """The beginning of a command of an environment's Python, without what variables and the account add to it; that of
    this process's Python for None."""
    return [sys.executable] if environment is None else [str(python_of(environment)), "-I"]


def site_of(environment: Path) -> Path:
    """The folder of an environment's own libraries."""
    return environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def base_python() -> Path:
    """The interpreter from which this process's environment was made, or its own."""
    return Path(getattr(sys, "_base_executable", None) or sys.executable).absolute()


def platform_folders() -> list[str]:
    """The folders of this process's installed libraries, without the account's own."""
    return [folder for folder in site.getsitepackages() if Path(folder).is_dir()]


def identity() -> str:
    """Tells environments apart that are made from other interpreters, or stand before other libraries."""
    return repr((1, sys.version, str(base_python()), platform_folders()))


def skeleton(environment: Path, libraries: Path | None = None) -> None:
    """Makes an environment. Its own libraries are those that are in `site_of(environment)` already, and then those of
    the folder `libraries`, which stays where it is.

    It names no path inside itself, so it may be renamed.
    """
    python, base = python_of(environment), base_python()
    python.parent.mkdir(parents=True)
    python.symlink_to(base)
    version = ".".join(map(str, sys.version_info[:3]))
    (environment / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\nversion = {version}\n"
    )
    own, front = site_of(environment), [] if libraries is None else [str(libraries)]
    own.mkdir(parents=True, exist_ok=True)
    lines = (f"import site; site.addsitedir({folder!r})\n" for folder in (*front, *platform_folders()))
    (own / PLATFORM_BEHIND).write_text("".join(lines))
