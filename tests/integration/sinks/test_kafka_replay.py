"""A batch that is repeated: what is in Kafka once stays there once, and what cannot be told apart is an error."""

from __future__ import annotations

import dataclasses
import shutil
from collections import Counter

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spark.failures import failure_of
from tests.support.kafka.sink import VALUE, Pipe
from tests.support.spark.hosts import make_topic
from tests.support.spark.session import Feed, forget_last_commit

_SCOPES = pytest.mark.parametrize("scope", [pytest.param("batch", marks=pytest.mark.long), "partition"])
_ONCE = Counter(dict.fromkeys(range(20), 1))


def rows(session: SparkSession, feed: Feed, partitions: int = 3) -> DataFrame:
    return feed.frame(session).repartition(partitions, "n").selectExpr("word AS key", VALUE)


@_SCOPES
def test_a_repeated_batch_writes_nothing_and_one_of_an_older_checkpoint_breaks_the_query(
    spark: SparkSession, feed: Feed, pipe: Pipe, scope: str
) -> None:
    """1. A batch is repeated. 2. The next ones go on. 3. The checkpoint is as it was before them."""
    pipe.run(rows(spark, feed), transactionScope=scope)
    assert forget_last_commit(pipe.checkpoint) == 1
    pipe.run(rows(spark, feed), transactionScope=scope)
    assert pipe.numbers() == _ONCE
    backup = pipe.checkpoint.with_name("backup")
    shutil.copytree(pipe.checkpoint, backup)
    for n in (20, 21):
        feed.add([{"n": n, "word": "a"}])
    pipe.run(rows(spark, feed), transactionScope=scope)
    assert pipe.numbers() == _ONCE + Counter([20, 21])
    shutil.rmtree(pipe.checkpoint)
    backup.rename(pipe.checkpoint)
    with pytest.raises(StreamingQueryException, match="the checkpoint went back in time: Kafka has batch 3") as caught:
        pipe.run(rows(spark, feed), transactionScope=scope)
    assert failure_of(caught.value).error_kind == "broken_task"
    assert pipe.numbers() == _ONCE + Counter([20, 21])


def test_the_same_batch_with_other_offsets_breaks_the_query_unless_it_is_of_another_checkpoint(
    spark: SparkSession, feed: Feed, pipe: Pipe
) -> None:
    """1. The offsets of a batch change. 2. A checkpoint that was reset begins anew, and all its rows are written: also
    batch 1, whose id has a marker."""
    pipe.run(rows(spark, feed))
    forget_last_commit(pipe.checkpoint)
    planned = pipe.checkpoint / "offsets" / "1"
    text = planned.read_text()
    assert '{"logOffset":1}' in text
    planned.write_text(text.replace('{"logOffset":1}', '{"logOffset":0}'))
    planned.with_name(".1.crc").unlink()
    with pytest.raises(StreamingQueryException, match=r"batch 1 of query .* is in Kafka with other offsets"):
        pipe.run(rows(spark, feed))
    assert pipe.numbers() == _ONCE
    shutil.rmtree(pipe.checkpoint)
    pipe.run(rows(spark, feed))
    assert pipe.numbers() == _ONCE + _ONCE


def test_a_batch_that_was_written_to_the_former_topic_is_not_written_to_the_new_one(
    spark: SparkSession, feed: Feed, pipe: Pipe
) -> None:
    pipe.run(rows(spark, feed))
    forget_last_commit(pipe.checkpoint)
    moved = dataclasses.replace(pipe, topic=make_topic(pipe.bootstrap, 1))
    feed.add([{"n": 20, "word": "a"}])
    moved.run(rows(spark, feed))
    assert (pipe.numbers(), moved.numbers()) == (_ONCE, Counter([20]))


class TestOtherPartitions:
    @pytest.mark.long
    def test_a_batch_that_is_complete_is_left_out(self, spark: SparkSession, feed: Feed, pipe: Pipe) -> None:
        """1. By four partitions, then by fewer; by more, of which some have no rows of the batch and must be known to
        be written all the same; and in one transaction. 2. In one transaction, then by partitions."""
        pipe.run(rows(spark, feed, 4), transactionScope="partition")
        for scope, partitions in (("partition", 2), ("partition", 5), ("batch", 3)):
            forget_last_commit(pipe.checkpoint)
            pipe.run(rows(spark, feed, partitions), transactionScope=scope)
            assert pipe.numbers() == _ONCE
        feed.add([{"n": 20, "word": "a"}])
        for scope in ("batch", "partition"):
            pipe.run(rows(spark, feed), transactionScope=scope)
            assert pipe.numbers() == _ONCE + Counter([20])
            assert forget_last_commit(pipe.checkpoint) == 2

    @pytest.mark.long
    def test_a_batch_written_in_part_is_finished_by_as_many_partitions_and_by_no_other_number(
        self, spark: SparkSession, feed: Feed, pipe: Pipe
    ) -> None:
        """
        1. Of three partitions the last fails; two threads run, so at least one other has committed before.
        2. With two partitions rows would be elsewhere: an error, and nothing is written.
        3. With one transaction for all: the same.
        4. With three again: exactly once.
        """
        broken = feed.frame(spark).repartition(3, "n")
        broken = broken.withColumn(
            "word", F.when(F.spark_partition_id() == 2, F.raise_error(F.lit("out of order"))).otherwise(F.col("word"))
        )
        with pytest.raises(StreamingQueryException, match="out of order"):
            pipe.run(broken.selectExpr(VALUE), transactionScope="partition")
        before = pipe.numbers()
        assert 0 < len(before) < 10
        for scope, partitions in (("partition", 2), ("batch", 3)):
            with pytest.raises(StreamingQueryException, match=r"batch 0 .* in part: . of \[3\] Spark partitions"):
                pipe.run(rows(spark, feed, partitions), transactionScope=scope)
            assert pipe.numbers() == before
        pipe.run(rows(spark, feed, 3), transactionScope="partition")
        assert pipe.numbers() == _ONCE
