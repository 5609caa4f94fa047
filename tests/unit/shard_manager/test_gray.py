"""Gray failure: ill containers are found, and well ones are left alone whatever their jobs do."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.shard_manager.gray import Place, Tasks, at_least, failing, slow

FLEET = [f"c{number}" for number in range(8)]


def cell(broken: dict[str, int], *, jobs: int = 20, tasks_each: int = 1) -> dict[Place, Tasks]:
    """Every job has tasks on every container; `broken`: on which so many jobs' tasks keep crashing."""
    return {
        (f"job-{job}", name): Tasks(tasks_each, tasks_each * (job < broken.get(name, 0)), 3 * (job < 1), 0.5)
        for job in range(jobs)
        for name in FLEET
    }


def test_a_container_whose_tasks_fail_where_others_do_not_is_named_with_the_figures() -> None:
    (suspect,) = failing(cell({"c3": 6}), FLEET)
    assert suspect.container == "c3"
    assert suspect.figures["failing_tasks"] == 6
    assert suspect.figures["expected_failing_tasks"] < 1
    assert suspect.why == (
        "6 of its tasks keep crashing where 0.2 would by what the same jobs do elsewhere: 0.3 crashes a task-hour "
        "here, 0.3 elsewhere"
    )


def test_jobs_that_fail_everywhere_accuse_nobody() -> None:
    assert failing(cell(dict.fromkeys(FLEET, 6)), FLEET) == []
    assert failing(cell(dict.fromkeys(FLEET[1:], 6)), FLEET) == []


def test_the_tasks_of_one_job_are_compared_with_its_other_tasks() -> None:
    one_job = {("job", name): Tasks(5, 5 * (name == "c2"), 0, 0.5) for name in FLEET}
    assert [each.container for each in failing(one_job, FLEET)] == ["c2"]


def test_a_broken_job_that_is_only_here_counts_as_one() -> None:
    cells = cell({})
    cells["broken", "c1"] = Tasks(50, 50, 900, 25.0)
    assert failing(cells, FLEET) == []


def test_many_jobs_that_are_only_here_and_fail_are_evidence() -> None:
    alone = {(f"{name}-{job}", name): Tasks(1, name == "c5" and job < 6, 0, 0.5) for job in range(9) for name in FLEET}
    assert [each.container for each in failing(alone, FLEET)] == ["c5"]


@pytest.mark.parametrize("broken", [{"c3": 2}, {"c3": 3, "c4": 3, "c5": 3, "c6": 3}], ids=["too few", "many others"])
def test_a_container_that_is_not_far_from_others_is_left_alone(broken: dict[str, int]) -> None:
    assert failing(cell(broken), FLEET) == []


def test_without_peers_nobody_is_judged() -> None:
    few = FLEET[:3]
    assert failing({place: seen for place, seen in cell({"c1": 20}).items() if place[1] in few}, few) == []


def test_a_container_that_is_gone_is_not_judged_but_known() -> None:
    assert failing(cell({"c3": 6}), [name for name in FLEET if name != "c3"]) == []


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
        accused += bool(failing(seen, fleet))
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
    (suspect,) = slow("drop", typical)
    assert (suspect.container, suspect.why) == ("c6", "it takes 12.0 s to drop, others take 1.3 s (medians)")
    assert suspect.figures == {"drop_seconds": 12.0, "drop_seconds_elsewhere": 1.3}


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
    assert slow(what, typical) == []
