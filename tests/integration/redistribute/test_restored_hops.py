"""Chains of which jobs go back to savepoints: what a reader counts then."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from penstock.spark.redistribute.engine import redistribute
from penstock.spark.savepoint.take import take
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import RedistributionRequest, SavepointName
from penstock.tasks.savepoint import SavepointRequest
from tests.support.spark.chains import WINDOWS, Row, batch_answer, chain_of, closing, counts, row_of
from tests.support.spark.redistribution import Events, Job, output_topic

pytestmark = pytest.mark.long
_ROWS = 480


def add(events: Events, rows: list[Row], dice: random.Random) -> list[Row]:
    fresh = [row_of(events, dice, n) for n in range(len(rows), len(rows) + _ROWS)]
    events.add(fresh)
    rows += fresh
    return fresh


def save(job: Job, name: str, number: int) -> Job:
    """Takes a savepoint; the job as it was."""
    take(job.runtime, SavepointRequest(job=job.name, name=name, number=number, layout=job.layout, earlier=()))
    return Job(job.runtime, job.config, job.name, job.generation)


def go_back(job: Job, saved: Job, name: str, task_count: int) -> None:
    """The job begins its next generation with the savepoint."""
    request = job.target(task_count=task_count)
    source = saved.layout.model_copy(update={"savepoint": SavepointName(job=saved.name, name=name)})
    redistribute(job.runtime, RedistributionRequest(job=job.name, source=source, target=request.target))
    job.config, job.generation = request.target.config, request.target.generation


def run(*chain: Job) -> None:
    for job in chain:
        job.run()


def test_a_chain_that_goes_back_to_where_it_stands_and_a_reader_that_goes_back_alone_are_exact(
    runtime: Runtime, events: Events
) -> None:
    """1. Both jobs go back to savepoints, at other sizes; the producer had written nothing since. 2. The reader goes
    back alone: what it counts anew it has counted before, to the row."""
    dice, rows = random.Random(3), list[Row]()
    shuffle, reader = chain_of(runtime, events, 2, WINDOWS)
    add(events, rows, dice)
    run(shuffle, reader)
    saved = [save(job, "first", number) for number, job in enumerate((shuffle, reader), 1)]
    go_back(shuffle, saved[0], "first", 3)
    go_back(reader, saved[1], "first", 1)
    add(events, rows, dice)
    run(shuffle, reader)
    before = save(reader, "second", 3)
    add(events, rows, dice)
    run(shuffle, reader)
    already = counts(reader)
    elsewhere = reader.config.output.model_copy(update=output_topic(events.bootstrap))
    reader.config = reader.config.model_copy(update={"output": elsewhere})
    go_back(reader, before, "second", 2)
    events.add(closing(events))
    run(shuffle, reader)
    anew = counts(reader)
    assert already.keys() & anew.keys(), "the reader has counted windows anew"
    assert already | anew == batch_answer(WINDOWS, rows)
    assert all(already[window] == anew[window] for window in already.keys() & anew.keys())


def test_rows_that_a_producer_writes_again_count_twice_in_open_windows_and_are_late_for_the_others(
    runtime: Runtime, events: Events
) -> None:
    """1. The producer goes back, and its reader has read on. 2. Windows that the reader had written stay as they are;
    the rows of all others are there twice. So the API asks for a word (`allow_repeats`)."""
    dice, rows = random.Random(4), list[Row]()
    shuffle, reader = chain_of(runtime, events, 2, WINDOWS)
    add(events, rows, dice)
    run(shuffle, reader)
    saved = save(shuffle, "first", 1)
    repeated = add(events, rows, dice)
    run(shuffle, reader)
    written = counts(reader)
    go_back(shuffle, saved, "first", 3)
    events.add(closing(events))
    run(shuffle, reader)
    exact, twice = batch_answer(WINDOWS, rows), batch_answer(WINDOWS, [*rows, *repeated])
    expected = Counter({window: written.get(window, count) for window, count in twice.items()})
    assert counts(reader) == expected != exact
