"""What the Shard Manager asks of the job store about containers that are ill, and the form of that on Postgres."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

from sqlalchemy import Connection, Engine, func, select

from penstock.store import leases
from penstock.store.alerts import clear_alert, raise_alert
from penstock.store.availability import SHARD_MANAGER, set_availability
from penstock.store.cluster_tables import containers, tasks
from penstock.store.engine import transaction
from penstock.store.tables import alerts
from penstock.tasks.ownership import DRAINING, OPEN
from services.shard_manager.gray import Place
from services.shard_manager.ledger import CrashedTask
from services.shard_manager.store import LEASE

CONTAINER_FAILING = "container_failing"
CONTAINER_GRAY = "container_gray"
KINDS = (CONTAINER_FAILING, CONTAINER_GRAY)


class Illness(NamedTuple):
    """What is wrong with a container: a kind of alert, a sentence for people, and the figures."""

    kind: str
    container: str
    message: str
    details: Mapping[str, Any]


class HealthStore(Protocol):
    """Every call is whole or nothing and raises Unavailable; those with a leader epoch raise Fenced once a newer leader
    was elected."""

    def crashed(self) -> list[CrashedTask]:
        """The tasks that were not healthy since a crash when live containers last reported them."""
        ...

    def counts(self) -> dict[Place, int]:
        """How many tasks live containers last reported, by job and container."""
        ...

    def set_aside(self, illness: Illness, availability: str, *, before: str, most: int, leader_epoch: int) -> bool:
        """Makes a container that is `before` CORDONED, or DRAINING with a limit that is over, and raises the alert;
        whether it was done.

        Nothing is done when `most` other live containers are set aside by the Shard Manager already.
        """
        ...

    def settle_alerts(self, found: Collection[Illness], keep: Collection[str], leader_epoch: int) -> None:
        """Raises the alerts that are not open, and clears those of `KINDS` that were not found, but for the containers
        to `keep`."""
        ...


_REPORTED = tasks.join(containers, containers.c.name == tasks.c.container)
_IS_LIVE = containers.c.state == "live"


class PostgresHealthStore:
    """The port on Postgres."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def crashed(self) -> list[CrashedTask]:
        """See the port."""
        row = tasks.c
        found = select(row.job, row.index, row.container, row.crashes).select_from(_REPORTED)
        with transaction(self._engine) as connection:
            rows = connection.execute(found.where(_IS_LIVE, row.crashes > 0)).all()
        return [CrashedTask(*each) for each in rows]

    def counts(self) -> dict[Place, int]:
        """See the port."""
        place = tasks.c.job, tasks.c.container
        found = select(*place, func.count()).select_from(_REPORTED).where(_IS_LIVE).group_by(*place)
        with transaction(self._engine) as connection:
            return {(job, container): count for job, container, count in connection.execute(found).all()}

    def set_aside(self, illness: Illness, availability: str, *, before: str, most: int, leader_epoch: int) -> bool:
        """See the port."""
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            if _others_aside(connection, illness.container) >= most:
                return False
            is_drained = availability == DRAINING
            until = connection.execute(select(func.clock_timestamp())).scalar_one() if is_drained else None
            name, reason = illness.container, illness.message
            if not set_availability(connection, name, availability, reason=reason, drain_until=until, only_if=before):
                return False
            raise_alert(connection, illness.kind, name, illness.message, illness.details)
            return True

    def settle_alerts(self, found: Collection[Illness], keep: Collection[str], leader_epoch: int) -> None:
        """See the port."""
        is_open = (alerts.c.kind.in_(KINDS), alerts.c.cleared_at.is_(None))
        wanted = {(illness.kind, illness.container): illness for illness in found}
        with transaction(self._engine) as connection:
            leases.check_epoch(connection, LEASE, leader_epoch)
            known = {tuple(row) for row in connection.execute(select(alerts.c.kind, alerts.c.subject).where(*is_open))}
            for kind, subject in sorted(known - wanted.keys()):
                if subject not in keep:
                    clear_alert(connection, kind, subject)
            for key in sorted(wanted.keys() - known):
                raise_alert(connection, *key, wanted[key].message, wanted[key].details)


def _others_aside(connection: Connection, container: str) -> int:
    row = containers.c
    is_aside = (
        row.name != container,
        row.state == "live",
        row.availability != OPEN,
        row.availability_by == SHARD_MANAGER,
    )
    return connection.execute(select(func.count()).select_from(containers).where(*is_aside)).scalar_one()
