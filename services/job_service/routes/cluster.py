"""The cluster: shards and the field table."""

from __future__ import annotations

from fastapi import Response
from sqlalchemy import Connection

from penstock.config.tree import FIELD_TABLE
from penstock.model.cell import CELL, CellAction, CellEntry
from penstock.store import cluster
from penstock.store.cell_history import record
from penstock.store.engine import snapshot
from penstock.wire.jobs import Fields, FieldView
from penstock.wire.overview import ShardCount, ShardCountWrite, ShardPage
from services.job_service import access, requests
from services.job_service.answers import Answer, answer
from services.job_service.requests import CallOf, PageOf1000, PartsOf, PrincipalOf, respond
from services.job_service.store import overview

router = requests.router_of("cluster")


@router.get("/v1/shards", response_model=ShardPage)
def list_shards(parts: PartsOf, page: PageOf1000, container: requests.OptionalText = None) -> ShardPage:
    """Shards by number with their owners; of one container when it is given."""
    after = page.after_number()
    with snapshot(parts.engine) as connection:
        rows = overview.shards_page(
            connection, limit=page.limit, after=-1 if after is None else after, container=container
        )
        facts = cluster.read_facts(connection)
    return ShardPage(**_counts(facts), shards=list(rows), next=page.next(rows, lambda row: row.shard))


@router.put("/v1/shards", response_model=ShardCount)
@requests.needs(access.of_role(access.MAY_ADMINISTER))
def ask_for_shards(body: ShardCountWrite, call: CallOf) -> Response:
    """Requests another number of shards: a multiple or a divisor of the present one. The Shard Manager changes it
    while the tasks run. Before the first assignment any number is allowed."""

    def work(connection: Connection) -> Answer:
        before = _counts(cluster.read_facts(connection, hold=True))
        after = _counts(cluster.ask_for_shards(connection, body.shard_count))
        entry = CellEntry(call.author, CellAction.SHARD_COUNT_ASKED, CELL, body.reason, old=before, new=after)
        record(connection, entry)
        return answer(200, ShardCount(**after))

    return respond(call.run(work))


def _counts(facts: cluster.ShardingFacts) -> dict[str, int]:
    return {"shard_count": facts.sharding.count, "wanted_shard_count": facts.wanted}


@router.get("/v1/fields", response_model=Fields)
def list_fields(_: PrincipalOf) -> Fields:
    """The field table: type, unit, default, documentation, which layers may set it, and its change kind."""
    return Fields(fields=[FieldView(**row.as_json()) for row in FIELD_TABLE])
