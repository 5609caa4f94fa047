"""Disk and network: what one task takes of a container. Fewer tasks take more of it each. Pure.

What a task keeps and sends follows its share of the input, so it is dealt anew with the tasks. No task should take more
of a container than memory may (`vertical_share`): then there is a container for it, and it is easy to move.
"""

from __future__ import annotations

import math

from services.auto_scaler.decide.model import Situation, Use


def needed_for_shares(case: Situation) -> tuple[int, Use | None]:
    """The fewest tasks that stay below the share in every dimension, no more than there are; and what asks for them.

    One task, and None, when nothing is known.
    """
    counts = [(min(case.tasks, _needed(case, use)), use) for use in case.state.uses]
    most = max(counts, key=lambda found: found[0], default=(1, None))
    return most if most[0] > 1 else (1, None)


def _needed(case: Situation, use: Use) -> int:
    allowed = case.policy.vertical_share * use.of_container
    return math.ceil(case.tasks * use.of_task * (1 + case.policy.memory_headroom) / allowed)
