"""What is remembered of tasks and answers: crashes are counted once, and for the length of the window."""

from __future__ import annotations

from services.shard_manager.health.failure_stats import CrashedTask, FailureStats
from services.shard_manager.health.outliers import Tasks

HOUR = 3600.0


def crashed(*crashes: int) -> list[CrashedTask]:
    """`crashes` in a row of the first tasks of a job; those of 0 are healthy."""
    return [CrashedTask("job", number, "c1", each) for number, each in enumerate(crashes) if each]


def kept(checks: dict[float, list[CrashedTask]]) -> FailureStats:
    stats = FailureStats(HOUR)
    for at, each in checks.items():
        stats.add_crashes(each, at)
    return stats


def seen(checks: dict[float, list[CrashedTask]], now: float, container: str = "c1") -> Tasks:
    """Of the job on c1, when there are four tasks of it on the container."""
    return kept(checks).tasks({("job", container): 4}, now)["job", "c1"]


def test_crashes_are_counted_as_they_come() -> None:
    """One task crashes three times, gets well and crashes again; another one once: it does not keep crashing."""
    checks = {0.0: crashed(), 30.0: crashed(1, 1), 60.0: crashed(3, 1), 90.0: crashed(0, 1), 120.0: crashed(1, 1)}
    assert seen(checks, 1800.0) == Tasks(seen=4, failing=1, crashes=5, hours=2.0)


def test_a_smaller_number_in_a_row_is_a_new_row() -> None:
    assert seen({0.0: crashed(), 30.0: crashed(5), 60.0: crashed(2)}, 60.0).crashes == 7


def test_a_task_that_was_missing_for_a_check_comes_back_with_its_old_crashes() -> None:
    """Its container was declared lost, and reports again."""
    checks = {0.0: crashed(6, 6), 30.0: [], 60.0: crashed(6, 7)}
    assert seen(checks, 60.0).crashes == 1


def test_what_crashed_before_the_first_check_does_not_count() -> None:
    assert seen({0.0: crashed(7), 30.0: crashed(8)}, 30.0).crashes == 1


def test_crashes_are_forgotten_after_the_window() -> None:
    checks = {0.0: crashed(), 30.0: crashed(2), 60.0: crashed(2)}
    assert seen(checks, 30.0 + HOUR - 1).failing == 1
    assert seen(checks, 30.0 + HOUR) == Tasks(4, 0, 0, 4.0)


def test_a_task_that_went_away_still_counts_where_it_crashed() -> None:
    checks = {0.0: crashed(), 30.0: crashed(2), 60.0: crashed()}
    assert seen(checks, 60.0, "c2") == Tasks(seen=1, failing=1, crashes=2, hours=0.0)


def test_the_most_that_keep_crashing_on_one_container() -> None:
    """Of c1 two of three crash twice, of c2 one does; after the window nobody did."""
    others = [CrashedTask("job", number, "c2", each) for number, each in enumerate((3, 1))]
    stats = kept({0.0: crashed(), 30.0: crashed(2, 1, 5) + others})
    assert stats.most_failing_tasks(60.0) == 2
    assert stats.most_failing_tasks(30.0 + HOUR) == 0


def test_a_container_is_given_another_chance() -> None:
    stats = FailureStats(HOUR)
    stats.add_crashes(crashed(), 0.0)
    stats.add_crashes(crashed(5), 30.0)
    for number in range(5):
        stats.add_time("add", "c1", number, 30.0)
    stats.forget("c1")
    assert stats.tasks({("job", "c1"): 4}, 30.0)["job", "c1"].crashes == 0
    assert stats.typical("add", 30.0) == {}


def test_the_typical_time_is_the_median_of_the_latest_ones_within_the_window() -> None:
    stats = FailureStats(HOUR)
    for number, seconds in enumerate([900.0] * 3 + [1.0, 2.0, 3.0, 4.0, 50.0]):
        stats.add_time("drop", "c1", seconds, float(number))
    stats.add_time("drop", "c2", 1.0, 7.0)
    assert stats.typical("drop", HOUR + 2.5) == {"c1": 3.0}
    assert stats.typical("drop", HOUR + 3.5) == {}
    assert stats.typical("add", 8.0) == {}
