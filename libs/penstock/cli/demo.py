"""`penstock demo` as a program of its own: see `penstock.cli.local`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import errors
from penstock.cli.local import end_on_signals
from penstock.cli.output import out, say
from penstock.cli.settings import CliSettings
from penstock.control import logs
from penstock.local.demo.run import run

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="leave it up at the end, until Ctrl-C")] = False,
    seconds: Annotated[float, typer.Option(min=1, help="how long the flights take to flow in")] = 80.0,
    data_dir: Annotated[Path | None, typer.Option(help="folder of the demo; emptied first")] = None,
    picture: Annotated[Path | None, typer.Option(help="save the final display here, as SVG")] = None,
) -> None:
    """336,776 flights through three jobs, with an override, an upgrade and kills; is the result exact?"""
    logs.configure("demo", level="ERROR")
    end_on_signals()
    folder = data_dir or CliSettings().data_dir / "demo"
    try:
        sys.exit(run(out, folder, keep=keep, feed_seconds=seconds, picture=picture))
    except KeyboardInterrupt:
        say("stopped")
        sys.exit(130)


if __name__ == "__main__":
    errors.run(app, "penstock demo")
