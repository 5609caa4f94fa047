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


@pytest.mark.parametrize("hops", [2, 3])
def test_a_chain_that_goes_back_to_where_it_stands_and_a_reader_that_goes_back_alone_are_exact(
    runtime: Runtime, events: Events, hops: int
) -> None:
    """1. All jobs go back to savepoints, at other sizes; the producers had written nothing since. 2. The last one goes
    back alone: what it counts anew it has counted before, to the row."""
    dice, rows = random.Random(3), list[Row]()
    chain = chain_of(runtime, events, hops, WINDOWS)
    reader = chain[-1]
    add(events, rows, dice)
    run(*chain)
    saved = [save(job, "first", number) for number, job in enumerate(chain, 1)]
    for job, before, task_count in zip(chain, saved, (3, 1, 3), strict=False):
        go_back(job, before, "first", task_count)
    add(events, rows, dice)
    run(*chain)
    before = save(reader, "second", hops + 1)
    add(events, rows, dice)
    run(*chain)
    already = counts(reader)
    elsewhere = reader.config.output.model_copy(update=output_topic(events.bootstrap))
    reader.config = reader.config.model_copy(update={"output": elsewhere})
    go_back(reader, before, "second", 2)
    events.add(closing(events))
    run(*chain)
    anew = counts(reader)
    assert already.keys() & anew.keys(), "the reader has counted windows anew"
    assert already | anew == batch_answer(WINDOWS, rows)
    assert all(already[window] == anew[window] for window in already.keys() & anew.keys())


@pytest.mark.parametrize(("hops", "goes_back"), [(2, 0), (3, 0), (3, 1)])
def test_rows_that_a_producer_writes_again_count_twice_in_open_windows_and_are_late_for_the_others(
    runtime: Runtime, events: Events, hops: int, goes_back: int
) -> None:
    """1. A producer goes back, and those after it have read on. 2. Windows that the last job had written stay as they
    are; the rows of all others are there twice, however many jobs pass them on. So the API asks for a word
    (`allow_repeats`)."""
    dice, rows = random.Random(4), list[Row]()
    chain = chain_of(runtime, events, hops, WINDOWS)
    producer, reader = chain[goes_back], chain[-1]
    add(events, rows, dice)
    run(*chain)
    saved = save(producer, "first", 1)
    repeated = add(events, rows, dice)
    run(*chain)
    written = counts(reader)
    go_back(producer, saved, "first", 3)
    events.add(closing(events))
    run(*chain)
    exact, twice = batch_answer(WINDOWS, rows), batch_answer(WINDOWS, [*rows, *repeated])
    expected = Counter({window: written.get(window, count) for window, count in twice.items()})
    assert counts(reader) == expected != exact


def test_a_producer_that_is_made_again_writes_all_rows_twice(runtime: Runtime, events: Events) -> None:
    """1. It is deleted: its next life has no checkpoint. 2. It writes what its first life has written once more, and
    its reader counts that in all windows that are open. So a write of such a job is refused
    (`services.job_service.repeats`)."""
    dice, rows = random.Random(5), list[Row]()
    shuffle, reader = chain_of(runtime, events, 2, WINDOWS)
    add(events, rows, dice)
    run(shuffle, reader)
    written = counts(reader)
    shuffle.generation += 1
    run(shuffle)
    events.add(closing(events))
    run(shuffle, reader)
    exact, twice = batch_answer(WINDOWS, rows), batch_answer(WINDOWS, [*rows, *rows])
    expected = Counter({window: written.get(window, count) for window, count in twice.items()})
    assert counts(reader) == expected != exact
