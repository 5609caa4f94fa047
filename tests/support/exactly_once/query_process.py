"""A process with plain Spark queries from Kafka to Kafka: `python -m tests.support.exactly_once.query_process PLAN`.

PLAN is a JSON file, see `plan.Plan`. Each query runs to the end of its input; one that fails is started again, as
Penstock would, `restarts` times. Prints one JSON object when all have ended: the errors of each query, in order. A
query has come to its end when it has at most `restarts` errors.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.support.exactly_once.plan import QueryPlan, read_plan


def main() -> None:
    """Runs the queries of the plan side by side."""
    plan = read_plan(Path(sys.argv[1]))
    session = SparkSession.builder.master(plan.master).config(map=plan.settings).getOrCreate()
    with ThreadPoolExecutor(len(plan.queries)) as threads:
        errors = threads.map(lambda query: run(session, plan.bootstrap, query), plan.queries)
        print(json.dumps({query.name: found for query, found in zip(plan.queries, errors, strict=True)}), flush=True)
    session.stop()


def run(session: SparkSession, bootstrap: str, query: QueryPlan) -> list[str]:
    """Runs one query to the end of its input, or until it has failed too often; its errors."""
    errors: list[str] = []
    while len(errors) <= query.restarts:
        try:
            _run_once(session, bootstrap, query)
        except StreamingQueryException as error:
            errors.append(str(error))
        else:
            break
    return errors


def _run_once(session: SparkSession, bootstrap: str, query: QueryPlan) -> None:
    kafka = {"kafka.bootstrap.servers": bootstrap}
    source = {"subscribe": query.source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": query.rows_per_batch}
    frame = session.readStream.format(query.format).options(**kafka, **source).load().selectExpr(*query.columns)
    sink = frame.writeStream.format(query.format).options(**kafka, topic=query.name, **query.options)
    sink = sink.option("checkpointLocation", query.checkpoint).trigger(availableNow=True)
    sink.start().awaitTermination()


if __name__ == "__main__":
    main()
