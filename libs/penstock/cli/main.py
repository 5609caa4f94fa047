"""`penstock`: the same nouns as the API. Each group of commands is a module; errors become one line and exit 1."""

from __future__ import annotations

import typer

from penstock.cli import cluster, containers, errors, jobs, local, rebalance, rescale, savepoint, setup
from penstock.control import logs

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A Turbine-style control plane for Spark Structured Streaming.",
)
for module in (jobs, rescale, rebalance, savepoint, cluster, containers, setup, local):
    module.add_to(app)


def main() -> None:
    """The console script: like `app`, with the errors that are expected of it in one line each."""
    logs.configure("cli", level="WARNING")
    errors.run(app, "penstock")


if __name__ == "__main__":
    main()
