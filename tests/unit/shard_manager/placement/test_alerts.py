"""What the alerts of a placement say."""

from __future__ import annotations

import pytest

from services.shard_manager.placement.alerts import alerts_of_shards
from services.shard_manager.placement.reasons import Cause, Unplaceable


@pytest.mark.parametrize(
    ("placed", "message"),
    [
        ((), "3 shards are without a container; their tasks do not run: no room for 2 cores"),
        ((1,), "2 shards are without a container; their tasks do not run; 1 shard is on containers that"),
        ((1, 2, 3), "3 shards are on containers that are full or drain: no room for 2 cores"),
    ],
)
def test_an_alert_says_what_does_not_run_and_leaves_out_what_is_not_so(placed: tuple[int, ...], message: str) -> None:
    lacks = [Unplaceable(shard, Cause.CAPACITY_SHORT, "no room for 2 cores", None) for shard in (1, 2, 3)]
    (alert,) = alerts_of_shards(lacks, dict.fromkeys(placed, "c"))
    assert alert.message.startswith(message)
