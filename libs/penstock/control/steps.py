"""The steps of a round: one that fails does not keep the others from running."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.control.errors import Fenced, RetryableError
from penstock.control.logs import logger

log = logger(__name__)
Step = Callable[[int], Any]


def run_each(steps: Sequence[Step], leader_epoch: int) -> list[Any]:
    """Runs all steps in order; what they returned. The error of the first one that failed is raised at the end.

    Further errors are logged. Raises Fenced at once: nothing may be written any more.
    """
    first: Exception | None = None
    returned: list[Any] = []
    for step in steps:
        try:
            returned.append(step(leader_epoch))
        except Fenced:
            raise
        except Exception as error:  # noqa: BLE001 -- the loop handles it, once the other steps had their turn
            if first is not None:
                _log(step, error)
            first = first or error
    if first is not None:
        raise first
    return returned


def _log(step: Step, error: Exception) -> None:
    """What is tried again by the next round is no bug: most often the store is away for all steps."""
    name = getattr(step, "__qualname__", repr(step))
    if isinstance(error, RetryableError):
        log.warning("another step of the round failed", step=name, error=str(error))
    else:
        log.error("another step of the round failed", step=name, exc_info=error)


def in_turn(*steps: Step) -> Callable[[int], None]:
    """One function that runs each step, as `run_each` does."""

    def all_of_them(leader_epoch: int) -> None:
        run_each(steps, leader_epoch)

    return all_of_them
