"""Who may do what. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.control.errors import Forbidden
from penstock.model.jobs import LayerRow

ANY_LAYER = "*"
BASE = "base"
ONCALL = "oncall"
# The layers that a token may write when its creation names none.
DEFAULT_LAYERS: dict[str, tuple[str, ...]] = {
    "reader": (),
    "provisioner": (BASE, "provisioner"),
    "scaler": ("scaler",),
    "oncall": ("oncall", "rollback"),
    "admin": (ANY_LAYER,),
}
MAY_DELETE_JOBS = ("provisioner", "admin")
MAY_DELETE_PACKAGES = ("provisioner", "oncall", "admin")
MAY_OPERATE = ("oncall", "admin")
MAY_ADMINISTER = ("admin",)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls: a token's name, role and layers. The name is the author in the history."""

    name: str
    role: str
    layers: tuple[str, ...]


ANYBODY = Principal("anonymous", "admin", (ANY_LAYER,))


def require_layer(principal: Principal, layer: str) -> None:
    """Raises Forbidden unless the token may write the layer."""
    if principal.role == "reader" or not {layer, ANY_LAYER} & set(principal.layers):
        raise Forbidden(f"the token {principal.name} may not write the layer {layer}", field="layer", rule="access")


def highest_layer(principal: Principal, layers: Mapping[str, LayerRow]) -> str:
    """`oncall` when the token may write it, else its layer of the highest rank. Raises Forbidden when it has none."""
    mine = [row for row in layers.values() if {row.name, ANY_LAYER} & set(principal.layers)]
    if principal.role == "reader" or not mine:
        raise Forbidden(f"the token {principal.name} may not write any layer", field="layer", rule="access")
    return max(mine, key=lambda row: (row.name == ONCALL, row.rank)).name


def require_role(principal: Principal, roles: tuple[str, ...]) -> None:
    """Raises Forbidden unless the token has one of the roles."""
    if principal.role not in roles:
        raise Forbidden(
            f"this call needs the role {' or '.join(roles)}; the token {principal.name} has {principal.role}",
            field="Authorization",
            rule="role",
        )
