"""Whoever dies, and wherever: a change comes to its end, exactly, and nothing is stuck.

A case is a place before or after one action of the State Syncer, of a Task Manager or of a Spark host. The process
that comes there first kills itself (`kill -9`); its supervisor starts it again. `make test-long` runs them. In `make
test` the simulation and the model of rescales die at every call, and real processes die in `test_chaos`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from penstock.control.process import wait_until
from penstock.local import supervisor
from tests.support.chaos.stack import ChaosStack
from tests.support.faults.orders import Point
from tests.support.faults.points import COLLECTION, OUTPUT, QUIESCE, RESCALE, RESTORE, SAVEPOINT, alternating
from tests.support.faults.stack import MortalStack
from tests.support.spark.session import unique
from tests.support.stack.counts import CONVERGE_S, CountJob
from tests.support.stack.told import told

SIZES = (2, 3)


def _cases(points: tuple[Point, ...]) -> list[object]:
    return [pytest.param(point, id=str(point)) for point in alternating(points)]


@pytest.fixture(autouse=True)
def _started_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many die here one after another, which elsewhere means that something is broken."""
    monkeypatch.setattr(supervisor, "pause_seconds", lambda _: 0.25)


@pytest.fixture(scope="module")
def saved(stack: MortalStack) -> Iterator[CountJob]:
    """A job that counts rows by word, for all restores."""
    yield from _running(CountJob(stack, unique("saved")))


def _running(job: CountJob) -> Iterator[CountJob]:
    job.create(task_count=SIZES[0])
    yield job
    job.delete()


@pytest.mark.long
@pytest.mark.parametrize("point", _cases(RESCALE))
def test_a_rescale_survives_a_crash(stack: MortalStack, counts: CountJob, point: Point):
    """1. Rows keep coming. 2. The job changes its size, and somebody dies at the point. 3. It runs at the new size, no
    plan is left and nobody is alarmed. 4. Every row was counted once, and no count was sent twice."""
    size = sum(SIZES) - counts.size()
    with counts.fed():
        stack.orders.give(point)
        counts.rescale(size)
        _wait_obeyed(stack, point)
        counts.wait_runs(size)
        counts.wait_settled()
    counts.wait_counted()
    counts.assert_exact()


STOPPED_S = 30.0
"""A cold host alone takes half of it on a small machine."""


@pytest.mark.long
@pytest.mark.parametrize("point", _cases(QUIESCE))
def test_a_job_is_not_stopped_before_tasks_that_were_lost_while_it_quiesced_run_again(
    stack: ChaosStack, counts: CountJob, point: Point
):
    """1. Rows keep coming, and the job is to have another size. 2. Who tells a task to take no more rows dies, with
    the task. 3. The task runs again, and only then the job is stopped, for a short time. Where that takes longer than
    15 s, tasks took rows again until then. 4. Every row was counted once."""
    size, before, asked_at = sum(SIZES) - counts.size(), counts.generation(), time.time()
    with counts.fed():
        stack.orders.give(point)
        counts.rescale(size)
        _wait_obeyed(stack, point)
        counts.wait_changed(before, asked_at, size)
        counts.wait_settled()
    orders, stops = (
        [
            line.at
            for line in told(stack, "state_syncer", "job rescales", job=counts.name, step=step)
            if line.at.timestamp() > asked_at
        ]
        for step in ("quiesce", "await_stopped")
    )
    quiesced, stopped = orders[0], stops[-1]
    again = [
        line.at
        for name in stack.containers
        for line in told(stack, name, "task runs", generation=before)
        if line.fields["task"].startswith(f"{counts.name}/") and line.at > quiesced
    ]
    seconds = told(stack, "state_syncer", "job committed", job=counts.name, kind="rescale")[-1].fields["seconds"]
    down = sum(seconds[step] for step in ("await_stopped", "redistribute", "seal"))
    print(f"{point}: quiesced for {(stopped - quiesced).total_seconds():.1f} s, stopped for {down:.1f} s: {seconds}")
    assert again
    assert max(again) < stopped
    assert down < STOPPED_S
    counts.wait_counted()
    counts.assert_exact()


@pytest.fixture(scope="module")
def left(stack: MortalStack) -> Iterator[CountJob]:
    """Another one, which has left a generation: the next that it leaves makes that go."""
    for job in _running(CountJob(stack, unique("left"))):
        job.send(80)
        job.rescale(SIZES[1])
        job.wait_runs(SIZES[1])
        yield job


@pytest.mark.long
@pytest.mark.parametrize("point", _cases(COLLECTION))
def test_the_collection_of_an_old_generation_survives_a_crash(stack: MortalStack, left: CountJob, point: Point):
    """1. A rescale leaves a generation, so the one before goes, and somebody dies at the point. 2. It is gone, the one
    that runs and the one that was left are not. 3. Every row is counted once, also after another rescale."""
    size, kept = sum(SIZES) - left.size(), left.generation()
    stack.orders.give(point)
    left.rescale(size)
    left.wait_runs(size)
    _wait_obeyed(stack, point)
    left.wait_only([kept, left.generation()])
    left.wait_settled()
    left.send(80)
    left.assert_exact()


@pytest.mark.long
@pytest.mark.parametrize("point", _cases((*SAVEPOINT, *RESTORE)))
def test_a_savepoint_and_its_restore_survive_a_crash(stack: MortalStack, saved: CountJob, point: Point):
    """1. A savepoint, more rows, back to it at another size, and the savepoint is deleted; somebody dies at the point.
    2. The job runs at the new size, no plan is left and nobody is alarmed. 3. What came after the savepoint is counted
    again on top of it: every row is counted once."""
    name = unique("before")
    size = sum(SIZES) - saved.size()
    saved.send(80)
    stack.orders.give(point)
    saved.save(name)
    saved.send(80)
    saved.restore(name, size)
    saved.wait_settled()
    saved.remove(name)
    _wait_obeyed(stack, point)
    saved.wait_settled()
    saved.send(80)
    assert (saved.is_counted(), saved.size()) == (True, size)


@pytest.mark.long
@pytest.mark.parametrize("point", _cases(OUTPUT))
def test_a_first_output_survives_a_crash(stack: MortalStack, point: Point):
    """1. A job is made, and somebody dies while its output is. 2. It runs, and every row is counted once."""
    job = CountJob(stack, unique("fresh"))
    stack.orders.give(point)
    job.create(task_count=1)
    _wait_obeyed(stack, point)
    job.wait_settled()
    job.send(80)
    job.assert_exact()
    job.delete()


def _wait_obeyed(stack: MortalStack, point: Point) -> None:
    wait_until(
        stack.orders.is_obeyed, CONVERGE_S, f"the {point.victim} to die {point.when} {point.action}", poll_s=0.05
    )
