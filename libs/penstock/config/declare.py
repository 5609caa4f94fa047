"""The vocabulary of declarations: change kinds, layers, and `declare`, which writes a leaf's row of the field table."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from penstock.config.names import NAME as NAME
from penstock.config.names import NAME_RULE as NAME_RULE


class ChangeKind(IntEnum):
    """What a change of a field costs a running job, cheapest first (Flink Kubernetes Operator's `DiffType`)."""

    NONE = 0
    LIVE = 1
    RESTART = 2
    RESCALE = 3
    FORBIDDEN = 4


# What the State Syncer writes when a package was not healthy: the package before, and its query.
ROLLBACK_LAYER = "rollback"
# Layers are rows of a table, so the rule names the layers that may not, and a layer added later may.
ANY_LAYER: tuple[str, ...] = ("*", f"!{ROLLBACK_LAYER}")
DECLARED_BY_USER: tuple[str, ...] = ("*", "!scaler", f"!{ROLLBACK_LAYER}")
OF_THE_PACKAGE: tuple[str, ...] = ("*", "!scaler")


def declare(change: ChangeKind, layers: tuple[str, ...] = ANY_LAYER, *, unit: str | None = None) -> dict[str, Any]:
    """Keyword arguments for `Field`: the penstock declaration of a leaf.

    `layers` names the layers that may set the field: `*` is every layer, also ones added later as rows;
    `!scaler` takes one out again.
    """
    return {"json_schema_extra": {"penstock": {"change": change.name.lower(), "unit": unit, "layers": list(layers)}}}


class Model(BaseModel):
    """Base: frozen, unknown fields forbidden, numbers finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Carried(Model):
    """Base of what another release may have written: stored documents, and messages between processes.

    A field that this release does not know is kept, and stands in what this release writes from the model. What users
    send is a `Model`, or is checked against the field table, so a mistyped field is refused.
    """

    model_config = ConfigDict(extra="allow")


class DeclaredModel(Carried):
    """A part of a job's configuration. The docstring below a field is its documentation."""

    model_config = ConfigDict(use_attribute_docstrings=True)


Name = Annotated[str, Field(pattern=NAME)]
"""What becomes a path or a part of a URL: jobs, savepoints, packages, containers."""
Counted = Annotated[int, Field(ge=0, le=2**53)]
"""A number that only grows in the store: an epoch, a version, a revision, a commit. 0: before the first. Whoever hears
one may refuse all lower ones from then on. So one that no store has made is refused at the door: none gets near the
bound (`penstock.store.leases` has the highest), up to which readers of JSON hold every whole number."""
Incarnation = Annotated[str, Field(pattern=r"^[!-~]{1,100}$")]
"""Names one run of a Task Manager's process."""
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
MARKS_SUFFIX = ".penstock-marks"
"""Ends the name of the topic in which the producers of a topic note their event time."""
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
