"""Plots of `tests.bench.autoscaling`, for a README. They need matplotlib, which nothing else does."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.report import say
from tests.support.autoscaling.jobs import Job
from tests.support.autoscaling.policies import POLICIES
from tests.support.autoscaling.run import course
from tests.support.autoscaling.score import carried
from tests.support.autoscaling.traces import DAY

MISSING = "the plots need matplotlib: `.venv/bin/uv pip install matplotlib --python .venv/bin/python`"
TITLES = {
    "penstock": "Penstock",
    "static_peak": "static, peak + 1/5",
    "hpa": "HPA, 80 % CPU",
    "keda": "KEDA, lag 10",
    "keda_fitted": "KEDA, fitted",
    "dhalion": "Dhalion",
    "ds2": "DS2",
    "flink_autoscaler": "Flink autoscaler",
}
BESIDE = ("penstock", "flink_autoscaler", "hpa")
POLICIES_PLOT, DAY_PLOT = "policies.png", "day.png"
_DOTS_PER_INCH = 80


def require() -> Any:
    """matplotlib's pyplot, without a window. Raises SystemExit that says how to install it."""
    try:
        import_module("matplotlib").use("Agg")
        return import_module("matplotlib.pyplot")
    except ModuleNotFoundError as error:
        raise SystemExit(MISSING) from error


def plot(folder: Path, figures: Mapping[str, Any], job: Job, seed: int) -> None:
    """Writes both plots. `figures`: the scores by policy. `job`: one with tides, of which a day is shown."""
    pyplot = require()
    folder.mkdir(parents=True, exist_ok=True)
    _save(pyplot, policies(pyplot, figures), folder / POLICIES_PLOT)
    _save(pyplot, day(pyplot, job, seed), folder / DAY_PLOT)


def policies(pyplot: Any, figures: Mapping[str, Any]) -> Any:
    """A dot for each policy: SLO minutes missed against task-hours; its size grows with the actions."""
    drawn, axes = pyplot.subplots(figsize=(8.0, 5.0))
    for name in (name for name in TITLES if name in figures):
        score = figures[name]
        hours, missed, actions = (score[key] for key in ("resource_hours", "slo_minutes_missed", "actions"))
        colour = "tab:red" if name == "penstock" else "tab:blue"
        axes.scatter(hours, missed, s=20 + 3 * np.sqrt(actions), color=colour, alpha=0.7)
        axes.annotate(
            f"{TITLES[name]}\n{actions:,.0f} actions",
            (hours, missed),
            xytext=(8, 4),
            textcoords="offset points",
            fontsize=8,
        )
    axes.set(xscale="log", yscale="log", xlabel="task-hours", ylabel="SLO minutes missed")
    axes.set_title("Less is better, both ways; a dot grows with the actions", fontsize=10)
    axes.margins(0.2)
    axes.grid(which="both", alpha=0.2)
    return drawn


def day(pyplot: Any, job: Job, seed: int) -> Any:
    """The last day of a job: what comes in, and what its tasks can carry under some policies."""
    drawn, axes = pyplot.subplots(figsize=(8.0, 4.0))
    hours = np.arange(DAY) / 60
    most = float(job.trace.rate[-DAY:].max()) / 1000
    for name in BESIDE:
        able = [carried(job.weights, tasks) / 1000 for tasks in course(job, POLICIES[name], seed)[-DAY:]]
        most = max(most, *able)
        axes.step(hours, able, where="post", label=f"capacity, {TITLES[name]}", linewidth=1.2)
    axes.fill_between(hours, job.trace.rate[-DAY:] / 1000, color="0.8", label="input")
    axes.set(xlabel="hour of the day", ylabel="thousand rows/s", xlim=(0, 24), ylim=(0, 1.3 * most))
    axes.set_xticks(range(0, 25, 3))
    axes.set_title(f"The last day of {job.trace.name}", fontsize=10)
    axes.legend(fontsize=8, loc="upper left", ncols=2)
    return drawn


def _save(pyplot: Any, drawn: Any, path: Path) -> None:
    drawn.tight_layout()
    drawn.savefig(path, dpi=_DOTS_PER_INCH)
    pyplot.close(drawn)
    say(f"{path}: {path.stat().st_size / 1000:.0f} kB")
