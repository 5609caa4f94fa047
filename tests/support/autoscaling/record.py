"""Records real runs, against which `tests.bench.autoscaling` holds its model:

`python -m tests.support.autoscaling.record --part fit --into tests/bench/autoscaling_runs.json`, and
`--part held_out`.

Three jobs run side by side on a stack with real Kafka, Postgres and Spark: `tests.support.scaling.slow`, a stateful
count that takes 50 ms for each row. A timetable changes their input and, by an override, their tasks. A step is a
minute between two samples of the Task Service. What is written of each step: rows that were sent, tasks that were
asked for, and the job's own minute as `GET /v1/jobs/{job}/metrics` tells it; null is not measured. Of a change: how
long no task committed, and that with the time before it, both by the files of the checkpoints.

The last line tells steps and changes that were recorded. Takes about 8 minutes a part.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from penstock.local.stack import LocalStack
from penstock.model.job_metrics import MINUTE, minute_of
from penstock.spark.inputs.key_hash import murmur2
from services.task_service.sampler import FROM_SECOND
from tests.bench.report import finish, let_pass, say, temporary_stack
from tests.e2e.conftest import PERIODS
from tests.support.autoscaling.recording import QUANTITIES, RecordedChange, RecordedRun, RecordedStep, Recording
from tests.support.scaling.pace import Pace
from tests.support.scaling.slow import ROWS_PER_SECOND, SlowJob, publish, warm_up
from tests.support.spark.session import unique
from tests.support.stack.counts import KEY_GROUPS, WORDS

SETTINGS = {
    "PENSTOCK_REPORT_SECONDS": 2,
    "PENSTOCK_LOAD_INTERVAL_SECONDS": 5,
    "PENSTOCK_DISK_INTERVAL_SECONDS": 30,
    "PENSTOCK_FULL_FETCH_SECONDS": 30,
    "PENSTOCK_SHARD_MANAGER_ROUND_SECONDS": 2,
    # Tasks sleep more than they work: more of them run at once than there are cores.
    "PENSTOCK_SPARK_MASTER": "local[8]",
}
# The sampler looks every two seconds from then on.
_AFTER_SAMPLE_S = 4.0


class Step(NamedTuple):
    """A minute of a timetable. `load`: the input in tasks that it keeps busy all the time."""

    load: float
    tasks: int


PARTS: Mapping[str, Mapping[str, tuple[Step, ...]]] = {
    "fit": {
        "steps": (Step(0.5, 1), Step(1.5, 1), Step(1.5, 2), Step(1.5, 2), Step(0.5, 2), Step(0.5, 1)),
        "growth": (Step(0.8, 1), Step(1.6, 1), Step(1.6, 2), Step(3.0, 4), Step(3.0, 4), Step(0.8, 4)),
        "backlog": (Step(0.3, 1), Step(1.6, 1), Step(0.3, 1), Step(0.3, 1), Step(0.3, 1), Step(0.3, 1)),
    },
    "held_out": {
        "steps": (Step(0.7, 1), Step(1.4, 1), Step(2.8, 2), Step(2.8, 4), Step(2.8, 4), Step(1.0, 4)),
        "tide": (Step(0.4, 1), Step(0.8, 1), Step(1.2, 1), Step(1.2, 2), Step(0.8, 2), Step(0.4, 1)),
        "backlog": (Step(0.2, 1), Step(2.2, 1), Step(0.4, 1), Step(0.4, 2), Step(0.4, 2), Step(0.4, 1)),
    },
}


def main() -> None:
    """Records a part, and puts it in the place of that part in the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--into", type=Path, required=True, metavar="FILE")
    asked = parser.parse_args()
    environment = {name: str(value) for name, value in (PERIODS | SETTINGS).items()}
    with temporary_stack(task_managers=2, environment=environment) as stack:
        recorded = record(stack, PARTS[asked.part])
    known = json.loads(asked.into.read_text()) if asked.into.exists() else {}
    asked.into.write_text(json.dumps(known | {asked.part: recorded.model_dump(mode="json")}, indent=1) + "\n")
    runs = recorded.runs
    finish({"steps": sum(len(run.steps) for run in runs), "changes": sum(len(run.changes) for run in runs)})


