"""An ordinary Spark application of somebody else: plain PySpark with Spark's own Kafka source, and a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.spark.redistribution import VALUE_SCHEMA

Query = Callable[[Mapping[str, DataFrame]], DataFrame]


@dataclass(frozen=True)
class Application:
    """Reads `topics` by name of the input, each a topic or a pattern with a star, and writes nothing that is looked
    at."""

    spark: SparkSession
    bootstrap: str
    topics: Mapping[str, str]
    checkpoint: Path
    query: Query
    output_mode: str = "update"
    settings: Mapping[str, str] = field(default_factory=dict)

    def run(self, write: Callable[[DataFrame, int], None] = lambda frame, batch: frame.count()) -> None:
        """Reads all that there is. `write`: its foreachBatch function; the run ends with what that raises."""
        session = self.spark.newSession()
        for name, value in {"spark.sql.shuffle.partitions": "3", **self.settings}.items():
            session.conf.set(name, value)
        frame = self.query({name: self._read(session, topic) for name, topic in self.topics.items()})
        stream = frame.writeStream.outputMode(self.output_mode).foreachBatch(write)
        stream = stream.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        stream.start().awaitTermination()

    def _read(self, session: SparkSession, topic: str) -> DataFrame:
        kafka = session.readStream.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        records = (
            kafka.option("subscribePattern" if "*" in topic else "subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
        )
        value = F.from_json(F.col("value").cast("string"), VALUE_SCHEMA)
        return records.select(value.alias("r")).select("r.*").withWatermark("at", "10 seconds")
