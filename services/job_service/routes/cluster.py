"""The cluster: shards, alerts, the field table, the layers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from penstock.config.tree import FIELD_TABLE
from penstock.control.errors import InvalidConfig
from penstock.model.jobs import LayerRow
from penstock.store import cluster
from penstock.store.engine import snapshot
from penstock.wire.jobs import Fields, FieldView, LayerAdd, LayerRowView, Layers
from penstock.wire.overview import AlertPage, ShardCount, ShardCountWrite, ShardPage
from services.job_service import access, requests
from services.job_service.answers import Answer, answer
from services.job_service.requests import CallOf, PageOf100, PageOf1000, PartsOf, PrincipalOf, respond
from services.job_service.store import layers as layer_rows
from services.job_service.store import overview

router = APIRouter(tags=["cluster"], route_class=requests.StrictRoute)
_RESERVED = "default"


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
def ask_for_shards(body: ShardCountWrite, call: CallOf) -> Response:
    """Requests another number of shards: a multiple or a divisor of the present one. The Shard Manager changes it
    while the tasks run. Before the first assignment any number is allowed."""
    access.require_role(call.principal, access.MAY_ADMINISTER)

    def work(connection: Connection) -> Answer:
        return answer(200, ShardCount(**_counts(cluster.ask_for_shards(connection, body.shard_count))))

    return respond(call.run(work))


def _counts(facts: cluster.ShardingFacts) -> dict[str, int]:
    return {"shard_count": facts.sharding.count, "wanted_shard_count": facts.wanted}


@router.get("/v1/alerts", response_model=AlertPage)
def list_alerts(
    parts: PartsOf,
    page: PageOf100,
    kind: requests.OptionalText = None,
    subject: requests.OptionalText = None,
    include_cleared: bool = False,
) -> AlertPage:
    """Open alerts, newest first; cleared ones when asked for."""
    asked: dict[str, Any] = {"limit": page.limit, "before_id": page.after_number()}
    with snapshot(parts.engine) as connection:
        rows = overview.alerts_page(connection, include_cleared=include_cleared, kind=kind, subject=subject, **asked)
    return AlertPage(alerts=rows, next=page.next(rows, lambda row: row.id))


@router.get("/v1/fields", response_model=Fields)
def list_fields(_: PrincipalOf) -> Fields:
    """The field table: type, unit, default, documentation, which layers may set it, and its change kind."""
    return Fields(fields=[FieldView(**row.as_json()) for row in FIELD_TABLE])


@router.get("/v1/layers", response_model=Layers)
def list_layers(parts: PartsOf) -> Layers:
    """The layers, lowest first."""
    with snapshot(parts.engine) as connection:
        rows = layer_rows.all_layers(connection).values()
    return Layers(layers=[LayerRowView.model_validate(row) for row in rows])


@router.post("/v1/layers", response_model=LayerRowView, status_code=201)
def add_layer(body: LayerAdd, call: CallOf) -> Response:
    """Adds a layer."""
    access.require_role(call.principal, access.MAY_ADMINISTER)
    if body.name == _RESERVED:
        raise InvalidConfig(
            "the name `default` is reserved: it stands for values that no layer sets", field="name", rule="reserved"
        )
    row = LayerRow(body.name, body.rank, body.default_expiry_seconds, body.documentation)

    def work(connection: Connection) -> Answer:
        layer_rows.add(connection, row)
        return answer(201, LayerRowView.model_validate(row))

    return respond(call.run(work))
