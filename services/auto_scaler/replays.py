"""Replays that somebody asks for: from a request to figures. One at a time, so that rounds keep most of the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import ValidationError

from penstock.config.problems import PYDANTIC_RULES
from penstock.control.errors import InvalidConfig, NotFound, Unavailable
from penstock.model.job_metrics import MINUTE, minute_of
from penstock.wire.replays import BUSY, HAS_NO_TASKS, ReplayCall, ReplayRequest, ReplayTotals, ReplayView
from services.auto_scaler.decide.policy import Mode, Policy
from services.auto_scaler.replay import replay
from services.auto_scaler.replay.recorded import USUAL_COST, RecordedJob
from services.auto_scaler.replay.replay import GoOn
from services.auto_scaler.store.port import ScalingStore

MOST_DAYS = 14
MOST_SECONDS = 60.0
"""Of a replay in this process, which has rounds to do beside it."""
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)


class Replays:
    """Answers replays from the store. `policy`: the one in force. Safe from any thread."""

    def __init__(
        self,
        store: ScalingStore,
        now: Callable[[], datetime],
        policy: Policy,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._now = now
        self._policy = policy
        self._monotonic = monotonic
        self._one_at_a_time = threading.Lock()

    def replay(self, call: ReplayCall) -> ReplayView:
        """Raises InvalidConfig for a policy or times that break a rule or take too long, NotFound, and Unavailable
        while another replay is under way."""
        policy = read_policy(call.request.policy)
        since, until = read_times(call.request, self._now())
        if not self._one_at_a_time.acquire(blocking=False):
            raise Unavailable(BUSY)
        go_on = self._until(self._monotonic() + MOST_SECONDS)
        try:
            recorded, notes = self._read(call.job, since, until, max(policy.history_days, self._policy.history_days))
            return _view(recorded, since, until, self._policy, policy, notes, go_on)
        finally:
            self._one_at_a_time.release()

    def _until(self, deadline: float) -> GoOn:
        def check() -> None:
            if self._monotonic() > deadline:
                raise InvalidConfig(
                    f"the replay takes more than {MOST_SECONDS:g} s, and was ended: take a shorter time, or fewer "
                    "load_minutes, rate_minutes and history_days in the policy",
                    field="since",
                    rule="most_seconds",
                )

        return check

    def _read(self, job: str, since: datetime, until: datetime, days: int) -> tuple[RecordedJob, list[str]]:
        found = self._store.recorded(job, since - timedelta(days=days), since, until, self._policy)
        if found is None:
            raise NotFound(f"{job} has no tasks now, so nothing of it is replayed", field="job", rule=HAS_NO_TASKS)
        return found.job, ["only the first decisions of the time are compared"] if found.is_cut else []


def read_policy(given: Mapping[str, Any]) -> Policy:
    """Raises InvalidConfig with the first field that breaks a rule."""
    try:
        return Policy.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(["policy", *map(str, first["loc"])])
        rule = PYDANTIC_RULES.get(first["type"], first["type"])
        raise InvalidConfig(f"{field}: {first['msg']}", field=field, rule=rule) from error


def read_times(request: ReplayRequest, now: datetime) -> tuple[datetime, datetime]:
    """Whole minutes, the second not included. Raises InvalidConfig."""
    for field, moment in (("since", request.since), ("until", request.until)):
        if moment is not None and not _EARLIEST <= moment <= now + timedelta(days=1):
            raise InvalidConfig(f"{field} must lie between the year 2000 and now", field=field, rule="not_in_future")
    until = min(minute_of(now), minute_of(request.until or now))
    since = minute_of(request.since or until - timedelta(days=1))
    if since >= until:
        raise InvalidConfig("since must lie before until and before now", field="since", rule="before_until")
    if until - since > timedelta(days=MOST_DAYS):
        raise InvalidConfig(f"since may lie at most {MOST_DAYS} days before until", field="since", rule="most_days")
    return since, until


def _view(
    recorded: RecordedJob,
    since: datetime,
    until: datetime,
    in_force: Policy,
    proposed: Policy,
    notes: list[str],
    go_on: GoOn,
) -> ReplayView:
    compared = replay.compare_decisions(recorded, proposed, go_on)
    minutes, known = (until - since) // MINUTE, replay.known_minutes(recorded)
    return ReplayView(
        job=recorded.job,
        since=since,
        until=until,
        minutes=minutes,
        minutes_known=known,
        measured=_totals(replay.measured(recorded)),
        model_of_measured=_totals(replay.model_of_what_ran(recorded, go_on)),
        in_force=_totals(replay.model_of(recorded, in_force, go_on)),
        proposed=_totals(replay.model_of(recorded, proposed, go_on)),
        decisions=len(recorded.decisions),
        decisions_otherwise=compared.otherwise,
        notes=[*notes, *_notes(recorded, minutes - known, minutes, compared, in_force)],
    )


def _totals(found: replay.Totals) -> ReplayTotals:
    return ReplayTotals(**found._replace(task_hours=round(found.task_hours, 2))._asdict())


def _notes(recorded: RecordedJob, unknown: int, minutes: int, compared: replay.Compared, in_force: Policy) -> list[str]:
    not_understood = len(recorded.decisions) - compared.understood
    found = {
        f"{unknown} of {minutes} minutes are not known and do not count": unknown > 0,
        f"{not_understood} decisions were stored by another release, and are not compared": not_understood > 0,
        "no decision of this time is stored: limits and layers are those of now": not recorded.decisions,
        f"the job was never rescaled: a change is taken to stop it for {USUAL_COST.down_seconds:g} s": (
            recorded.cost is None
        ),
        "the policy in force only advises, so it changes nothing": in_force.mode is Mode.ADVISE,
    }
    return [note for note, holds in found.items() if holds]
