"""The demo's job `hourly` in bare PySpark, as a user would write it without Penstock: the peer of `overhead`.

Reads lines `<checkpoint> <table> <rows>` from standard input; runs the query until it has read so many rows; answers
`done`. One session for all, so that it is as warm as a Spark host.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

FORMATS = {"delta": "delta", "files": "parquet"}


def main(bootstrap: str, jars: str, definition: str, limit: int, folder: str, conf: str) -> None:
    """Serves until the end of standard input. Its scratch files are in `folder`, which the caller removes. `conf`: more
    settings of the session, as JSON."""
    with open(definition) as stream:
        job = json.load(stream)
    _serve(_session(jars, folder, json.loads(conf)), bootstrap, job, limit)


def _serve(session: SparkSession, bootstrap: str, job: dict, limit: int) -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        checkpoint, table, rows = line.split()
        _run(session, bootstrap, job, limit, checkpoint, table, int(rows))
        print("done", flush=True)


def _session(jars: str, folder: str, conf: dict[str, str]) -> SparkSession:
    """A session whose scratch files go below `folder`, not to where the bench was started."""
    settings = {
        "spark.local.dir": f"{folder}/spark",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.driver.memory": "1024m",
        "spark.driver.extraClassPath": f"{jars}/spark/*",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in (settings | conf).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _run(session: SparkSession, bootstrap: str, job: dict, limit: int, checkpoint: str, table: str, rows: int) -> None:
    source = job["inputs"]["flights"]
    records = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", limit)
        .load()
    )
    values = records.select(F.from_json(F.col("value").cast("string"), source["value_schema"]).alias("v")).select("v.*")
    values.withWatermark(source["event_time_column"], source["watermark_delay"]).createOrReplaceTempView("flights")
    query = (
        session.sql(job["query"]["sql"])
        .writeStream.format(FORMATS[job["output"]["type"]])
        .outputMode("append")
        .option("path", table)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="0 seconds")
        .start()
    )
    while _read(query) < rows:
        if query.awaitTermination(0.1):
            raise RuntimeError(str(query.exception()))
    query.stop()


def _read(query: object) -> int:
    progress = query.lastProgress  # type: ignore[attr-defined]
    if progress is None:
        return 0
    ends = json.loads(progress.sources[0].endOffset)
    return sum(offset for partitions in ends.values() for offset in partitions.values())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), *sys.argv[5:7])
