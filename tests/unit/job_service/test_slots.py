"""Room for streams of events."""

from __future__ import annotations

import pytest

from penstock.control.errors import TooManyCalls
from services.job_service.events.slots import Slots


def test_no_token_has_all_streams() -> None:
    """1. A quarter of them for each. 2. One that ends makes room, once. 3. All of them, for anybody."""
    slots = Slots(8)
    ann = [slots.take("ann") for _ in range(2)]
    with pytest.raises(TooManyCalls, match="the token ann has 2 streams of events"):
        slots.take("ann")
    ann[0].close()
    ann[0].close()
    ann[0] = slots.take("ann")
    others = [slots.take(name) for name in ("bob", "bob", "eve", "eve", "joe", "joe")]
    with pytest.raises(TooManyCalls, match="8 streams of events are open"):
        slots.take("kim")
    assert len(ann + others) == 8


def test_a_stream_that_nobody_holds_makes_room() -> None:
    slots = Slots(1)
    held = slots.take("ann")
    del held
    assert slots.take("ann")
