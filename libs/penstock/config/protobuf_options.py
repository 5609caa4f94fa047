"""Which message the records of a topic are, where their format is protobuf."""

from __future__ import annotations

from pydantic import Field

from penstock.config.declare import DECLARED_BY_USER, ChangeKind, DeclaredModel, declare

RESTART = ChangeKind.RESTART
_NAME = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"


class ProtobufOutput(DeclaredModel):
    """Of protobuf: the message that a row becomes."""

    message: str | None = Field(None, max_length=500, pattern=_NAME, **declare(RESTART, DECLARED_BY_USER))
    """Of protobuf: the full name of the message, with its package, such as `shop.v1.Order`. value_schema has it."""


class ProtobufRecords(ProtobufOutput):
    """Of protobuf: the message that a record is, and how it is read."""

    emit_default_values: bool = Field(False, **declare(RESTART, DECLARED_BY_USER))
    """Of protobuf: a field without presence (of proto3, without `optional`) that a record does not have is its zero
    value: 0, false, an empty text, the first name of an enum. Default: it is null, as Spark reads it. A writer leaves
    such a field out when it is zero."""
