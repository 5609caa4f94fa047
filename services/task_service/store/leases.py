"""Lease rows that the Task Service renews for containers, by the rules of `penstock.store.shards`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Engine

from penstock.control.errors import LeaseLost
from penstock.store.engine import transaction
from penstock.store.shards import adopt_own_lease, renew_leases, renew_own_lease
from penstock.wire.cluster import LeaseAnswer, LeaseRequest

_LOST = LeaseAnswer(known=False)


def renew_all(engine: Engine, requests: Sequence[LeaseRequest]) -> list[LeaseAnswer]:
    """Renews many leases in one transaction; the answers in the order of the requests. Raises what `transaction`
    raises."""
    with transaction(engine) as connection:
        renewed = renew_leases(connection, [(each.container, each.incarnation) for each in requests])
    found = (renewed.get((each.container, each.incarnation)) for each in requests)
    return [_LOST if owned is None else LeaseAnswer.of(owned) for owned in found]


def answer_one(engine: Engine, request: LeaseRequest) -> LeaseAnswer:
    """Renews a lease, or has a restarted container adopt it, in a transaction of its own. Raises what `transaction`
    raises."""
    container, former, incarnation = request.container, request.former, request.incarnation
    try:
        with transaction(engine) as connection:
            if former is None:
                return LeaseAnswer.of(renew_own_lease(connection, container, incarnation))
            return LeaseAnswer.of(adopt_own_lease(connection, container, former, incarnation))
    except LeaseLost:
        return _LOST
