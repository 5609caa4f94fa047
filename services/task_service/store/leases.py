"""Lease rows that the Task Service renews for containers, by the rules of `penstock.store.shards`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Engine

from penstock.control.errors import LeaseLost
from penstock.store.engine import transaction
from penstock.store.shards import Life, adopt_own_lease, renew_leases
from penstock.tasks.ownership import OwnedShards
from penstock.wire.cluster import LeaseAnswer, LeaseRequest

_LOST = LeaseAnswer(known=False)


def answer_all(engine: Engine, requests: Sequence[LeaseRequest]) -> list[LeaseAnswer]:
    """The answers in the order of the requests. Renewals are one transaction, each adoption is one of its own, since it
    changes epochs. Raises Unavailable."""
    renewed: dict[Life, OwnedShards] = {}
    if renewals := [(each.container, each.incarnation) for each in requests if each.former is None]:
        with transaction(engine) as connection:
            renewed = renew_leases(connection, renewals)
    return [
        _renewal(renewed.get((each.container, each.incarnation)))
        if each.former is None
        else _adoption(engine, each, each.former)
        for each in requests
    ]


def _renewal(owned: OwnedShards | None) -> LeaseAnswer:
    return _LOST if owned is None else LeaseAnswer.of(owned)


def _adoption(engine: Engine, request: LeaseRequest, former: str) -> LeaseAnswer:
    try:
        with transaction(engine) as connection:
            return LeaseAnswer.of(adopt_own_lease(connection, request.container, former, request.incarnation))
    except LeaseLost:
        return _LOST
