"""What is remembered of tasks and answers: crashes are counted once, and for the length of the window."""

from __future__ import annotations

from services.shard_manager.gray import Tasks
from services.shard_manager.ledger import CrashedTask, Ledger, Look

HOUR = 3600.0


def look(*crashes: int, container: str = "c1", count: int = 4) -> Look:
    """`crashes` in a row of the first tasks of a job; those of 0 are healthy."""
    crashed = [CrashedTask("job", number, container, each) for number, each in enumerate(crashes) if each]
    return Look({("job", container): count}, crashed)


def seen(looks: dict[float, Look], now: float) -> Tasks:
    ledger = Ledger(HOUR)
    for at, each in looks.items():
        ledger.take(each, at)
    return ledger.tasks(now)["job", "c1"]


def test_crashes_are_counted_as_they_come() -> None:
    """One task crashes three times, gets well and crashes again; another one once: it does not keep crashing."""
    looks = {0.0: look(), 30.0: look(1, 1), 60.0: look(3, 1), 90.0: look(0, 1), 120.0: look(1, 1)}
    assert seen(looks, 1800.0) == Tasks(seen=4, failing=1, crashes=5, hours=2.0)


def test_a_smaller_number_in_a_row_is_a_new_row() -> None:
    assert seen({0.0: look(), 30.0: look(5), 60.0: look(2)}, 60.0).crashes == 7


def test_what_crashed_before_the_first_look_does_not_count() -> None:
    assert seen({0.0: look(7), 30.0: look(8)}, 30.0).crashes == 1


def test_crashes_are_forgotten_after_the_window() -> None:
    looks = {0.0: look(), 30.0: look(2), 60.0: look(2)}
    assert seen(looks, 30.0 + HOUR - 1).failing == 1
    assert seen(looks, 30.0 + HOUR) == Tasks(4, 0, 0, 4.0)


def test_a_task_that_went_away_still_counts_where_it_crashed() -> None:
    looks = {0.0: look(), 30.0: look(2), 60.0: Look({("job", "c2"): 4}, [])}
    assert seen(looks, 60.0) == Tasks(seen=1, failing=1, crashes=2, hours=0.0)


def test_a_container_is_given_another_chance() -> None:
    ledger = Ledger(HOUR)
    ledger.take(look(), 0.0)
    ledger.take(look(5), 30.0)
    for number in range(5):
        ledger.measured("add", "c1", number, 30.0)
    ledger.forget("c1")
    assert ledger.tasks(30.0)["job", "c1"].crashes == 0
    assert ledger.typical("add", 30.0) == {}


def test_the_typical_time_is_the_median_of_the_latest_ones_within_the_window() -> None:
    ledger = Ledger(HOUR)
    for number, seconds in enumerate([900.0] * 3 + [1.0, 2.0, 3.0, 4.0, 50.0]):
        ledger.measured("drop", "c1", seconds, float(number))
    ledger.measured("drop", "c2", 1.0, 7.0)
    assert ledger.typical("drop", HOUR + 2.5) == {"c1": 3.0}
    assert ledger.typical("drop", HOUR + 3.5) == {}
    assert ledger.typical("add", 8.0) == {}
