"""The rules of the policies that Penstock is compared with, as tables from their documents."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.support.autoscaling.jobs import KEY_GROUPS, MAX_TASKS, Job
from tests.support.autoscaling.policies import dhalion, ds2, flink, hpa, keda
from tests.support.autoscaling.policies.penstock import Penstock
from tests.support.autoscaling.policies.static import peak_tasks
from tests.support.autoscaling.seen import Policy, Seen
from tests.support.autoscaling.traces import trace

GIB = 2**30


def job(rate: float = 10_000.0) -> Job:
    return Job(trace("a", "steps", np.full(60, rate)), np.full(KEY_GROUPS, 1 / KEY_GROUPS))


def seen(**changed: Any) -> Seen:
    """Four tasks at half of what they can do."""
    known: dict[str, Any] = {
        "minute": 100,
        "started": 0,
        "tasks": 4,
        "memory_bytes": GIB,
        "input_rate": 20_000.0,
        "processed_rate": 20_000.0,
        "true_rate": 40_000.0,
        "imbalance": 0.0,
        "busy": 0.5,
        "busiest": 0.5,
        "slowest_rate": 5_000.0,
        "fastest_rate": 5_000.0,
        "backlog": 0.0,
        "broker_lag": 100_000.0,
        "out_of_memory": False,
        "memory_used": 0.0,
        "group_rates": np.full(KEY_GROUPS, 20_000.0 / KEY_GROUPS),
    }
    of_all = known | changed
    shares = {"task_reads": "processed_rate", "task_rates": "true_rate", "task_backlogs": "backlog"}
    each = {name: np.full(MAX_TASKS, of_all[total] / of_all["tasks"]) for name, total in shares.items()}
    return Seen(**(each | of_all))


def tasks_over(policy: Policy, minutes: range, **changed: Any) -> list[int]:
    """What it wants in each of these minutes, when it gets none of it."""
    return [policy.wanted(seen(minute=minute, **changed)).tasks for minute in minutes]


@pytest.mark.parametrize(
    ("pods", "ratio", "expected"),
    [(3, 1.5, 5), (4, 1.09, 4), (4, 1.11, 5), (4, 0.91, 4), (4, 0.89, 4), (4, 0.7, 3), (4, 0.0, 1)],
)
def test_hpa_recommends_pods_times_the_ratio_rounded_up(pods: int, ratio: float, expected: int) -> None:
    assert hpa.recommended(pods, ratio) == expected


@pytest.mark.parametrize(("pods", "recommendation", "expected"), [(1, 30, 5), (6, 30, 12), (20, 90, MAX_TASKS)])
def test_hpa_at_most_doubles_or_adds_four(pods: int, recommendation: int, expected: int) -> None:
    assert hpa.Behavior().pods(0, pods, recommendation) == expected


def test_hpa_reduces_to_the_highest_recommendation_of_five_minutes() -> None:
    behavior = hpa.Behavior()
    assert [behavior.pods(minute, 8, pods) for minute, pods in enumerate([8, 3, 2, 2, 2, 2, 2])] == [8] * 5 + [3, 2]


def test_hpa_counts_no_cpu_of_the_minute_of_a_change() -> None:
    assert hpa.Hpa(job()).wanted(seen(busy=1.0)).tasks == 5
    assert hpa.Hpa(job()).wanted(seen(busy=1.0, started=100)).tasks == 4


@pytest.mark.parametrize(
    ("lag", "pods", "threshold", "expected"),
    [(40.0, 2, 10.0, 2.0), (1e6, 4, 10.0, KEY_GROUPS / 4), (0.0, 3, 10.0, 0.0), (120_000.0, 3, 50_000.0, 0.8)],
)
def test_keda_counts_lag_for_no_more_pods_than_partitions(
    lag: float, pods: int, threshold: float, expected: float
) -> None:
    assert keda.ratio(lag, pods, threshold) == pytest.approx(expected)


def test_keda_fitted_keeps_what_keda_multiplies() -> None:
    assert keda.Keda(job()).wanted(seen()).tasks == 8
    assert keda.KedaFitted(job()).wanted(seen(broker_lag=200_000.0)).tasks == 4


@pytest.mark.parametrize(
    ("source_rate", "true_rate", "tasks", "expected"),
    [(20_000.0, 40_000.0, 4, 2), (20_001.0, 40_000.0, 4, 3), (90_000.0, 40_000.0, 4, 9), (0.0, 40_000.0, 4, 1)],
)
def test_ds2_divides_the_source_rate_by_the_true_rate_of_a_task(
    source_rate: float, true_rate: float, tasks: int, expected: int
) -> None:
    assert ds2.optimal(source_rate, true_rate, tasks) == expected


def test_ds2_ignores_one_task_less_and_the_minute_of_a_change() -> None:
    assert [ds2.is_significant(4, after) for after in (2, 3, 4, 5)] == [True, False, False, True]
    assert ds2.Ds2(job()).wanted(seen()).tasks == 2
    assert ds2.Ds2(job()).wanted(seen(started=100)).tasks == 4


@pytest.mark.parametrize(("pressure", "expected"), [(0.5, 8), (0.2, 5), (0.9, 20), (1.0, 20)])
def test_dhalion_grows_by_backpressure_over_the_rest(pressure: float, expected: int) -> None:
    assert dhalion.grown(4, pressure) == expected


def test_dhalion_blames_skew_and_does_nothing() -> None:
    behind = seen(backlog=20_000.0 * 60)
    assert dhalion.backpressure(behind) == pytest.approx(0.5)
    assert dhalion.Dhalion(job()).wanted(behind).tasks == 8
    assert dhalion.Dhalion(job()).wanted(behind._replace(fastest_rate=8_000.0)).tasks == 4


def test_dhalion_does_not_repeat_a_reduction_that_did_harm() -> None:
    policy = dhalion.Dhalion(job())
    assert policy.wanted(seen()).tasks == 3
    assert policy.wanted(seen(tasks=3, backlog=1e6)).tasks > 3
    assert policy.wanted(seen()).tasks == 4
    assert policy.wanted(seen(input_rate=19_000.0)).tasks == 3


@pytest.mark.parametrize(
    ("rate", "backlog", "utilisation", "with_restart", "expected"),
    [
        (700.0, 0.0, 0.7, False, 1000.0),
        (600.0, 0.0, 1.0, True, 700.0),
        (600.0, 1800.0 * 50, 1.0, True, 750.0),
        (600.0, 0.0, 0.0, True, math.inf),
    ],
)
def test_flink_adds_catching_up_and_the_restart_to_the_target(
    rate: float, backlog: float, utilisation: float, with_restart: bool, expected: float
) -> None:
    assert flink.capacity(rate, backlog, utilisation, with_restart=with_restart) == pytest.approx(expected)


@pytest.mark.parametrize(("tasks", "expected"), [(1, 1), (3, 4), (9, 16), (17, 32), (40, 32)])
def test_flink_takes_the_next_count_that_divides_the_key_groups(tasks: int, expected: int) -> None:
    assert flink.aligned(tasks) == expected


def test_flink_grows_once_its_window_is_full() -> None:
    busy = {"input_rate": 44_000.0, "processed_rate": 38_000.0, "busiest": 0.98, "backlog": 4e6}
    assert tasks_over(flink.FlinkAutoscaler(job()), range(0, 21), **busy) == [4] * 20 + [8]


def test_flink_leaves_what_is_within_its_bounds() -> None:
    assert tasks_over(flink.FlinkAutoscaler(job()), range(0, 200)) == [4] * 200


def test_flink_reduces_after_an_hour_of_asking() -> None:
    idle = {"processed_rate": 4_000.0, "busiest": 0.1}
    assert tasks_over(flink.FlinkAutoscaler(job()), range(0, 81), **idle) == [4] * 80 + [2]


def test_flink_leaves_what_is_over_its_lowest_utilisation_or_behind() -> None:
    light = {"tasks": 3, "processed_rate": 12_000.0, "busiest": 0.4}
    assert set(tasks_over(flink.FlinkAutoscaler(job()), range(0, 100), **light)) == {3}
    behind = {"processed_rate": 4_000.0, "busiest": 0.1, "backlog": 4_000.0 * 400}
    assert set(tasks_over(flink.FlinkAutoscaler(job()), range(0, 100), **behind)) == {4}


def test_flink_reduces_to_the_most_that_the_hour_asked_for() -> None:
    policy = flink.FlinkAutoscaler(job())
    tasks_over(policy, range(0, 30), tasks=5, processed_rate=14_000.0, busiest=0.28)
    assert tasks_over(policy, range(30, 81), tasks=5, processed_rate=5_000.0, busiest=0.1)[-2:] == [5, 4]


BEHIND = {"backlog": 40_000.0 * 100, "processed_rate": 40_000.0}


def test_penstock_decides_by_its_own_algorithm() -> None:
    assert Penstock(job()).wanted(seen()).tasks == 4
    assert Penstock(job()).wanted(seen(backlog=40_000.0 * 100)).tasks == 4, "they are enough to work it off"
    assert Penstock(job()).wanted(seen(**BEHIND)).tasks == 6, "(X + B/t) * 1.2 / P = 5.3"
    assert Penstock(job()).wanted(seen(out_of_memory=True)).memory_bytes == GIB * 3 // 2


def test_penstock_waits_after_a_change_and_gives_back_after_a_quiet_day() -> None:
    assert tasks_over(Penstock(job()), range(100, 107), started=101, **BEHIND) == [4, 4, 4, 4, 4, 6, 4]
    assert tasks_over(Penstock(job()), range(100, 106), **BEHIND) == [6, 4, 4, 4, 4, 6]
    assert set(tasks_over(Penstock(job()), range(300, 1700))) == {4, 3}


@pytest.mark.parametrize(("rate", "expected"), [(1_000.0, 1), (20_000.0, 3), (400_000.0, MAX_TASKS)])
def test_static_provisioning_carries_the_peak_and_a_fifth_more(rate: float, expected: int) -> None:
    assert peak_tasks(job(rate)) == expected


def test_penstock_reads_nothing_from_before_its_owner_started_the_job_again() -> None:
    """It knows what a task does only by minutes, and as after every commit it waits for five of them."""
    policy = Penstock(job())
    assert tasks_over(policy, range(0, 100)) == [4] * 100
    assert tasks_over(policy, range(500, 507), **BEHIND) == [4, 4, 4, 4, 6, 4, 4]
