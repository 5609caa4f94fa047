"""Commands that run Penstock on one machine."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import out
from penstock.cli.settings import CliSettings
from penstock.control import logs
from penstock.local.demo.run import run
from penstock.local.stack import LocalStack


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the program."""
    app.command()(up)
    app.command()(demo)


def up(
    task_managers: Annotated[int, typer.Option(min=1, max=32, help="how many containers")] = 2,
    database_url: Annotated[
        str | None, typer.Option(help="a Postgres server to use instead of the embedded one")
    ] = None,
    kafka: Annotated[str | None, typer.Option(help="a Kafka to use instead of the embedded one")] = None,
) -> None:
    """Run everything on this machine; Ctrl-C stops it, the data survive in PENSTOCK_DATA_DIR (.penstock)."""
    logs.configure("up", level="WARNING")
    _end_on_sigterm()
    folder = CliSettings().data_dir
    stack = LocalStack(folder, task_managers=task_managers, database=database_url, kafka=kafka, on_event=_print)
    try:
        with stack:
            out.print(f"[green]ready[/]: {stack.url}  token in {stack.data_dir / 'admin.token'}  (Ctrl-C stops all)")
            signal.pause()
    except KeyboardInterrupt:
        out.print("stopped")


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="leave it up at the end, until Ctrl-C")] = False,
    seconds: Annotated[float, typer.Option(min=1, help="how long the flights take to flow in")] = 80.0,
    data_dir: Annotated[Path | None, typer.Option(help="folder of the demo; emptied first")] = None,
) -> None:
    """336,776 flights through three jobs, with an override, an upgrade and kills; is the result exact?"""
    logs.configure("demo", level="ERROR")
    _end_on_sigterm()
    folder = data_dir or CliSettings().data_dir / "demo"
    try:
        sys.exit(run(out, folder, keep=keep, feed_seconds=seconds))
    except TimeoutError as error:
        out.print(f"the demo failed: {error}")
        sys.exit(1)
    except KeyboardInterrupt:
        out.print("stopped")
        sys.exit(130)


def _print(text: str) -> None:
    out.print(text, highlight=False, soft_wrap=True)


def _end_on_sigterm() -> None:
    """SIGTERM ends like Ctrl-C, so that everything is stopped in order."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
