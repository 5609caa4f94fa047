"""Requests about the layers of the cell, and their answers."""

from __future__ import annotations

from pydantic import Field

from penstock.config.declare import Name
from penstock.wire.jobs import LONGEST_EXPIRY_SECONDS, View, WithReason


class LayerChange(WithReason):
    """`PUT /v1/layers/{layer}`: what the layer is from now on."""

    rank: int = Field(ge=-1_000_000, le=1_000_000)
    default_expiry_seconds: int | None = Field(None, ge=1, le=LONGEST_EXPIRY_SECONDS)
    documentation: str = Field("", max_length=2000)


class LayerAdd(LayerChange):
    """`POST /v1/layers`: another layer, at any free rank."""

    name: Name


class LayerRowView(View):
    """A layer of the cell."""

    name: str
    rank: int
    default_expiry_seconds: int | None
    documentation: str


class Layers(View):
    """The layers of the cell, lowest first."""

    layers: list[LayerRowView]
