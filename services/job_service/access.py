"""Who may do what. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.control.errors import Forbidden

ANY_LAYER = "*"
BASE = "base"
# What a role's token may write when nothing else was said.
DEFAULT_LAYERS: dict[str, tuple[str, ...]] = {
    "reader": (),
    "provisioner": (BASE, "provisioner"),
    "scaler": ("scaler",),
    "oncall": ("oncall",),
    "admin": (ANY_LAYER,),
}
MAY_DELETE_JOBS = ("provisioner", "admin")
MAY_OPERATE_JOBS = ("oncall", "admin")
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


def require_role(principal: Principal, roles: tuple[str, ...]) -> None:
    """Raises Forbidden unless the token has one of the roles."""
    if principal.role not in roles:
        raise Forbidden(f"this takes the role {' or '.join(roles)}, not {principal.role}", rule="access")
