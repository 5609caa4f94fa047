"""What is remembered of tasks and answers: crashes are counted once, and for the length of the window."""

from __future__ import annotations

from services.shard_manager.gray import Tasks
from services.shard_manager.ledger import CrashedTask, Ledger

HOUR = 3600.0


def look(*crashes: int) -> list[CrashedTask]:
    """`crashes` in a row of the first tasks of a job; those of 0 are healthy."""
    return [CrashedTask("job", number, "c1", each) for number, each in enumerate(crashes) if each]


def kept(looks: dict[float, list[CrashedTask]]) -> Ledger:
    ledger = Ledger(HOUR)
    for at, each in looks.items():
        ledger.take(each, at)
    return ledger


def seen(looks: dict[float, list[CrashedTask]], now: float, container: str = "c1") -> Tasks:
    """Of the job on c1, when there are four tasks of it on the container."""
    return kept(looks).tasks({("job", container): 4}, now)["job", "c1"]


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
    looks = {0.0: look(), 30.0: look(2), 60.0: look()}
    assert seen(looks, 60.0, "c2") == Tasks(seen=1, failing=1, crashes=2, hours=0.0)


def test_the_most_that_keep_crashing_on_one_container() -> None:
    """Of c1 two of three crash twice, of c2 one does; after the window nobody did."""
    others = [CrashedTask("job", number, "c2", each) for number, each in enumerate((3, 1))]
    ledger = kept({0.0: look(), 30.0: look(2, 1, 5) + others})
    assert ledger.most_failing(60.0) == 2
    assert ledger.most_failing(30.0 + HOUR) == 0


def test_a_container_is_given_another_chance() -> None:
    ledger = Ledger(HOUR)
    ledger.take(look(), 0.0)
    ledger.take(look(5), 30.0)
    for number in range(5):
        ledger.measured("add", "c1", number, 30.0)
    ledger.forget("c1")
    assert ledger.tasks({("job", "c1"): 4}, 30.0)["job", "c1"].crashes == 0
    assert ledger.typical("add", 30.0) == {}


def test_the_typical_time_is_the_median_of_the_latest_ones_within_the_window() -> None:
    ledger = Ledger(HOUR)
    for number, seconds in enumerate([900.0] * 3 + [1.0, 2.0, 3.0, 4.0, 50.0]):
        ledger.measured("drop", "c1", seconds, float(number))
    ledger.measured("drop", "c2", 1.0, 7.0)
    assert ledger.typical("drop", HOUR + 2.5) == {"c1": 3.0}
    assert ledger.typical("drop", HOUR + 3.5) == {}
    assert ledger.typical("add", 8.0) == {}
