"""What a job's tasks measured of their key groups, and the ranges that follow from it. Pure."""

from __future__ import annotations

from penstock.config.model import JobConfig
from penstock.control.errors import Conflict
from penstock.model.traffic import Rates
from penstock.tasks.balance import Load, Proposal, proposal
from penstock.tasks.spec import key_group_ranges
from penstock.wire.balance import BalanceView, LoadView


def proposed(config: JobConfig, rates: Rates, task_count: int | None = None) -> Proposal | None:
    """For the job as it should be, or with `task_count` tasks; None when fewer than half of the rates are known.

    Raises ValueError when there are more tasks than key groups.
    """
    return proposal(rates, task_count or config.task_count, key_group_ranges(config))


def view(job: str, config: JobConfig, rates: Rates, found: Proposal | None) -> BalanceView:
    """A proposal, or that there is none, as an answer."""
    present = [part.lo for part in key_group_ranges(config)[1:]]
    about = {"job": job, "task_count": config.task_count, "records_per_second": list(rates), "present": present}
    if found is None:
        return BalanceView(**about)
    loads = {"before": _load(found.before), "after": _load(found.after)}
    return BalanceView(**about, bounds=list(found.bounds), gain=round(found.gain, 4), **loads)


def require(rates: Rates, found: Proposal | None) -> Proposal:
    """Raises Conflict (rule `measured`) when there is no proposal."""
    if found is None:
        known = sum(rate is not None for rate in rates)
        raise Conflict(
            f"the traffic of only {known} of {len(rates)} key groups is known, and half of them is needed: "
            "let the tasks run longer",
            field="job",
            rule="measured",
        )
    return found


def require_gain(found: Proposal, min_gain: float) -> None:
    """Raises Conflict (rule `min_gain`) when the proposal is not worth a rescale."""
    if found.gain <= 0 or found.gain < min_gain:
        raise Conflict(
            f"the busiest task has {found.before.imbalance:.2f} times the mean input and would have "
            f"{found.after.imbalance:.2f} times: it would lose {found.gain:.1%} of its input, less than {min_gain:.1%}",
            field="min_gain",
            rule="min_gain",
        )


def _load(found: Load) -> LoadView:
    return LoadView(largest_records_per_second=round(found.largest, 3), imbalance=round(found.imbalance, 4))
