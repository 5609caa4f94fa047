"""The program with all its commands: the same nouns as the API."""

from __future__ import annotations

from penstock.cli import errors
from penstock.cli.commands import COMMANDS, GROUPS
from penstock.cli.lazy import program


def run() -> None:
    """Runs the command line. Errors become lines and exit codes."""
    summary = "A control plane for Spark Structured Streaming in the manner of Facebook's Turbine."
    errors.run(program(COMMANDS, GROUPS, summary=summary), "penstock")
