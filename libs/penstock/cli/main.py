"""`penstock`: the same nouns as the API. An expected error becomes one line and exit code 1."""

from __future__ import annotations

from penstock.cli import errors
from penstock.cli.commands import COMMANDS, GROUPS
from penstock.cli.lazy import program


def main() -> None:
    """The console script."""
    summary = "A control plane for Spark Structured Streaming in the manner of Facebook's Turbine."
    errors.run(program(COMMANDS, GROUPS, summary=summary), "penstock")


if __name__ == "__main__":
    main()
