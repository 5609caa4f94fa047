"""The demo as a program of its own, started by `penstock.cli.demo`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import errors
from penstock.cli.arguments import PortBase
from penstock.cli.output import out, say
from penstock.cli.settings import CliSettings
from penstock.cli.up import end_on_signals, require_http
from penstock.control import logs
from penstock.control.settings import CommonSettings
from penstock.local.demo.run import run
from penstock.local.services import PORT_BASE

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="keep everything running at the end, until Ctrl-C")] = False,
    seconds: Annotated[float, typer.Option(min=1, help="how long the feeding of the flights takes")] = 80.0,
    data_dir: Annotated[Path | None, typer.Option(help="folder of the demo; it is emptied first")] = None,
    port_base: PortBase = PORT_BASE,
    picture: Annotated[Path | None, typer.Option(help="save the final display as SVG to this file")] = None,
) -> None:
    """Run the demo: 336,776 flights through three jobs, with failures; check that results are exact."""
    require_http(CommonSettings())
    logs.configure("demo", level="ERROR")
    end_on_signals()
    folder = data_dir or CliSettings.read().data_dir / "demo"
    try:
        sys.exit(run(out, folder, keep=keep, feed_seconds=seconds, picture=picture, port_base=port_base))
    except KeyboardInterrupt:
        say("stopped")
        sys.exit(130)


if __name__ == "__main__":
    errors.run(app, "penstock demo")
