"""`penstock`: the same nouns as the API. Each group of commands is a module; errors become one line and exit 1."""

from __future__ import annotations

import sys

import typer

from penstock.cli import cluster, jobs, local, setup
from penstock.cli.output import err
from penstock.control.errors import PenstockError, UserError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A Turbine-style control plane for Spark Structured Streaming.",
)
for module in (jobs, cluster, setup, local):
    module.add_to(app)


def main() -> None:
    """The console script: like `app`, with Penstock's errors in one line each."""
    try:
        app()
    except UserError as error:
        where = f" (field {error.field}, rule {error.rule})" if error.field else ""
        err.print(f"[red]{type(error).__name__}:[/] {error.detail}{where}")
        sys.exit(1)
    except PenstockError as error:
        err.print(f"[red]{type(error).__name__}:[/] {error.detail}")
        sys.exit(1)


if __name__ == "__main__":
    main()
