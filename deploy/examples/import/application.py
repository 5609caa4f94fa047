"""An ordinary Spark application, as `spark-submit` runs it: visits of each page, with Spark's own Kafka source.

spark-submit application.py <brokers> <checkpoint> <seconds>
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def visits(records: DataFrame) -> DataFrame:
    """How often each page was visited. Records of Kafka with JSON values."""
    value = F.from_json(F.col("value").cast("string"), "page STRING, at TIMESTAMP")
    return records.select(value.alias("visit")).select("visit.*").groupBy("page").agg(F.count("*").alias("visits"))


def main(brokers: str, checkpoint: str, seconds: int) -> None:
    """Counts for so long, and prints each count that changes."""
    spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "3").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers)
    records = kafka.option("subscribe", "visits").option("startingOffsets", "earliest").load()
    stream = visits(records).writeStream.outputMode("update").format("console")
    query = stream.option("checkpointLocation", checkpoint).start()
    query.awaitTermination(seconds)
    query.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
