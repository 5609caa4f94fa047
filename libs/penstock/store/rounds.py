"""The newest round of each control loop: noted by its leader, watched by the others.

A leader that lives but whose rounds fail, one that is frozen, and a loop that nobody leads have one thing in common: no
good round for several periods. Whoever watches compares times of the store's clock alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlalchemy import Connection, Engine, text

from penstock.control.errors import PenstockError
from penstock.control.logs import logger
from penstock.control.loop import RoundEnd
from penstock.control.period import Period
from penstock.control.texts import clean
from penstock.model.alerts import AlertKind
from penstock.model.loops import LoopRound
from penstock.store import leases
from penstock.store.alerts import replace_alerts
from penstock.store.engine import transaction
from penstock.store.rows import columns, read_all

log = logger(__name__)
NOTE_SECONDS = 5.0
WATCH_SECONDS = 5.0
_SHOWN_CHARACTERS = 500

_NOTE = text(
    """
    INSERT INTO loop_rounds AS held (loop, epoch, period_seconds, ended_at, seconds, good_at, error)
    VALUES (:loop, :epoch, :period_seconds, clock_timestamp(), :seconds,
        CASE WHEN CAST(:error AS text) IS NULL THEN clock_timestamp() END, :error)
    ON CONFLICT (loop) DO UPDATE SET epoch = excluded.epoch, period_seconds = excluded.period_seconds,
        ended_at = excluded.ended_at, seconds = excluded.seconds,
        good_at = coalesce(excluded.good_at, held.good_at), error = excluded.error
    WHERE held.epoch <= excluded.epoch
    """
)


_READ = text(
    f"""
    SELECT {columns(LoopRound)} FROM (
        SELECT *, CAST(extract(epoch FROM clock_timestamp() - ended_at) AS double precision) AS age_seconds,
            CAST(extract(epoch FROM clock_timestamp() - good_at) AS double precision) AS good_age_seconds
        FROM loop_rounds
    ) AS noted ORDER BY loop
    """
)


class RoundNotes:
    """Notes the ends of a loop's rounds, at most every few seconds, and at once when they begin to fail or succeed."""

    def __init__(self, engine: Engine, loop: str, period_seconds: float, monotonic: Callable[[], float]) -> None:
        self._engine = engine
        self._values = {"loop": loop, "period_seconds": period_seconds}
        self._monotonic = monotonic
        self._noting = Period(NOTE_SECONDS)
        self._was_good: bool | None = None

    def note(self, end: RoundEnd) -> None:
        """Writes the end of a round. A failure is only logged: it shows as a round that is missing."""
        is_good, is_due = end.error is None, self._noting.is_due(self._monotonic())
        if is_good == self._was_good and not is_due:
            return
        error = None if end.error is None else clean(end.error)[:_SHOWN_CHARACTERS]
        try:
            with transaction(self._engine) as connection:
                connection.execute(_NOTE, {**self._values, "epoch": end.epoch, "seconds": end.seconds, "error": error})
        except PenstockError as failure:
            log.warning("round not noted", loop=self._values["loop"], error=failure.detail)
            return
        self._was_good = is_good
        self._noting.done()


def read_rounds(connection: Connection) -> list[LoopRound]:
    """The newest noted round of each loop, by name."""
    return read_all(connection, LoopRound, _READ)


class LoopWatch:
    """Raises and clears the alerts about loops without good rounds. Under the lease of a loop that is itself watched by
    another one; any number of loops may watch, since all judge by the same rows."""

    def __init__(self, engine: Engine, lease: str, monotonic: Callable[[], float]) -> None:
        self._engine = engine
        self._lease = lease
        self._monotonic = monotonic
        self._watching = Period(WATCH_SECONDS)

    def round(self, leader_epoch: int) -> bool:
        """One look, now and then. False: nothing must come soon. Raises Unavailable, Fenced."""
        if self._watching.is_due(self._monotonic()):
            with leases.fenced(self._engine, self._lease, leader_epoch) as connection:
                replace_alerts(connection, (AlertKind.LOOP_STALLED,), stalled_alerts(read_rounds(connection)))
            self._watching.done()
        return False


def stalled_alerts(rounds: Iterable[LoopRound]) -> dict[tuple[AlertKind, str], tuple[str, dict[str, float | None]]]:
    """The alerts about stalled loops. Pure."""
    return {
        (AlertKind.LOOP_STALLED, each.loop): (
            f"{each.loop} has had {each.trouble}",
            {"age_seconds": round(each.age_seconds, 1), "period_seconds": each.period_seconds},
        )
        for each in rounds
        if each.is_stalled
    }
