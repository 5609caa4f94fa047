"""The cell: its layers, the leaders of its loops, its history."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import Response
from sqlalchemy import Connection

from penstock.control.errors import InvalidConfig
from penstock.model.cell import CellAction, CellEntry
from penstock.model.jobs import LayerRow
from penstock.store.cell_history import record
from penstock.store.engine import snapshot
from penstock.wire.cell_history import CellHistoryPage
from penstock.wire.layers import LayerAdd, LayerChange, LayerRowView, Layers
from penstock.wire.overview import Leaders
from services.job_service import access, cell_layers, requests
from services.job_service.answers import Answer, answer
from services.job_service.requests import CallOf, LayerName, PageOf100, PartsOf, respond
from services.job_service.store import history, overview
from services.job_service.store import layers as layer_rows

router = requests.router_of("cluster")
_RESERVED = "default"


@router.get("/v1/layers", response_model=Layers)
def list_layers(parts: PartsOf) -> Layers:
    """The layers, lowest first."""
    with snapshot(parts.engine) as connection:
        rows = layer_rows.all_layers(connection).values()
    return Layers(layers=[LayerRowView.model_validate(row) for row in rows])


@router.post("/v1/layers", response_model=LayerRowView, status_code=201)
@requests.needs(access.of_role(access.MAY_ADMINISTER))
def add_layer(body: LayerAdd, call: CallOf) -> Response:
    """Adds a layer."""
    if body.name == _RESERVED:
        raise InvalidConfig(
            "the name `default` is reserved: it stands for values that no layer sets", field="name", rule="reserved"
        )
    row = LayerRow(body.name, body.rank, body.default_expiry_seconds, body.documentation)

    def work(connection: Connection) -> Answer:
        layer_rows.add(connection, row)
        record(connection, CellEntry(call.author, CellAction.LAYER_ADDED, row.name, body.reason, new=asdict(row)))
        return answer(201, LayerRowView.model_validate(row))

    return respond(call.run(work))


@router.put("/v1/layers/{layer}", response_model=LayerRowView)
@requests.needs(access.of_role(access.MAY_ADMINISTER))
def change_layer(layer: LayerName, body: LayerChange, call: CallOf) -> Response:
    """Changes rank, default expiry and documentation of a layer. 409 for a rank that would change what the layers of
    some job merge to. A new default expiry counts for later writes. May be repeated."""
    after = LayerRow(layer, body.rank, body.default_expiry_seconds, body.documentation)

    def work(connection: Connection) -> Answer:
        layer_rows.hold(connection)
        layers = layer_rows.all_layers(connection)
        overtaken = cell_layers.require_changeable(layers, after)
        if overtaken:
            users = layer_rows.users(connection, layer, besides=overtaken)
            cell_layers.require_same_merges(layer, overtaken, users)
        before = layers[layer]
        if before != after:
            layer_rows.change(connection, after)
            sides = {"old": asdict(before), "new": asdict(after)}
            record(connection, CellEntry(call.author, CellAction.LAYER_CHANGED, layer, body.reason, **sides))
        return answer(200, LayerRowView.model_validate(after))

    return respond(call.run(work))


@router.delete("/v1/layers/{layer}", status_code=204, response_class=Response)
@requests.needs(access.of_role(access.MAY_ADMINISTER))
def remove_layer(layer: LayerName, call: CallOf, reason: requests.Text = "") -> Response:
    """Removes a layer. 409 while a job has something in it, and for the layers that the services write."""

    def work(connection: Connection) -> Answer:
        layer_rows.hold(connection)
        row = cell_layers.require_removable(layer_rows.all_layers(connection), layer)
        cell_layers.require_unused(layer, layer_rows.users(connection, layer))
        layer_rows.remove(connection, layer)
        record(connection, CellEntry(call.author, CellAction.LAYER_DROPPED, layer, reason, old=asdict(row)))
        return Answer(204, None)

    return respond(call.run(work))


@router.get("/v1/leaders", response_model=Leaders)
def list_leaders(parts: PartsOf) -> Leaders:
    """The leader of each loop, and the last one of a loop without a leader."""
    with snapshot(parts.engine) as connection:
        return Leaders(leaders=overview.leaders(connection))


@router.get("/v1/history", response_model=CellHistoryPage)
def cell_history(
    parts: PartsOf, page: PageOf100, action: CellAction | None = None, subject: requests.OptionalText = None
) -> CellHistoryPage:
    """What was done to the cell that is no write to a job, newest first: tokens, layers, containers, shards, alerts."""
    before = page.after_number()
    with snapshot(parts.engine) as connection:
        rows = history.cell_page(connection, limit=page.limit, before_id=before, action=action, subject=subject)
    return CellHistoryPage(entries=rows, next=page.next(rows, lambda row: row.id))
