"""Loads of tasks and shards: measured where they are, estimated in a fixed order, never zero for want of knowledge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tasks.dimensions import CPU, DIMENSIONS, DISK, MEMORY, NETWORK, Dimension
from penstock.tasks.loads import JobTasks, TaskLoad, shard_loads, task_loads, task_shards
from penstock.tasks.shards import Sharding

RESERVED = {CPU: 0.5, MEMORY: 1000.0, DISK: 10.0}
NAMES = [dimension.name for dimension in DIMENSIONS]
GIVEN_IN_ALL = {CPU: 2.0, MEMORY: 3.0, DISK: 4.0, NETWORK: 5.0}


def job(name: str, count: int, *, own: bool = False, generation: int = 1) -> JobTasks:
    return JobTasks(name, count, generation, own, RESERVED)


def by_name(values: object) -> dict[str, float]:
    return dict(zip(NAMES, np.asarray(values).tolist(), strict=True))


def test_a_measured_load_counts_and_a_measured_zero_is_a_zero() -> None:
    load = {CPU: 0.0, MEMORY: 3.0, DISK: 4.0, NETWORK: 0.0}
    loads = task_loads([job("a", 1)], [TaskLoad("a", 0, 1, load)])
    assert by_name(loads.values[0]) == load
    assert loads.measured.all()


def test_an_unknown_load_is_the_mean_of_the_jobs_other_tasks_in_each_dimension() -> None:
    """Task 2 is unknown; of task 1 only the CPU is known."""
    told = [TaskLoad("a", 0, 1, GIVEN_IN_ALL), TaskLoad("a", 1, 1, {CPU: 4.0})]
    loads = task_loads([job("a", 3), job("b", 1)], told)
    assert by_name(loads.values[1]) == {CPU: 4.0, MEMORY: 3.0, DISK: 4.0, NETWORK: 5.0}
    assert by_name(loads.values[2]) == {CPU: 3.0, MEMORY: 3.0, DISK: 4.0, NETWORK: 5.0}
    assert loads.measured.sum(axis=1).tolist() == [4, 1, 0, 0]


def test_a_job_of_which_nothing_is_known_uses_its_reservation_and_else_the_mean_of_all() -> None:
    loads = task_loads([job("a", 1), job("b", 2)], [TaskLoad("a", 0, 1, GIVEN_IN_ALL)])
    assert by_name(loads.values[1]) == {**RESERVED, NETWORK: 5.0}


def test_what_nobody_knows_is_what_the_dimension_assumes() -> None:
    loads = task_loads([job("a", 1)], [], (*DIMENSIONS, Dimension("gpus", 0.1)))
    assert loads.values[0].tolist() == [0.5, 1000.0, 10.0, 64.0 * 2**10, 0.1]


def test_a_task_with_its_own_process_has_what_is_reserved_for_it() -> None:
    """Whatever it uses; what no reservation names is measured."""
    loads = task_loads([job("a", 1, own=True)], [TaskLoad("a", 0, 1, GIVEN_IN_ALL)])
    assert by_name(loads.values[0]) == {**RESERVED, NETWORK: 5.0}


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(TaskLoad("a", 0, 1, GIVEN_IN_ALL), id="of the generation before"),
        pytest.param(TaskLoad("a", 2, 2, GIVEN_IN_ALL), id="of a task that is no more"),
        pytest.param(TaskLoad("gone", 0, 2, GIVEN_IN_ALL), id="of a job that is no more"),
    ],
)
def test_loads_of_other_tasks_say_nothing(told: TaskLoad) -> None:
    jobs = [job("a", 2, generation=2)]
    assert task_loads(jobs, [told]).values.tolist() == task_loads(jobs, []).values.tolist()


def test_without_jobs_shards_have_no_load() -> None:
    assert (
        shard_loads(task_shards([], Sharding(3)), task_loads([], [TaskLoad("a", 0, 1, GIVEN_IN_ALL)]), 3).tolist()
        == [[0.0] * 4] * 3
    )


@pytest.mark.parametrize("amount", [-1.0, float("inf"), float("nan")])
def test_a_load_that_cannot_be_is_unknown(amount: float) -> None:
    jobs = [job("a", 2)]
    assert (
        task_loads(jobs, [TaskLoad("a", 0, 1, {CPU: amount})]).values.tolist() == task_loads(jobs, []).values.tolist()
    )


AMOUNTS = st.floats(min_value=0, max_value=1e12, allow_nan=False)
LOADS = st.dictionaries(st.sampled_from(NAMES), AMOUNTS)
TOLD = st.lists(
    st.builds(TaskLoad, st.sampled_from("abcx"), st.integers(0, 6), st.integers(1, 3), LOADS),
    max_size=30,
    unique_by=lambda load: (load.job, load.number),
)
JOBS = st.lists(
    st.builds(
        JobTasks,
        st.sampled_from("abc"),
        st.integers(1, 6),
        st.integers(1, 3),
        st.booleans(),
        st.just(RESERVED),
        st.sampled_from([None, "here"]),
    ),
    max_size=3,
    unique_by=lambda tasks: tasks.job,
)


@given(JOBS, TOLD, st.integers(1, 9))
def test_a_shard_has_the_sum_of_its_tasks_each_as_a_plain_reading_of_the_rules_says(
    jobs: list[JobTasks], told: list[TaskLoad], shard_count: int
) -> None:
    sharding = Sharding(shard_count, ("there", "here"))
    expected = np.zeros((shard_count, len(NAMES)))
    for tasks in jobs:
        for index in range(tasks.task_count):
            shard = sharding.shard_of(f"{tasks.job}/{index}", tasks.selector)
            assert shard is not None
            expected[shard] += [plainly(jobs, told, tasks, index, column) for column in range(len(NAMES))]
    got = shard_loads(task_shards(jobs, sharding), task_loads(jobs, told), shard_count)
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def plainly(jobs: list[JobTasks], told: list[TaskLoad], tasks: JobTasks, index: int, column: int) -> float:
    name = NAMES[column]
    if tasks.has_own_processes and name in tasks.reserved:
        return tasks.reserved[name]
    known = {
        (load.job, load.number): load.load[name]
        for load in told
        for other in jobs
        if load.job == other.job and load.generation == other.generation and load.number < other.task_count
        if name in load.load
    }
    if (tasks.job, index) in known:
        return known[tasks.job, index]
    of_job = [amount for (owner, _), amount in known.items() if owner == tasks.job]
    if of_job:
        return sum(of_job) / len(of_job)
    if name in tasks.reserved:
        return tasks.reserved[name]
    return sum(known.values()) / len(known) if known else DIMENSIONS[column].assumed
