"""When something that is done now and then is due: a story."""

from __future__ import annotations

from penstock.control.period import Period


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
