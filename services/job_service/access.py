"""Who may do what. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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
MAY_PROFILE = ("provisioner", *MAY_OPERATE)
SCALER = "scaler"
MAY_MOVE = (SCALER, *MAY_OPERATE)
MAY_ADMINISTER = ("admin",)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls: a token's name, role and layers. The name is the author in the history."""

    name: str
    role: str
    layers: tuple[str, ...]


ANYBODY = Principal("anonymous", "admin", (ANY_LAYER,))
Need = Callable[[Principal, Mapping[str, Any]], None]
"""Raises Forbidden unless the token may make a call. It is asked before the body is read, with what the path names."""


def of_role(roles: tuple[str, ...]) -> Need:
    """Who has one of the roles."""
    return lambda principal, _: require_role(principal, roles)


def of_layer(layer: str | None = None) -> Need:
    """Who may write the layer; None: that of the path."""
    return lambda principal, path: require_layer(principal, path["layer"] if layer is None else layer)


def of_some_layer(principal: Principal, _: Mapping[str, Any]) -> None:
    """Who may write any layer at all."""
    if principal.role == "reader" or not principal.layers:
        raise _no_layer(principal)


def of_any_writer(principal: Principal, _: Mapping[str, Any]) -> None:
    """Who may do more than read."""
    require_role(principal, tuple(role for role in DEFAULT_LAYERS if role != "reader"))


def require_layer(principal: Principal, layer: str) -> None:
    """Raises Forbidden unless the token may write the layer."""
    if principal.role == "reader" or not {layer, ANY_LAYER} & set(principal.layers):
        raise Forbidden(f"the token {principal.name} may not write the layer {layer}", field="layer", rule="access")


def highest_layer(principal: Principal, layers: Mapping[str, LayerRow]) -> str:
    """`oncall` when the token may write it, else its layer of the highest rank. Raises Forbidden when it has none."""
    mine = [row for row in layers.values() if {row.name, ANY_LAYER} & set(principal.layers)]
    if principal.role == "reader" or not mine:
        raise _no_layer(principal)
    return max(mine, key=lambda row: (row.name == ONCALL, row.rank)).name


def require_role(principal: Principal, roles: tuple[str, ...]) -> None:
    """Raises Forbidden unless the token has one of the roles."""
    if principal.role not in roles:
        raise Forbidden(
            f"this call needs the role {' or '.join(roles)}; the token {principal.name} has {principal.role}",
            field="Authorization",
            rule="role",
        )


def _no_layer(principal: Principal) -> Forbidden:
    return Forbidden(f"the token {principal.name} may not write any layer", field="layer", rule="access")
