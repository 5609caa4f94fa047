"""SIGKILL at random moments: a process of queries is killed and started again until its queries come to their end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer

from penstock.control.process import wait_until
from tests.support.exactly_once.plan import Plan, QueryPlan
from tests.support.exactly_once.process import Logs, QueryProcess, running
from tests.support.exactly_once.rows import end_offsets

_MOMENT_SECONDS = 120.0
_POLL_SECONDS = 0.002
_LONGEST_DELAY_SECONDS = 0.15
_MOST_BATCHES = 5


@dataclass(frozen=True)
class Killed:
    """What `run_with_kills` did: kills, and how often each query had a batch in flight at one."""

    kills: int
    in_flight: dict[str, int]


def run_with_kills(folder: Path, plan: Plan, kills: int, chance: random.Random) -> Killed:
    """Runs the plan, killed `kills` times; then once more, to the end of the input, which must need no restart."""
    in_flight = {query.name: 0 for query in plan.queries}
    with _watching(plan) as consumer:
        for number in range(kills):
            query = plan.queries[number % len(plan.queries)]
            with running(folder, plan) as process:
                _wait(process, _moment(consumer, query, chance))
                process.kill()
            for other in plan.queries:
                in_flight[other.name] += Logs(other).in_flight
    with running(folder, plan) as process:
        assert process.errors() == {query.name: [] for query in plan.queries}
    return Killed(kills, in_flight)


def kill_between_rows_and_commit(folder: Path, plan: Plan, query: QueryPlan) -> None:
    """Starts the plan and kills it when rows of a batch are in the query's topic and the batch is not committed.

    So a sink that does not remember what it wrote repeats rows for certain.
    """
    with _watching(plan) as consumer, running(folder, plan) as process:
        wait_until(lambda: _stopped_between(process, consumer, query), _MOMENT_SECONDS, "rows before their commit")
        process.kill()


def _stopped_between(process: QueryProcess, consumer: Consumer, query: QueryPlan) -> bool:
    """Stops the process when it looks right; what it sees then stays so. Lets it go on when it was too late."""
    if end_offsets(consumer, query.name) <= Logs(query).committed_rows:
        return False
    process.pause()
    if end_offsets(consumer, query.name) > Logs(query).committed_rows:
        return True
    process.go_on()
    return False


def _moment(consumer: Consumer, query: QueryPlan, chance: random.Random) -> Callable[[], bool]:
    """A condition that comes true at a moment drawn at random: about planning, sending or committing."""
    logs, batches = Logs(query), chance.randint(1, _MOST_BATCHES)
    planned, committed, rows = logs.planned, logs.committed, end_offsets(consumer, query.name)
    more_rows = chance.randint(1, batches * query.rows_per_batch)
    reached = chance.choice(
        [
            lambda: logs.planned >= planned + batches,
            lambda: end_offsets(consumer, query.name) >= rows + more_rows,
            lambda: logs.committed >= committed + batches,
        ]
    )
    return _then_after(reached, chance.choice([0.0, chance.uniform(0, _LONGEST_DELAY_SECONDS)]))


def _then_after(reached: Callable[[], bool], delay_seconds: float) -> Callable[[], bool]:
    since: list[float] = []

    def condition() -> bool:
        if not since and reached():
            since.append(time.monotonic())
        return bool(since) and time.monotonic() >= since[0] + delay_seconds

    return condition


def _wait(process: QueryProcess, moment: Callable[[], bool]) -> None:
    """Until the moment; a process that has come to its end before is not killed any more, which the test must see."""
    wait_until(lambda: moment() or process.child.poll() is not None, _MOMENT_SECONDS, "a moment", poll_s=_POLL_SECONDS)
    assert process.child.poll() is None, "the queries had ended before all kills: give them more rows"


def _watching(plan: Plan) -> Consumer:
    return Consumer({"bootstrap.servers": plan.bootstrap, "group.id": "kills"})
