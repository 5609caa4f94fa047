"""What a job measured around the decisions of the Auto Scaler, and what it thought the job could do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.wire.overview import DecisionView, JobSeries, MetricSeries
from services.console.views.charts import Chart, Mark, chart

_NOTHING = "none"
_BECAUSE = {
    "none": "without a symptom",
    "unknown": "because the lag was unknown",
    "out_of_memory": "because a task ran out of memory",
}
METRICS = ("lag_seconds", "input_rows_per_second", "processed_rows_per_second", "tasks_running")


def decision_charts(found: JobSeries, decisions: Sequence[DecisionView], max_lag_seconds: float) -> Iterator[Chart]:
    """Lag, rows a second with the estimated capacity, and tasks; each with a mark where something was decided."""
    by_name = {series.metric: series for series in found.series}
    within = [each for each in decisions if found.since <= each.at < found.until]
    marks = [Mark.of(each.at, in_words(each), found) for each in within]
    lag, read, processed, tasks = (by_name[metric] for metric in METRICS)
    estimated = MetricSeries(metric="capacity", unit=read.unit, values=_estimates(found, within, len(read.values)))
    rates = [("read", read), ("can process", processed), ("capacity as the Auto Scaler estimated it", estimated)]
    yield chart("Lag", [("lag of the worst task", lag)], found, max_lag_seconds, marks)
    yield chart("Rows per second", rates, found, marks=marks)
    yield chart("Tasks", [("running", tasks)], found, marks=marks)


def action(decision: DecisionView) -> str:
    """What was to be done: `increase tasks`, `nothing was done`."""
    return "nothing was done" if decision.action == _NOTHING else decision.action.replace("_", " ")


def because(decision: DecisionView) -> str:
    """What it answered: `because of lag`, `without a symptom`."""
    return _BECAUSE.get(decision.symptom) or f"because of {decision.symptom.replace('_', ' ')}"


def in_words(decision: DecisionView) -> str:
    """`increase tasks because of lag`."""
    return f"{action(decision)} {because(decision)}"


def capacity(decision: DecisionView) -> float | None:
    """Rows per second that all tasks together were thought to get through; None: the decision had no estimate."""
    state, config = decision.inputs.get("state"), decision.inputs.get("config")
    rate = state.get("rate") if isinstance(state, dict) else None
    of_task = rate.get("rows_per_second") if isinstance(rate, dict) else None
    tasks = config.get("task_count") if isinstance(config, dict) else None
    return of_task * tasks if isinstance(of_task, int | float) and isinstance(tasks, int) else None


def _estimates(found: JobSeries, decisions: Sequence[DecisionView], steps: int) -> list[float | None]:
    """By step; of several decisions in one the newest, which comes first."""
    values: list[float | None] = [None] * steps
    for each in reversed(decisions):
        step = int((each.at - found.since).total_seconds() // found.step_seconds)
        if step < steps:
            values[step] = capacity(each)
    return values
