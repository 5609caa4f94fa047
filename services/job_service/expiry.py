"""Removes what has expired, by ordinary recorded writes; a loop with a leader.

A removal that would leave the job with an invalid configuration, or meet what other jobs do now, is not made: the layer
stays, with an alert, until another write makes the removal possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, Engine

from penstock.control.clock import Clock
from penstock.control.errors import UserError
from penstock.control.logs import logger
from penstock.control.period import Period
from penstock.control.steps import run_each
from penstock.model.alerts import AlertKind
from penstock.model.jobs import Action
from penstock.model.tokens import ending_admin
from penstock.store import alerts, leases, tokens
from penstock.store.engine import transaction
from penstock.store.rounds import LoopWatch
from services.job_service.store import idempotency
from services.job_service.store.expiries import Due, due
from services.job_service.writer import write_many
from services.job_service.writes import Write

log = logger(__name__)
LOOP = "job_service.expiry"
AUTHOR = "job_service"
TOKENS = "tokens"
_MOST_AT_ONCE = 500
_SWEEP_SECONDS = 60.0
# Another job may have made room meanwhile.
_AGAIN_SECONDS = 60.0


class _Refusal(NamedTuple):
    """Of a removal: the job's revision, and why."""

    revision: int
    why: str


class Expiry:
    """The loop's round."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        *,
        answers_kept: timedelta,
        admin_warning: timedelta,
        path_roots: Sequence[str] = (),
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._answers_kept = answers_kept
        self._admin_warning = admin_warning
        self._path_roots = path_roots
        self._blocked: dict[str, _Refusal] = {}
        self._sweeping = Period(_SWEEP_SECONDS)
        self._trying_again = Period(_AGAIN_SECONDS)
        self._watch = LoopWatch(engine, LOOP, clock.monotonic)

    def round(self, leader_epoch: int) -> None:
        """Drops the layers that are due, and answers that were kept long enough. Warns before the last admin
        token ends. Looks whether other loops have their rounds. Each also when another fails. Raises Fenced,
        Unavailable."""
        run_each((self._drop_due, self._watch.round, self._sweep), leader_epoch)

    def _drop_due(self, leader_epoch: int) -> None:
        with transaction(self._engine) as connection:
            found = due(connection, self._clock.now())
            _clear_settled(connection, {_subject(layer) for layer in found})
        # A removal that was refused is mostly refused again while nobody writes to the job.
        again = self._trying_again.is_due(self._clock.monotonic())
        waiting = [layer for layer in found if again or not self._is_refused(layer)]
        for start in range(0, len(waiting), _MOST_AT_ONCE):
            self._drop(leader_epoch, waiting[start : start + _MOST_AT_ONCE])
        if again:
            self._trying_again.done()

    def _is_refused(self, layer: Due) -> bool:
        refusal = self._blocked.get(_subject(layer))
        return refusal is not None and refusal.revision == layer.revision

    def _drop(self, leader_epoch: int, layers: Sequence[Due]) -> None:
        writes = [_write(layer) for layer in layers]
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LOOP, leader_epoch)
            outcomes = write_many(connection, writes, self._clock, self._clock.monotonic(), self._path_roots)
            for layer, outcome in zip(layers, outcomes, strict=True):
                if isinstance(outcome, UserError) and self._blocked.get(_subject(layer)) != _refusal(layer, outcome):
                    _warn(connection, layer, outcome)
        # Only now, since a transaction that fails leaves no alert.
        for layer, outcome in zip(layers, outcomes, strict=True):
            if isinstance(outcome, UserError):
                self._blocked[_subject(layer)] = _refusal(layer, outcome)
            else:
                self._blocked.pop(_subject(layer), None)

    def _sweep(self, _: int) -> None:
        if not self._sweeping.is_due(self._clock.monotonic()):
            return
        with transaction(self._engine) as connection:
            idempotency.forget_older_than(connection, self._answers_kept)
            self._warn_of_the_last_admin(connection)
        self._sweeping.done()

    def _warn_of_the_last_admin(self, connection: Connection) -> None:
        kind = AlertKind.ADMIN_TOKEN_ENDING
        warning = ending_admin(tokens.all_tokens(connection), self._clock.now(), self._admin_warning)
        details = {} if warning is None else {"token": warning.name, "expires_at": _shown(warning.expires_at)}
        found = {} if warning is None else {(kind, TOKENS): (warning.message, details)}
        alerts.replace_alerts(connection, [kind], found, refresh=True)


def _subject(layer: Due) -> str:
    return f"{layer.job}/{layer.layer}"


def _refusal(layer: Due, refused: UserError) -> _Refusal:
    return _Refusal(layer.revision, refused.detail)


def _warn(connection: Connection, layer: Due, refused: UserError) -> None:
    details = {"field": refused.field, "rule": refused.rule}
    message = f"cannot be dropped though expired: {refused.detail}"
    alerts.raise_alert(connection, AlertKind.EXPIRY_BLOCKED, _subject(layer), message, details)
    log.warning("expired layer not dropped", job=layer.job, layer=layer.layer, error=refused.detail)


def _clear_settled(connection: Connection, due_subjects: set[str]) -> None:
    """Closes the alerts of layers that were dropped, renewed or forgotten, by whomever."""
    kind = AlertKind.EXPIRY_BLOCKED
    alerts.clear_alerts(connection, kind, alerts.open_subjects(connection, kind) - due_subjects)


def _write(layer: Due) -> Write:
    reason = f"expired: {layer.reason}" if layer.reason else "expired"
    return Write(Action.EXPIRE, layer.job, AUTHOR, layer.layer, reason=reason[:2000])


def _shown(at: datetime | None) -> str | None:
    """As it is in the store's JSON, so that an alert that stays the same is not raised again."""
    return None if at is None else at.isoformat()
