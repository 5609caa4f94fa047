"""`penstock why`: what is wrong with a job, also with a healthy one that has late rows."""

from __future__ import annotations

from penstock.cli.arguments import AsJson, Job
from penstock.cli.connection import client
from penstock.cli.output import say, show_json
from penstock.model.states import Health
from penstock.wire.causes import Causes


def why(job: Job, as_json: AsJson = False) -> None:
    """Say what is wrong with a job: causes with what shows them, the likeliest first."""
    found = client().causes(job)
    if as_json:
        return show_json(found)
    reason = found.reason.partition("\n")[0]
    say(f"{job} is {found.health}" + (f": {reason}" if reason else ""), style="bold")
    for number, cause in enumerate(found.causes, start=1):
        say(f"{number}. {cause.summary} ({cause.kind}, {cause.certainty})")
        for told in cause.evidence:
            say(f"   - {told}")
        say(f"   to do: {cause.advice}")
    for alert in found.open_alerts:
        say(alert)
    if found.open_alerts:
        say("to do: services/ALERTS.md has what to do for each kind; `penstock alerts` lists them")
    return None if found.causes or found.open_alerts else say(_nothing(found))


def _nothing(found: Causes) -> str:
    if found.health in (Health.HEALTHY, Health.STARTING):
        return "nothing is wrong with it, as far as is known"
    return f"no cause is known: read `penstock tasks {found.job}` and `penstock logs {found.job}`"
