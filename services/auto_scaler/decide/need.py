"""How many tasks a job that lags needs by its estimate, and whether the ones it has would do if dealt otherwise."""

from __future__ import annotations

from typing import NamedTuple

from services.auto_scaler.decide import estimates, untriaged
from services.auto_scaler.decide.model import Action, Load, PastChange, Situation, tasks_in_words


class Need(NamedTuple):
    """The tasks that a job needs by its estimate, and why in words."""

    tasks: int
    because: str


class Demand(NamedTuple):
    """What comes in, what waits (rows) and the time to work it off, and the rows per second that a task does for sure.

    `shrunk`: a reduction that made the job lag.
    """

    load: Load
    backlog: float
    seconds: float
    rate: float
    shrunk: PastChange | None


def demand_with_lag(case: Situation) -> Demand | None:
    """What a job that lags has to do; None without an estimate that is sure."""
    rate, load, policy = case.state.rate, case.state.load, case.policy
    if rate is None or rate.is_lower_bound or load is None:
        return None
    processed = case.symptoms.processed_rows_per_second
    backlog = load.backlog_records
    if backlog is None:
        backlog = (case.symptoms.time_lagged_seconds or 0.0) * (processed or 0.0)
    shrunk = untriaged.last_change(case, Action.DECREASE_TASKS)
    present = None if processed is None else processed / case.tasks
    return Demand(
        load=load,
        backlog=backlog,
        seconds=estimates.recovery_seconds(case.config.slo.max_lag_seconds, policy),
        rate=estimates.rate_with_lag(rate, load, case.tasks, present, shrunk, policy),
        shrunk=shrunk,
    )


def need_with_lag(case: Situation, demand: Demand) -> Need:
    """The tasks that work off the backlog in time, dealt as now."""
    load, backlog, seconds, rate, shrunk = demand
    work = estimates.work_per_second(load, backlog, seconds, case.tasks) * (1 + case.policy.headroom)
    tasks = estimates.tasks_needed(work, rate, case.key_groups)
    because = (
        f"{load.rows_per_second:,.0f} rows/s come in and {backlog:,.0f} wait, to be worked off in {seconds:,.0f} s; "
        f"planned with {rate:,.0f} rows/s for each task, {_basis(case, rate)}"
    )
    if shrunk is not None and tasks < shrunk.tasks_before:
        return Need(shrunk.tasks_before, f"{because}; {tasks_in_words(shrunk.tasks_after)} turned out to be too few")
    return Need(tasks, because)


def _basis(case: Situation, rate: float) -> str:
    """Why it is planned with this rate, which need not be the estimate."""
    estimate, processed = case.state.rate, case.symptoms.processed_rows_per_second
    if estimate is not None and rate == estimate.rows_per_second:
        return "the estimate"
    is_present = processed is not None and rate == processed / case.tasks
    return "which each does now" if is_present else "as the last decrease showed"


def would_do(case: Situation, demand: Demand, largest_share: float) -> bool:
    """Whether a task keeps up that has such a share of all that comes in and waits."""
    all_work = demand.load.rows_per_second + demand.backlog / demand.seconds
    return all_work * largest_share * (1 + case.policy.headroom) <= demand.rate
