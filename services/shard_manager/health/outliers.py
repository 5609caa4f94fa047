"""Finds outliers: live containers whose tasks fail, or that answer, far worse than on other containers. Pure.

Failures: the failing tasks of a container are compared with the same jobs' tasks elsewhere. A job that fails everywhere
is expected to fail here too, and is no evidence. A job that runs only here is weak evidence: it counts as one task,
expected to fail as often as tasks elsewhere. The expected number is the mean of a Poisson distribution. A container is
an outlier when the number found is many times the expected one, and chance would almost never produce it.

Speed: the median of a container's latest times is compared with the median of the others' and with their spread (median
absolute deviation). Both need peers: among few containers none is an outlier.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from penstock.model.alert_rules import limit_of
from penstock.model.alerts import AlertKind
from services.shard_manager.health.faults import Fault

MAD_TO_DEVIATION = 1.4826
"""The standard deviation of normally distributed values, in median absolute deviations."""

Place = tuple[str, str]
"""A job and a container."""


class Tasks(NamedTuple):
    """The tasks of a job on a container during the window; `failing`: the tasks that crashed twice or more in it."""

    seen: int
    failing: int
    crashes: int
    hours: float


PEERS = 3
"""How many other containers it takes to judge one."""
FAILING_TASKS = 3
TIMES_EXPECTED = limit_of(AlertKind.CONTAINER_OUTLIER)
"""An outlier by failures has so many failing tasks, and so many times the expected number."""
CHANCE = 1e-3
"""How often one check may wrongly name a container of a healthy fleet."""
LEAST_SHARE = 0.01
"""The share of tasks that is expected to fail anywhere."""
SLOW_TIMES = 3.0
SLOW_DEVIATIONS = 6.0
"""An outlier by speed is above so many times the median, so many deviations, and `SLOW_BY_SECONDS`."""
SLOW_BY_SECONDS = {"add": 2.0, "drop": 5.0, "start": 30.0}
"""By what is measured: by how many seconds it must be slower than elsewhere. A DROP waits for tasks to stop."""


def outliers_by_failures(tasks: Mapping[Place, Tasks], containers: Collection[str]) -> list[Fault]:
    """The containers whose tasks fail far more often than the same jobs' tasks elsewhere; strongest evidence first.

    `containers`: the live ones. The tasks of other containers count as elsewhere.
    """
    if len({container for _, container in tasks} & set(containers)) <= PEERS:
        return []
    failures: Counter[str] = Counter()
    for (_, container), seen in tasks.items():
        if seen.failing:
            failures[container] += seen.failing
    names = {name for name, count in failures.items() if count >= FAILING_TASKS} & set(containers)
    of_container: dict[str, dict[str, Tasks]] = {name: {} for name in sorted(names)}
    for (job, container), seen in tasks.items():
        if container in names:
            of_container[container][job] = seen
    all_jobs, whole = _of_jobs(tasks, {job for own in of_container.values() for job in own}), _sum(tasks.values())
    found = [_outlier(name, own, all_jobs, whole, len(containers)) for name, own in of_container.items()]
    return sorted((each for each in found if each is not None), key=lambda fault: fault.details["chance"])


def _of_jobs(tasks: Mapping[Place, Tasks], jobs: Collection[str]) -> dict[str, Tasks]:
    """The sums of some jobs over all containers."""
    parts: dict[str, list[Tasks]] = {job: [] for job in jobs}
    for (job, _), seen in tasks.items():
        if job in parts:
            parts[job].append(seen)
    return {job: _sum(each) for job, each in parts.items()}


def _outlier(
    name: str, own: Mapping[str, Tasks], all_jobs: Mapping[str, Tasks], whole: Tasks, containers: int
) -> Fault | None:
    here = _sum(own.values())
    elsewhere = _less(whole, here)
    usual = max(LEAST_SHARE, _share(elsewhere.failing, elsewhere.seen))
    found, expected = 0, 0.0
    for job, seen in own.items():
        others = _less(all_jobs[job], seen)
        if others.seen == 0:
            found, expected = found + (seen.failing > 0), expected + usual
        else:
            found += seen.failing
            expected += seen.seen * max(LEAST_SHARE, (others.failing + usual) / (others.seen + 1))
    chance = at_least(found, expected)
    is_many = found >= FAILING_TASKS and found >= TIMES_EXPECTED * expected
    if not is_many or chance > CHANCE / containers:
        return None
    rate, usual_rate = _share(here.crashes, here.hours), _share(elsewhere.crashes, elsewhere.hours)
    why = (
        f"{found} tasks of this container keep crashing; {expected:.1f} are expected from the same jobs elsewhere "
        f"({rate:.1f} crashes per task-hour here, {usual_rate:.1f} elsewhere)"
    )
    figures = {
        "failing_tasks": found,
        "expected_failing_tasks": round(expected, 3),
        "crashes_per_task_hour": round(rate, 3),
        "crashes_per_task_hour_elsewhere": round(usual_rate, 3),
        "chance": chance,
    }
    return Fault(AlertKind.CONTAINER_OUTLIER, name, why, figures)


def at_least(count: int, mean: float) -> float:
    """The chance that a Poisson number with this mean is `count` or greater; 1 when `count` is not above the mean.

    The sum starts at `count`, where the terms already shrink, so that tiny chances stay exact.
    """
    if count <= mean:
        return 1.0
    term = math.exp(count * math.log(mean) - mean - math.lgamma(count + 1)) if mean > 0 else 0.0
    total, number = 0.0, count
    while term > total * 1e-12:
        total += term
        number += 1
        term *= mean / number
    return min(1.0, total)


def outliers_by_speed(what: str, typical: Mapping[str, float]) -> list[Fault]:
    """The containers that take far longer than others for `what` (`add`, `drop`, `start`); the slowest first.

    `typical`: the median of the latest times in seconds, by container.
    """
    found: list[tuple[float, Fault]] = []
    for name, own in sorted(typical.items()):
        peers = [value for other, value in typical.items() if other != name]
        if len(peers) < PEERS:
            continue
        usual = statistics.median(peers)
        spread = MAD_TO_DEVIATION * statistics.median(abs(value - usual) for value in peers)
        bound = max(usual * SLOW_TIMES, usual + spread * SLOW_DEVIATIONS, usual + SLOW_BY_SECONDS[what])
        if own > bound:
            figures = {f"{what}_seconds": round(own, 3), f"{what}_seconds_elsewhere": round(usual, 3)}
            why = f"the container takes {own:.1f} s for each {what}, others take {usual:.1f} s (medians)"
            found.append((own / bound, Fault(AlertKind.CONTAINER_OUTLIER, name, why, figures)))
    return [fault for _, fault in sorted(found, key=lambda each: -each[0])]


def _sum(parts: Collection[Tasks]) -> Tasks:
    columns = list(zip(*parts, strict=True)) or [(0,)] * 4
    return Tasks(sum(columns[0]), sum(columns[1]), sum(columns[2]), sum(columns[3]))


def _less(whole: Tasks, part: Tasks) -> Tasks:
    hours = max(0.0, whole.hours - part.hours)
    return Tasks(whole.seen - part.seen, whole.failing - part.failing, whole.crashes - part.crashes, hours)


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
