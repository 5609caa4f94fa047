"""Commands about the cell: the leaders of its loops, its history, its layers."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.arguments import AsJson, Layer, Reason
from penstock.cli.connection import client, say_more
from penstock.cli.output import changes, moment, say, show_json, span, table
from penstock.cli.parse import duration_seconds
from penstock.wire.layers import LayerAdd, LayerChange, LayerRowView, Layers
from penstock.wire.overview import Leaders

Rank = Annotated[int, typer.Option(help="a layer of a higher rank overrides lower ones")]
DefaultExpiry = Annotated[
    str, typer.Option("--default-expiry", help="when writes to it expire unless they say: 30m, 2h, 1d, never")
]
Documentation = Annotated[str, typer.Option(help="what the layer is for")]
_NEVER = "never"


def leaders(as_json: AsJson = False) -> None:
    """List the leader of each loop: its address, its epoch, since when it leads, when its lease ends.

    A leader's epoch is the time of its election, in microseconds.
    """
    found = client().leaders()
    if as_json:
        return show_json(Leaders(leaders=found))
    rows = [
        (
            each.loop,
            each.holder if each.expires_in_seconds > 0 else "nobody",
            each.url,
            each.epoch,
            "unknown" if each.leads_for_seconds is None else span(each.leads_for_seconds),
            span(each.expires_in_seconds) if each.expires_in_seconds > 0 else "-",
        )
        for each in found
    ]
    return table(("loop", "leader", "address", "epoch", "since", "lease ends in"), rows)


def cell_history(as_json: AsJson, subject: str | None = None) -> None:
    """Shows the history of the cell."""
    page = client().cell_history(subject=subject)
    if as_json:
        return show_json(page)
    rows = [
        (moment(e.at), e.action, e.subject, e.author, e.reason, "\n".join(changes(e.old, e.new))) for e in page.entries
    ]
    table(("when", "action", "subject", "author", "reason", "changes"), rows)
    return say_more(page.next)


def layers(as_json: AsJson = False) -> None:
    """List the layers of the cell, lowest first."""
    found = client().layers()
    if as_json:
        return show_json(Layers(layers=found))
    rows = [(each.name, each.rank, _expiry(each), each.documentation) for each in found]
    return table(("layer", "rank", "default expiry", "documentation"), rows)


def add_layer(
    layer: Layer,
    rank: Rank,
    default_expiry: DefaultExpiry = _NEVER,
    documentation: Documentation = "",
    reason: Reason = "",
) -> None:
    """Add a layer to the cell."""
    seconds = None if default_expiry == _NEVER else duration_seconds(default_expiry, field="default_expiry")
    given = LayerAdd(name=layer, rank=rank, default_expiry_seconds=seconds, documentation=documentation, reason=reason)
    _say(client().add_layer(given))


def change_layer(
    layer: Layer,
    rank: Annotated[int | None, typer.Option(help="its new rank; default: as it is")] = None,
    default_expiry: Annotated[
        str | None, typer.Option("--default-expiry", help="30m, 2h, 1d, never; default: as it is")
    ] = None,
    documentation: Annotated[str | None, typer.Option(help="what the layer is for; default: as it is")] = None,
    reason: Reason = "",
) -> None:
    """Change a layer of the cell. A rank is refused that would change the configuration of a job."""
    connection = client()
    present = next((each for each in connection.layers() if each.name == layer), None)
    before = present or LayerRowView(name=layer, rank=0, default_expiry_seconds=None, documentation="")
    if default_expiry is None:
        seconds = before.default_expiry_seconds
    else:
        seconds = None if default_expiry == _NEVER else duration_seconds(default_expiry, field="default_expiry")
    change = LayerChange(
        rank=before.rank if rank is None else rank,
        default_expiry_seconds=seconds,
        documentation=before.documentation if documentation is None else documentation,
        reason=reason,
    )
    _say(connection.change_layer(layer, change))


def remove_layer(layer: Layer, reason: Reason = "") -> None:
    """Remove a layer from the cell. Refused while a job has something in it."""
    client().remove_layer(layer, reason=reason)
    say(f"removed {layer}")


def _say(row: LayerRowView) -> None:
    say(f"{row.name}: rank {row.rank}, default expiry {_expiry(row)}")


def _expiry(row: LayerRowView) -> str:
    return _NEVER if row.default_expiry_seconds is None else span(row.default_expiry_seconds)
