"""The cluster: shards, alerts, the field table, the layers."""

from __future__ import annotations

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from penstock.config.tree import FIELD_TABLE
from penstock.control.errors import InvalidConfig
from penstock.model.jobs import LayerRow
from penstock.store import cluster
from penstock.store.engine import snapshot
from penstock.wire.jobs import Fields, FieldView, LayerAdd, LayerRowView, Layers
from penstock.wire.overview import AlertPage, ShardCount, ShardCountWrite, ShardPage
from services.job_service import access, cursors, requests, views
from services.job_service.answers import Answer
from services.job_service.requests import CallerOf, PartsOf, PrincipalOf, respond
from services.job_service.store import layers as layer_rows
from services.job_service.store import overview

router = APIRouter(tags=["cluster"], route_class=requests.StrictRoute)
_RESERVED = "default"


@router.get("/v1/shards", response_model=ShardPage)
def list_shards(
    parts: PartsOf,
    _: PrincipalOf,
    container: requests.OptionalText = None,
    cursor: requests.Cursor = None,
    limit: requests.Limit = 1000,
) -> ShardPage:
    """Shards by number with their owners; of one container when it is given."""
    after = cursors.decode_number(cursor)
    with snapshot(parts.engine) as connection:
        rows = overview.shards_page(connection, limit=limit, after=-1 if after is None else after, container=container)
        facts = cluster.read_facts(connection)
    following = cursors.next_cursor(rows, limit, lambda row: row.shard)
    return ShardPage(**_counts(facts), shards=list(rows), next=following)


@router.put("/v1/shards", response_model=ShardCount)
def ask_for_shards(body: ShardCountWrite, parts: PartsOf, caller: CallerOf) -> Response:
    """Requests another number of shards: a multiple or a divisor of the present one. The Shard Manager changes it
    while the tasks run. Before the first assignment any number is allowed."""
    access.require_role(caller.principal, access.MAY_ADMINISTER)

    def work(connection: Connection) -> Answer:
        return Answer(200, _counts(cluster.ask_for_shards(connection, body.shard_count)))

    return respond(parts.writer.run(caller, work))


def _counts(facts: cluster.ShardingFacts) -> dict[str, int]:
    return {"shard_count": facts.sharding.count, "wanted_shard_count": facts.wanted}


@router.get("/v1/alerts", response_model=AlertPage)
def list_alerts(
    parts: PartsOf,
    _: PrincipalOf,
    kind: requests.OptionalText = None,
    subject: requests.OptionalText = None,
    include_cleared: bool = False,
    cursor: requests.Cursor = None,
    limit: requests.Limit = 100,
) -> AlertPage:
    """Open alerts, newest first; cleared ones when asked for."""
    before_id = cursors.decode_number(cursor)
    with snapshot(parts.engine) as connection:
        rows = overview.alerts_page(
            connection,
            limit=limit,
            before_id=before_id,
            include_cleared=include_cleared,
            kind=kind,
            subject=subject,
        )
    return AlertPage(alerts=rows, next=cursors.next_cursor(rows, limit, lambda row: row.id))


@router.get("/v1/fields", response_model=Fields)
def list_fields(_: PrincipalOf) -> Fields:
    """The field table: type, unit, default, documentation, which layers may set it, and its change kind."""
    return Fields(fields=[FieldView(**row.as_json()) for row in FIELD_TABLE])


@router.get("/v1/layers", response_model=Layers)
def list_layers(parts: PartsOf, _: PrincipalOf) -> Layers:
    """The layers, lowest first."""
    with snapshot(parts.engine) as connection:
        rows = layer_rows.all_layers(connection).values()
    return Layers(layers=[views.view_of(LayerRowView, row) for row in rows])


@router.post("/v1/layers", response_model=LayerRowView, status_code=201)
def add_layer(body: LayerAdd, parts: PartsOf, caller: CallerOf) -> Response:
    """Adds a layer."""
    access.require_role(caller.principal, access.MAY_ADMINISTER)
    if body.name == _RESERVED:
        raise InvalidConfig(
            "the name `default` is reserved: it stands for values that no layer sets", field="name", rule="reserved"
        )
    row = LayerRow(body.name, body.rank, body.default_expiry_seconds, body.documentation)

    def work(connection: Connection) -> Answer:
        layer_rows.add(connection, row)
        return Answer(201, views.view_of(LayerRowView, row).model_dump(mode="json"))

    return respond(parts.writer.run(caller, work))
