"""The demo's job `hourly` under Penstock against bare PySpark, in turns: `python -m tests.bench.overhead [--rounds 3]`.

Both read the year's flights from the same Kafka, with the same query, batch limit and heap, into Delta tables of their
own. The driver of each is warm: the first round is not counted. Rows per second are read off the checkpoints.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from confluent_kafka import Producer

from penstock.control.process import kill_group, start_child, wait_until
from penstock.local.demo.data import flights, records
from penstock.local.demo.feed import FLIGHTS, make_topics
from penstock.local.demo.run import definitions
from penstock.local.jars import share_dir
from penstock.local.stack import LocalStack
from tests.bench.report import finish, say, temporary_stack


@dataclass(frozen=True)
class Sizes:
    """Rows of a batch, and how many batches at the end of a run count: a Spark host keeps only the newest ten.
    `output`: the type of output of both."""

    rows: int = 336_776
    limit: int = 20_000
    counted: int = 8
    output: str = "delta"


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with temporary_stack(task_managers=1, environment={"PENSTOCK_SPARK_MASTER": "local[2]"}) as stack:
        figures = measure(stack, rounds, Sizes())
    finish(figures)


def measure(
    stack: LocalStack, rounds: int, sizes: Sizes, peer_conf: Mapping[str, str] | None = None
) -> dict[str, float]:
    """Loads the flights and runs both, once to warm them up and `rounds` times. Without `rounds` the figures are those
    of the first. `peer_conf`: more settings of the bare driver. Raises TimeoutError when one does not read all rows."""
    _load(stack.plan.kafka_bootstrap, sizes.rows)
    penstock, bare = [], []
    peer = _start_peer(stack, sizes, peer_conf or {})
    try:
        for number in range(rounds + 1):
            penstock.append(_under_penstock(stack, number, sizes))
            bare.append(_bare(stack, peer, number, sizes))
            say(f"round {number}: penstock {penstock[-1]:,.0f} rows/s, bare {bare[-1]:,.0f} rows/s")
    finally:
        kill_group(peer)
    ours, theirs = statistics.median(penstock[1:] or penstock), statistics.median(bare[1:] or bare)
    return {"penstock_rows_per_s": ours, "bare_rows_per_s": theirs, "ratio": ours / theirs}


def _load(bootstrap: str, rows: int) -> None:
    """The first flights of the year. No closing records, so the topic ends at exactly `rows`."""
    make_topics(bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 20})
    for key, value in records(flights().head(rows), "dest"):
        producer.produce(FLIGHTS, key=key, value=value)
        producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("kafka did not take the flights")


def _under_penstock(stack: LocalStack, number: int, sizes: Sizes) -> float:
    job = f"hourly{number}"
    config = _definition(stack.data_dir / "outputs" / "bench" / job, sizes)
    with stack.client() as client:
        client.put_job(job, config)
        checkpoint = stack.data_dir / "checkpoints" / job / "g1" / "task-0"
        wait_until(lambda: _rows_until(checkpoint, _last_commit(checkpoint)) >= sizes.rows, 300, f"{job} to read all")
        client.patch_layer(job, "oncall", {"desired_state": "stopped"}, if_match=0, reason="measured")
        wait_until(lambda: not _reported(client.tasks(job).tasks), 60, f"{job} to stop", poll_s=0.2)
        measured = rows_per_second(checkpoint, sizes)
        client.delete_job(job)
    return measured


def _reported(tasks: list[Any]) -> bool:
    return any(task.container is not None for task in tasks)


def _bare(stack: LocalStack, peer: subprocess.Popen[bytes], number: int, sizes: Sizes) -> float:
    folder = stack.data_dir / "outputs" / "bench"
    checkpoint = folder / f"bare-checkpoint-{number}"
    _ask(peer, f"{checkpoint} {folder / f'bare-{number}'} {sizes.rows}", "done")
    return rows_per_second(checkpoint, sizes)


def _start_peer(stack: LocalStack, sizes: Sizes, conf: Mapping[str, str]) -> subprocess.Popen[bytes]:
    path = stack.data_dir / "hourly.json"
    path.write_text(json.dumps(_definition(stack.data_dir / "unused", sizes)))
    bootstrap, folder = stack.plan.kafka_bootstrap, stack.data_dir / "bare"
    arguments = [bootstrap, share_dir() / "jars", path, str(sizes.limit), folder, json.dumps(dict(conf))]
    peer = start_child(
        [sys.executable, "-m", "tests.bench.bare_hourly", *arguments],
        log_path=stack.data_dir / "logs" / "bare.log",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    _expect(peer, "ready")
    return peer


def _ask(peer: subprocess.Popen[bytes], request: str, answer: str) -> None:
    assert peer.stdin is not None
    peer.stdin.write(f"{request}\n".encode())
    peer.stdin.flush()
    _expect(peer, answer)


def _expect(peer: subprocess.Popen[bytes], answer: str) -> None:
    assert peer.stdout is not None
    said = peer.stdout.readline().decode().strip()
    if said != answer:
        raise RuntimeError(f"the bare query said {said!r} instead of {answer!r}")


def _definition(table: Path, sizes: Sizes) -> dict[str, Any]:
    text = (definitions() / "hourly.json").read_text()
    config: dict[str, Any] = json.loads(Template(text).substitute(hourly_path=str(table)))
    output = {"type": sizes.output, "path": str(table)}
    limit = sizes.limit
    return config | {"task_count": 1, "trigger_interval_seconds": 0, "max_records_per_trigger": limit, "output": output}


def rows_per_second(checkpoint: Path, sizes: Sizes) -> float:
    """Rows of the last `counted` batches that had rows, by the time between their commits.

    Not of all: a Spark host keeps fewer old batches in the checkpoint than bare Spark does.
    """
    last = next(n for n in range(_last_commit(checkpoint) + 1) if _rows_until(checkpoint, n) >= sizes.rows)
    first = last - sizes.counted
    rows = _rows_until(checkpoint, last) - _rows_until(checkpoint, first)
    return rows / (_committed_at(checkpoint, last) - _committed_at(checkpoint, first))


def _rows_until(checkpoint: Path, batch: int) -> int:
    path = checkpoint / "offsets" / str(batch)
    if batch < 0 or not path.exists():
        return 0
    offsets = json.loads(path.read_text().splitlines()[2])
    return sum(offset for partitions in offsets.values() for offset in partitions.values())


def _committed_at(checkpoint: Path, batch: int) -> float:
    return (checkpoint / "commits" / str(batch)).stat().st_mtime


def _last_commit(checkpoint: Path) -> int:
    return max(_commits(checkpoint), default=-1)


def _commits(checkpoint: Path) -> list[int]:
    folder = checkpoint / "commits"
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.exists() else []


if __name__ == "__main__":
    main()
