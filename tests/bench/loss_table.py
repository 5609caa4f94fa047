"""The loss table as markdown: `python -m tests.bench.loss_table [--rows 40000]`.

Rows that a windowed count loses as late while it catches up six hours of events, with Spark's `kafka` source and with
`penstock-kafka`, by shape of the input, watermark delay and limit of a batch. Last line: the sums as one JSON object.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import SparkSession

from tests.bench.report import broker_and_session, finish, say
from tests.support.kafka.loss_table import Case, Outcome, cases, outcomes

DELAYS_MINUTES = (5, 10, 30)
SHARES = (0.02, 0.1)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000)
    rows = parser.parse_args().rows
    with broker_and_session() as (kafka, session, folder):
        figures = measure(session, kafka.bootstrap, folder, cases(DELAYS_MINUTES, SHARES, rows))
    finish(figures)


def measure(session: SparkSession, bootstrap: str, folder: Path, asked: Iterable[Case]) -> dict[str, float]:
    """Runs each case with both sources and prints its line of the table."""
    say(
        "| shape | delay min | rows a batch | rows | lost, penstock-kafka | lost, kafka | batches |"
        " look-ups ms a batch |"
    )
    say("|---|---|---|---|---|---|---|---|")
    found = []
    for outcome in outcomes(session, bootstrap, asked, folder):
        say(_line(outcome))
        found.append(outcome)
    return _sums(found)


def _line(outcome: Outcome) -> str:
    case, share = outcome.case, 100 * outcome.spark_lost / outcome.rows
    cells = [case.shape.name, case.delay_minutes, case.limit, outcome.rows, outcome.own_lost]
    cells += [f"{outcome.spark_lost} ({share:.0f} %)", f"{outcome.own_batches} / {outcome.spark_batches}"]
    return "| " + " | ".join(map(str, [*cells, f"{outcome.lookup_millis_per_batch:.0f}"])) + " |"


def _sums(found: list[Outcome]) -> dict[str, float]:
    return {
        "cases": len(found),
        "rows": sum(outcome.rows for outcome in found),
        "own_rows_lost": sum(outcome.own_lost for outcome in found),
        "spark_rows_lost": sum(outcome.spark_lost for outcome in found),
        "own_batches": sum(outcome.own_batches for outcome in found),
        "spark_batches": sum(outcome.spark_batches for outcome in found),
        "lookup_millis_per_batch": sum(outcome.lookup_millis_per_batch for outcome in found) / len(found),
    }


if __name__ == "__main__":
    main()
