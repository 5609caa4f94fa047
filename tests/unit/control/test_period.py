"""When something that is done, or told, now and then is due: stories."""

from __future__ import annotations

from penstock.control.period import Period, Tally


def test_it_is_due_at_once_and_then_once_in_a_period() -> None:
    """1. Due at the start. 2. Again after its period. 3. It fails, so it stays due until it is done."""
    period = Period(10.0)
    assert period.is_due(1_000.0)
    period.done()
    assert not period.is_due(1_009.9)
    assert period.is_due(1_010.0)
    assert period.is_due(1_013.0)
    period.done()
    assert not period.is_due(1_022.9)
    assert period.is_due(1_023.0)


def test_what_comes_often_is_told_now_and_then_with_its_number() -> None:
    """1. The first is told at once. 2. Those that follow are counted. 3. The next one tells them after the period."""
    tally = Tally(60.0)
    assert tally.add(1_000.0) == 1
    assert [tally.add(1_000.0 + second) for second in (0.0, 1.0, 59.9)] == [0, 0, 0]
    assert tally.add(1_060.0) == 4
    assert tally.add(1_060.1) == 0