def record(stack: LocalStack, timetables: Mapping[str, tuple[Step, ...]]) -> Recording:
    """Runs a job for each timetable, all at once."""
    publish(stack)
    warm_up(stack)
    jobs = {name: Recorder(stack, name, steps) for name, steps in timetables.items()}
    with ThreadPoolExecutor(len(jobs)) as threads:
        list(threads.map(Recorder.begin, jobs.values()))
        begins = next_sample(datetime.now(UTC))
        runs = list(threads.map(lambda job: job.record(begins), jobs.values()))
    return Recording(
        recorded_on=begins.date(),
        cores=os.cpu_count() or 0,
        load=round(os.getloadavg()[1], 1),
        key_group_shares=key_group_shares(),
        runs=runs,
    )


def key_group_shares() -> list[float]:
    """The part of the rows that each key group of a job gets: words come in turns."""
    placed = Counter((murmur2(f"w{number}".encode()) & 0x7FFFFFFF) % KEY_GROUPS for number in range(WORDS))
    return [placed[group] / WORDS for group in range(KEY_GROUPS)]


def next_sample(now: datetime) -> datetime:
    """When the next minute is sampled."""
    this = minute_of(now) + timedelta(seconds=FROM_SECOND)
    return this if this > now else this + MINUTE


class Recorder:
    """One job with its timetable."""

    def __init__(self, stack: LocalStack, name: str, steps: tuple[Step, ...]) -> None:
        self._stack = stack
        self._name = name
        self._steps = steps
        self._job = SlowJob(stack, unique(name))
        self._sent = 0
        self._changes: list[RecordedChange] = []

    def begin(self) -> None:
        """Starts the job, whose number of tasks nobody else changes."""
        tasks = self._steps[0].tasks
        self._job.begin(tasks)
        self._job.override({"task_count": tasks})

    def record(self, begins: datetime) -> RecordedRun:
        """Lets the timetable pass from then on. A change is asked for at the beginning of its step."""
        pace, sent = Pace(self._put, self._steps[0].load * ROWS_PER_SECOND), []
        _wait_until(begins)
        with pace.flowing(self._name):
            tasks = self._steps[0].tasks
            for number, step in enumerate(self._steps):
                pace.change(step.load * ROWS_PER_SECOND)
                before = self._sent
                if step.tasks != tasks:
                    tasks = step.tasks
                    self._change(number, tasks)
                _wait_until(begins + (number + 1) * MINUTE)
                sent.append((self._sent - before) / MINUTE.total_seconds())
        return RecordedRun(name=self._name, steps=self._measured(begins, sent), changes=self._changes)

    def _put(self, rows: int) -> None:
        self._job.put(rows)
        self._sent += rows

    def _change(self, number: int, tasks: int) -> None:
        generation, asked_at = self._job.generation(), time.time()
        self._job.override({"task_count": tasks})
        change = self._job.wait_changed(generation, asked_at, tasks)
        self._changes.append(RecordedChange(step=number, down_seconds=change.down_s, seconds=change.seconds))

    def _measured(self, begins: datetime, sent: list[float]) -> list[RecordedStep]:
        first = minute_of(begins) + MINUTE
        end = first + len(sent) * MINUTE
        _wait_until(end + timedelta(seconds=_AFTER_SAMPLE_S))
        with self._stack.client() as client:
            found = client.metrics(self._job.name, metric=QUANTITIES, since=first, until=end).series
        values = {series.metric: series.values for series in found}
        return [
            RecordedStep(
                sent_rows_per_second=rate,
                tasks=step.tasks,
                measured={name: values[name][number] for name in QUANTITIES},
            )
            for number, (rate, step) in enumerate(zip(sent, self._steps, strict=True))
        ]


def _wait_until(moment: datetime) -> None:
    seconds = (moment - datetime.now(UTC)).total_seconds()
    if seconds < 0:
        say(f"{-seconds:.0f} s late")
    let_pass(max(0.0, seconds))


if __name__ == "__main__":
    main()
