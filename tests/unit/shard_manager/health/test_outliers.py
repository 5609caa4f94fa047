"""Outliers: faulty containers are found, and healthy ones are left alone whatever their jobs do."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.shard_manager.health.outliers import Place, Tasks, at_least, outliers_by_failures, outliers_by_speed

FLEET = [f"c{number}" for number in range(8)]


def cell(broken: dict[str, int], *, jobs: int = 20, tasks_each: int = 1) -> dict[Place, Tasks]:
    """Every job has tasks on every container; `broken`: on which so many jobs' tasks keep crashing."""
    return {
        (f"job-{job}", name): Tasks(tasks_each, tasks_each * (job < broken.get(name, 0)), 3 * (job < 1), 0.5)
        for job in range(jobs)
        for name in FLEET
    }


def test_a_container_whose_tasks_fail_where_others_do_not_is_named_with_the_figures() -> None:
    (outlier,) = outliers_by_failures(cell({"c3": 6}), FLEET)
    assert outlier.container == "c3"
    assert outlier.details["failing_tasks"] == 6
    assert outlier.details["expected_failing_tasks"] < 1
    assert outlier.message == (
        "6 tasks of this container keep crashing; 0.2 are expected from the same jobs elsewhere "
        "(0.3 crashes per task-hour here, 0.3 elsewhere)"
    )


def test_jobs_that_fail_everywhere_accuse_nobody() -> None:
    assert outliers_by_failures(cell(dict.fromkeys(FLEET, 6)), FLEET) == []
    assert outliers_by_failures(cell(dict.fromkeys(FLEET[1:], 6)), FLEET) == []


def test_the_tasks_of_one_job_are_compared_with_its_other_tasks() -> None:
    one_job = {("job", name): Tasks(5, 5 * (name == "c2"), 0, 0.5) for name in FLEET}
    assert [each.container for each in outliers_by_failures(one_job, FLEET)] == ["c2"]


def test_a_broken_job_that_is_only_here_counts_as_one() -> None:
    cells = cell({})
    cells["broken", "c1"] = Tasks(50, 50, 900, 25.0)
    assert outliers_by_failures(cells, FLEET) == []


def test_many_jobs_that_are_only_here_and_fail_are_evidence() -> None:
    alone = {(f"{name}-{job}", name): Tasks(1, name == "c5" and job < 6, 0, 0.5) for job in range(9) for name in FLEET}
    assert [each.container for each in outliers_by_failures(alone, FLEET)] == ["c5"]


@pytest.mark.parametrize("broken", [{"c3": 2}, {"c3": 3, "c4": 3, "c5": 3, "c6": 3}], ids=["too few", "many others"])
def test_a_container_that_is_not_far_from_others_is_left_alone(broken: dict[str, int]) -> None:
    assert outliers_by_failures(cell(broken), FLEET) == []


def test_without_peers_nobody_is_judged() -> None:
    few = FLEET[:3]
    assert outliers_by_failures({place: seen for place, seen in cell({"c1": 20}).items() if place[1] in few}, few) == []


def test_a_container_that_is_gone_is_not_judged_but_known() -> None:
    assert outliers_by_failures(cell({"c3": 6}), [name for name in FLEET if name != "c3"]) == []


def test_a_healthy_fleet_is_hardly_ever_accused() -> None:
    """1,000 looks at 30 containers with 30 tasks each, of which 5 % fail by chance: by design, one in 1,000 at most."""
    chance = Random(5)
    fleet = [f"c{number}" for number in range(30)]
    accused = 0
    for _ in range(1000):
        seen = {
            (f"job-{job}", name): Tasks(1, chance.random() < 0.05, 0, 0.5)
            for job in range(30)
            for name in fleet
            if (job + int(name[1:])) % 2
        }
        accused += bool(outliers_by_failures(seen, fleet))
    assert accused <= 3


@given(st.integers(0, 60), st.floats(0.01, 40))
def test_the_chance_is_that_of_poisson(count: int, mean: float) -> None:
    below = sum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(count))
    if count > mean:
        assert at_least(count, mean) == pytest.approx(1 - below, abs=1e-9)
    else:
        assert at_least(count, mean) == 1.0


def test_tiny_chances_are_exact_and_nothing_is_expected_of_nothing() -> None:
    assert at_least(50, 1.0) == pytest.approx(math.exp(-1.0) / math.factorial(50), rel=0.03)
    assert at_least(1, 0.0) == 0.0


def test_a_slow_container_is_named_with_the_figures() -> None:
    typical = {**{name: 1.0 + number / 10 for number, name in enumerate(FLEET)}, "c6": 12.0}
    (outlier,) = outliers_by_speed("drop", typical)
    assert (outlier.container, outlier.message) == (
        "c6",
        "the container takes 12.0 s for each drop, others take 1.3 s (medians)",
    )
    assert outlier.details == {"drop_seconds": 12.0, "drop_seconds_elsewhere": 1.3}


@pytest.mark.parametrize(
    ("what", "typical"),
    [
        pytest.param("drop", {"a": 0.1, "b": 0.1, "c": 0.1, "d": 4.0}, id="by too few seconds"),
        pytest.param("start", {"a": 40.0, "b": 40.0, "c": 40.0, "d": 110.0}, id="not many times as slow"),
        pytest.param(
            "add", {"a": 0.1, "b": 5.0, "c": 2.0, "d": 9.0, "e": 0.2}, id="others are far from each other, too"
        ),
        pytest.param("add", {"a": 0.1, "b": 0.1, "c": 60.0}, id="too few peers"),
    ],
)
def test_a_container_that_is_not_far_slower_is_left_alone(what: str, typical: dict[str, float]) -> None:
    assert outliers_by_speed(what, typical) == []
