"""What may be done to a layer of the cell. Pure.

A new rank never changes what a job's layers merge to: where it would, it is refused. So nobody has to merge again what
nobody wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.control.errors import Conflict, NotFound
from penstock.control.texts import first_few, likely
from penstock.model.jobs import LayerRow

BUILTIN = ("base", "provisioner", "scaler", "oncall", "rollback")
"""The layers that the services themselves write: they stay, in this order."""
Layers = Mapping[str, LayerRow]


def require_changeable(layers: Layers, after: LayerRow) -> set[str]:
    """The layers that the change of a layer to `after` would put on its other side: no job may have both.

    Raises NotFound, and Conflict for a rank that another layer has, or another rank of a layer of every cell.
    """
    before = _require(layers, after.name)
    if before.rank == after.rank:
        return set()
    if after.name in BUILTIN:
        raise Conflict(f"the rank of {after.name} is the same in every cell", field="rank", rule="builtin")
    others = [layer for layer in layers.values() if layer.name != after.name]
    if any(layer.rank == after.rank for layer in others):
        raise Conflict("another layer has this rank", field="rank", rule="unique")
    return {layer.name for layer in others if (layer.rank < before.rank) != (layer.rank < after.rank)}


def require_removable(layers: Layers, name: str) -> LayerRow:
    """The layer. Raises NotFound, and Conflict for a layer of every cell."""
    row = _require(layers, name)
    if name in BUILTIN:
        raise Conflict(f"the services write the layer {name}: it stays", field="layer", rule="builtin")
    return row


def require_same_merges(name: str, overtaken: set[str], users: Sequence[str]) -> None:
    """Raises Conflict when there are `users`: jobs that have both the layer and one that it would overtake."""
    if users:
        raise Conflict(
            f"the new rank of {name} puts it on the other side of {first_few(sorted(overtaken))}, and "
            f"{first_few(users)} have both: their configurations would change unseen. Drop one of the two layers of "
            "these jobs first",
            field="rank",
            rule="order_in_use",
        )


def require_unused(name: str, users: Sequence[str]) -> None:
    """Raises Conflict when there are `users`: jobs that have the layer."""
    if users:
        raise Conflict(
            f"the layer {name} has something of {first_few(users)}: drop it there first", field="layer", rule="unused"
        )


def _require(layers: Layers, name: str) -> LayerRow:
    if name not in layers:
        raise NotFound(f"there is no layer {name}; {likely(name, layers)}", field="layer", rule="known")
    return layers[name]
