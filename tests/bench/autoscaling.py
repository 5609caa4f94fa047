"""Penstock's scaling decisions beside those of others: `python -m tests.bench.autoscaling [--series 24] [--days 21]`.
`--ablation` compares Penstock with itself without past days (proactive), and without estimates too (reactive).

Jobs of the model in `tests/support/autoscaling` run under each policy, minute by minute, with the same input, noise and
hosts: `--series` jobs on departures from New York, and for each synthetic kind two jobs, of 3 and 10 tasks at their
peak, for eight days (no more than `--days`; a stop of five days needs all eight). All policies start from what the
first hour needs, may have 32 tasks, and change jobs by Penstock's own rescale, at its cost.

`slo_minutes_missed`: minutes in which the newest row of the worst task has to wait for more than 90 s; a job that its
owner has stopped misses none. `resource_hours`: hours of tasks, of one core each. `wrong_way_actions`: see
`tests/support/autoscaling/score.py`. `model_error`: the model is fitted on recorded real runs and predicts the minutes
of others (`autoscaling_runs.json`, by `tests.support.autoscaling.record`); of each quantity the sum of the errors in
parts of the sum measured. `downtime_error` is the mean error of the modelled downtimes against the recorded ones.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench import autoscaling_plots
from tests.bench.report import finish, say
from tests.support.autoscaling.calibration import downtime_error
from tests.support.autoscaling.fitting import compare_minutes, errors, fit
from tests.support.autoscaling.flights import departures, flight_traces, flights
from tests.support.autoscaling.jobs import Job, job_for
from tests.support.autoscaling.policies import ABLATION, POLICIES
from tests.support.autoscaling.recording import read_recordings
from tests.support.autoscaling.run import Outcome, compare
from tests.support.autoscaling.score import Score, total
from tests.support.autoscaling.seen import NewPolicy
from tests.support.autoscaling.traces import KINDS, synthetic

SIZES = (3.0, 10.0)
SYNTHETIC_DAYS = 8
SERIES = 24
ALL = "all"
RUNS = Path(__file__).with_name("autoscaling_runs.json")


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=SERIES, help="how many series of departures")
    parser.add_argument("--days", type=int, default=21)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ablation", action="store_true", help="only Penstock, with less and less of what it has")
    parser.add_argument("--policies", help="only these, comma separated: the scores of a policy depend on no other")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="write plots of the figures; needs matplotlib")
    parser.add_argument(
        "--figures", type=Path, help="for the plots: the output of an earlier run, instead of a new one"
    )
    options = parser.parse_args()
    if options.plots is not None:
        autoscaling_plots.require()
    policies = ABLATION if options.ablation else POLICIES
    if options.policies:
        policies = {name: policies[name] for name in options.policies.split(",")}
    figures = (
        measure(options.series, options.days, options.seed, policies=policies)
        if options.figures is None
        else json.loads(options.figures.read_text().splitlines()[-1])
    )
    if options.plots is not None:
        autoscaling_plots.plot(options.plots, figures, tidal_job(options.days, options.seed), options.seed)
    finish(figures)


def tidal_job(days: int, seed: int) -> Job:
    """The largest job of the comparison on an airport: these have the smoothest days."""
    jobs = [job for job in _jobs(SERIES, days, seed, (), ()) if job.trace.kind == "airport"]
    return max(jobs, key=lambda job: float(job.trace.rate.max()))


def measure(
    series: int,
    days: int,
    seed: int,
    *,
    kinds: Sequence[str] = tuple(KINDS),
    sizes: Sequence[float] = SIZES,
    policies: Mapping[str, NewPolicy] = POLICIES,
) -> dict[str, Any]:
    """Compares the policies; the scores of all jobs together, by policy."""
    outcomes = list(compare(_jobs(series, days, seed, kinds, sizes), policies, seed))
    for kind in dict.fromkeys(one.kind for one in outcomes):
        _show(kind, scores([one for one in outcomes if one.kind == kind], policies))
    in_all = scores(outcomes, policies)
    _show(ALL, in_all)
    figures: dict[str, Any] = {policy: _rounded(score) for policy, score in in_all.items()}
    return figures | {"model_error": _model_error(), "downtime_error": downtime_error()}


def _model_error() -> dict[str, float]:
    recorded = read_recordings(RUNS)
    found = errors(compare_minutes(recorded["held_out"], fit(recorded["fit"])))
    return {quantity: round(error, 3) for quantity, error in found.items()}


def scores(outcomes: Sequence[Outcome], policies: Iterable[str]) -> dict[str, Score]:
    """The sum of the scores of each policy."""
    return {name: total(one.score for one in outcomes if one.policy == name) for name in policies}


def _jobs(series: int, days: int, seed: int, kinds: Sequence[str], sizes: Sequence[float]) -> list[Job]:
    rng = np.random.default_rng(seed)
    real = list(flight_traces(list(departures(flights())), series, days, rng)) if series else []
    made = list(synthetic(kinds, min(days, SYNTHETIC_DAYS), sizes, rng))
    return [job_for(trace, rng) for trace in (*real, *made)]


def _show(kind: str, by_policy: Mapping[str, Score]) -> None:
    say(f"\n{kind:18} SLO missed task-hours  GiB-hours  actions     down wrong way")
    for policy, score in by_policy.items():
        say(
            f"{policy:18} {score.slo_minutes_missed:10.0f} {score.resource_hours:10.0f} {score.memory_gib_hours:10.0f}"
            f" {score.actions:8d} {score.downtime_minutes:8.1f} {score.wrong_way_actions:9d}"
        )


def _rounded(score: Score) -> dict[str, float]:
    return {name: round(value, 1) for name, value in score._asdict().items()}


if __name__ == "__main__":
    main()
