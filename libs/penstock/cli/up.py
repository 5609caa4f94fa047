"""`penstock up`: the whole of Penstock on one machine."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from penstock.cli.output import say
from penstock.cli.settings import CliSettings
from penstock.control import logs
from penstock.local.stack import LocalStack


def up(
    task_managers: Annotated[int, typer.Option(min=1, max=32, help="number of Task Managers (containers)")] = 2,
    database_url: Annotated[
        str | None, typer.Option(help="use this Postgres server instead of the embedded one")
    ] = None,
    kafka: Annotated[str | None, typer.Option(help="use this Kafka instead of the embedded one (host:port)")] = None,
) -> None:
    """Run Postgres, Kafka, all services and Task Managers on this machine. Ctrl-C stops them.

    The data survive in PENSTOCK_DATA_DIR (default: .penstock).
    """
    logs.configure("cli", level="WARNING")
    end_on_signals()
    folder = CliSettings.read().data_dir
    stack = LocalStack(folder, task_managers=task_managers, database=database_url, kafka=kafka, on_event=say)
    try:
        with stack:
            say(f"ready: {stack.url}  token in {stack.data_dir / 'admin.token'}  (Ctrl-C stops all)", style="green")
            signal.pause()
    except KeyboardInterrupt:
        say("stopped")


def end_on_signals() -> None:
    """Makes SIGTERM end the process as Ctrl-C does, so that everything is stopped in order.

    SIGINT gets its usual handler back too: a shell may have started this process with SIGINT ignored.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
