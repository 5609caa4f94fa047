"""A plan for which Spark has to be asked: again while a host that starts does not answer, and the exit code then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import typer

from penstock.cli.bar import shown
from penstock.cli.errors import Exit
from penstock.cli.output import note, span
from penstock.wire.jobs import AnalysisView, PlanView

WITHIN = "3m"
_LATE = "the first analysis on a cold host may take minutes: ask again, or for longer with `--within 10m`"
_NOBODY = "`penstock status` and `penstock containers` say what is not well"


def asked_until_answered(ask: Callable[[], PlanView], within_seconds: float) -> PlanView:
    """The plan, asked again while no host has answered in time: meanwhile the host warms up."""
    until = time.monotonic() + within_seconds
    with shown("Spark analyses the job"):
        answer = ask()
        if _is_late(answer.analysis) and time.monotonic() < until:
            note(f"no host has analysed the job yet: it may be starting. Asking again for up to {span(within_seconds)}")
        while _is_late(answer.analysis) and time.monotonic() < until:
            answer = ask()
    return answer


def end_unless_done(answer: PlanView) -> None:
    """Ends with the exit code of a plan that is not allowed, or that nobody has checked."""
    if code := exit_of(answer):
        raise typer.Exit(code)


def exit_of(answer: PlanView) -> Exit:
    """A write that nobody has checked is neither refused nor known to be right."""
    if not answer.allowed:
        return Exit.REFUSED
    is_checked = answer.analysis is None or answer.analysis.made
    return Exit.DONE if is_checked else Exit.UNVERIFIED


def unverified_outcome(analysis: AnalysisView) -> Iterator[str]:
    """Why a job is not verified, and what to do."""
    yield f"not verified by Spark: {analysis.why or 'no host could be asked'}"
    if not analysis.made:
        yield f"  to do: {_LATE if analysis.late else _NOBODY}"


def _is_late(analysis: AnalysisView | None) -> bool:
    return analysis is not None and analysis.late
