"""Event time through a hop: `python -m tests.bench.hops [--rows 600000] [--rounds 3]`.

Two tasks shuffle a topic into another one; the second task is ten minutes behind, in 40 minutes of events. A windowed
count reads their topic, with `penstock-kafka` and with Spark's `kafka` source.

Figures: `lost_rows`, `lost_rows_spark` that each count dropped as late; `run_ahead_rows` that the count held in open
windows while the second task was behind; `marks_rows_ratio`, rows/s of a task that writes marks against one that does
not, medians of rounds in turns; `marks_bytes_ratio`, bytes of marks against bytes of rows. With `--small` also
`small_marks_bytes_ratio_2`, `_8` and `_64`: the same with 100 rows in a batch, by partitions of the topic.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from tests.bench.report import broker_and_session, finish, say
from tests.support.kafka.event_topics import topic_of, write_times
from tests.support.kafka.hops import Reader, Shuffle, Topics

_MINUTE = 60_000
_BATCHES = 10
_SMALL_BATCH = 100
_PARTITIONS = (2, 8, 64)


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="the bytes of marks at batches of 100 rows, too")
    arguments = parser.parse_args()
    with broker_and_session() as (kafka, session, folder):
        figures = measure(session, kafka.bootstrap, folder, arguments.rows, arguments.rounds)
        if arguments.small:
            figures |= measure_small(session, kafka.bootstrap, folder)
    finish(figures, places=5)


def measure(
    session: SparkSession, bootstrap: str, folder: Path, rows: int, rounds: int, batches: int = _BATCHES
) -> dict[str, float]:
    """`rows` of one task, in so many batches; there are two tasks."""
    step = 40 * _MINUTE // rows or 1
    everything = range(0, rows * step, step)
    begun = [at for at in everything if at < 10 * _MINUTE]
    topics = Topics.of(bootstrap, topic_of(bootstrap, {0: everything, 1: begun}))
    tasks = [Shuffle(session, topics, folder, partition, limit=rows // batches) for partition in (0, 1)]
    own = Reader.of(session, topics, folder / "own")
    sparks = Reader.sparks_own(session, topics, folder / "spark")
    for runs in (*tasks, own, sparks):
        runs.run_to_end()
    ahead = own.open_rows()
    write_times(bootstrap, topics.first, {1: [at for at in everything if at >= 10 * _MINUTE]})
    for runs in (tasks[1], own, sparks):
        runs.run_to_end()
    say(f"{2 * rows} rows were read with one task ten minutes behind")
    return {
        "marks_rows_ratio": _rows_ratio(tasks[0], rounds),
        "marks_bytes_ratio": _bytes_ratio(topics),
        "lost_rows": 2 * rows - own.rows(),
        "lost_rows_spark": 2 * rows - sparks.rows(),
        "run_ahead_rows": ahead,
    }


def measure_small(session: SparkSession, bootstrap: str, folder: Path, batches: int = 20) -> dict[str, float]:
    """Small batches, each with rows for all partitions."""
    first = topic_of(bootstrap, {0: range(0, batches * _SMALL_BATCH * 1_000, 1_000)})
    figures = {}
    for partitions in _PARTITIONS:
        topics = Topics.of(bootstrap, first, partitions)
        Shuffle(session, topics, folder, 0, count=1, limit=_SMALL_BATCH).run_to_end()
        figures[f"small_marks_bytes_ratio_{partitions}"] = _bytes_ratio(topics)
    return figures


def _bytes_ratio(topics: Topics) -> float:
    marks = _bytes(topics.bootstrap, topics.marks, 1)
    return marks / _bytes(topics.bootstrap, topics.second, topics.partitions)


def _rows_ratio(task: Shuffle, rounds: int) -> float:
    """The first round warms up and does not count."""
    ratios = []
    for number in range(rounds + 1):
        seconds = {}
        for marked in (True, False) if number % 2 else (False, True):
            again = Shuffle(
                task.session,
                task.topics,
                task.folder,
                task.partition,
                group="timed",
                marked=marked,
                limit=task.limit,
                name=f"-{number}-{marked}",
            )
            seconds[marked] = again.run_to_end()
        ratios.append(seconds[False] / seconds[True])
    return median(ratios[1:])


def _bytes(bootstrap: str, topic: str, partitions: int) -> int:
    """The bytes of keys and values of all committed records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "isolation.level": "read_committed"})
    total = 0
    try:
        for partition in range(partitions):
            place = TopicPartition(topic, partition, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=30)
            consumer.assign([place])
            while (at := consumer.position([place])[0].offset) < end:
                for record in consumer.consume(10_000, timeout=1.0):
                    total += len(record.key() or b"") + len(record.value() or b"")
                if at == consumer.position([place])[0].offset:
                    break  # Only the markers of transactions are left.
    finally:
        consumer.close()
    return total


if __name__ == "__main__":
    main()
