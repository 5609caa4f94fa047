"""What it costs to find malformed records: `python -m tests.bench.decoding [--rows 1000000] [--rounds 5]`.

A topic of JSON rows without a malformed one is read to nowhere, by batch queries that alternate, `--rounds` times:

bytes     the values as they are
decoded   `from_json` with the input's schema, as a query of Spark's own would have it
checked   as inputs of jobs are read: a mark for records of which only a part was read, and a filter that counts

Figures are medians: rows/s, and CPU seconds of Spark's JVM for a million rows. `checked_rows_ratio` is checked by
decoded, `checked_cpu_ratio` likewise.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.config.model import Input
from penstock.spark.inputs.malformed import DECODED
from penstock.spark.settings import SparkSettings
from penstock.spark.sources import connection_options
from tests.bench.report import broker_and_session, finish, say
from tests.support.bench.kafka_rows import (
    PARTITIONS,
    SCHEMA,
    Cost,
    cost_of,
    costs_of,
    json_value,
    jvm_of,
    produce,
    read_to_nowhere,
    records_of,
    rows_of_a_job,
)
from tests.support.spark.session import unique


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with broker_and_session() as (kafka, session, _):
        figures = measure(session, kafka.bootstrap, arguments.rows, arguments.rounds)
    finish(figures)


def measure(session: SparkSession, bootstrap: str, rows: int, rounds: int) -> dict[str, float]:
    """The figures of the three ways; each is read once before it counts."""
    topic = unique("decoding")
    produce(bootstrap, topic, map(json_value, range(rows)))
    jvm = jvm_of(session)

    def read(frame: Callable[[], DataFrame]) -> Cost:
        return cost_of(partial(read_to_nowhere, frame()), jvm)

    ways = {name: partial(read, frame) for name, frame in readers(session, bootstrap, topic).items()}
    costs = costs_of(ways, rounds)
    for name, each in costs.items():
        for cost in each:
            say(f"{name}: {rows / cost.seconds:,.0f} rows/s, {cost.cpu_s:.2f} s of CPU")
    return _figures(costs, rows)


def readers(session: SparkSession, bootstrap: str, topic: str) -> dict[str, Callable[[], DataFrame]]:
    """The frames that are read, each made anew."""
    options = connection_options(SparkSettings(checkpoint_root="", kafka_bootstrap=bootstrap))
    source = Input(topic=topic, key_groups=PARTITIONS, value_schema=SCHEMA)
    records = partial(records_of, session, topic, options)

    def decoded() -> DataFrame:
        return (
            records().select(F.from_json(F.col("value").cast("string"), SCHEMA).alias(DECODED)).select(f"{DECODED}.*")
        )

    checked = partial(rows_of_a_job, session, source, options)
    return {"bytes": lambda: records().select("value"), "decoded": decoded, "checked": checked}


def _figures(costs: dict[str, list[Cost]], rows: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, each in costs.items():
        figures[f"{name}_rows_per_s"] = rows / median(cost.seconds for cost in each)
        figures[f"{name}_cpu_s_per_million"] = median(cost.cpu_s for cost in each) / rows * 1e6
    figures["checked_rows_ratio"] = figures["checked_rows_per_s"] / figures["decoded_rows_per_s"]
    figures["checked_cpu_ratio"] = figures["checked_cpu_s_per_million"] / max(
        1e-9, figures["decoded_cpu_s_per_million"]
    )
    return figures


if __name__ == "__main__":
    main()
