"""A restore explains the lag that follows it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.causes import Certainty
from services.job_service.causes.facts import Minute
from services.job_service.causes.rank import causes_of
from tests.support.job_service.causes import BUSY, ago, change, facts, failed, task

OVER = [Minute(ago(60 * number), 1000.0 if number < 9 else 1.0) for number in range(1, 20)]
BROKEN = failed("[DIVIDE_BY_ZERO] x")
RESTORED = change(None, None, 600.0, action="restore", layer=None, version=None, reason="back to it")
CANCELLED = change(None, None, 590.0, action="cancel_restore", layer=None, version=None)


@pytest.mark.parametrize(
    ("tasks", "changes", "is_cause"),
    [
        ([task(progress=BUSY)], [RESTORED], True),
        ([task(progress=BUSY)], [change({}, {"priority": 1}, 300.0), RESTORED], True),
        ([task(progress=BUSY)], [CANCELLED, RESTORED], False),
        ([task(progress=BUSY)], [RESTORED.model_copy(update={"revision": 8})], False),
        ([task(progress=BUSY)], [RESTORED.model_copy(update={"at": ago(7200), "revision": 6})], False),
        ([BROKEN, task(1, progress=BUSY)], [RESTORED], False),
        ([task()], [RESTORED], False),
    ],
)
def test_a_restore_explains_the_lag_after_it(tasks: list[Any], changes: list[Any], is_cause: bool) -> None:
    """Not one that was cancelled, or does not run yet, or was long before; nor does it explain a crash."""
    found = causes_of(facts(tasks, changes=changes, minutes=OVER))
    told = [each for each in found if each.summary.startswith("a restore set it to a savepoint")]
    assert bool(told) is is_cause
    if is_cause:
        assert found[0] is told[0]
        assert "by ann (back to it)" in told[0].evidence[0]
        assert "penstock metrics etl" in told[0].advice


def test_a_lag_that_was_there_before_the_restore_is_not_explained_by_it() -> None:
    lags_for_hours = [Minute(ago(60 * number), 1000.0) for number in range(1, 180)]
    found = causes_of(facts([task(progress=BUSY)], changes=[RESTORED], minutes=lags_for_hours))
    assert not [each for each in found if "restore" in each.summary]


def test_where_nobody_knows_when_the_lag_began_the_restore_is_likely() -> None:
    found = causes_of(facts([task(progress=BUSY)], changes=[RESTORED], minutes=[]))
    [told] = [each for each in found if "restore" in each.summary]
    assert told.certainty is Certainty.LIKELY
