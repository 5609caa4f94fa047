"""Rules for inputs and outputs of Protobuf: the descriptor set, and the message in it."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.config.csv_options import is_default
from penstock.config.descriptor_set import DescriptorSetError, UnknownMessage, field_names, fields_without_presence
from penstock.config.model import Input, JobConfig, KafkaOutput
from penstock.config.problems import Problem
from penstock.config.protobuf_options import ProtobufOutput

_MOST_NAMED = 10


def protobuf_problems(config: JobConfig) -> Iterator[Problem]:
    """Of all inputs and the output."""
    for name, source in config.inputs.items():
        yield from _problems(f"inputs.{name}", source.format, source.value_schema, source.protobuf)
        yield from _keys_without_presence(f"inputs.{name}", source)
    output = config.output
    if not isinstance(output, KafkaOutput):
        return
    field = "output.value_schema"
    if output.value_format != "protobuf" and output.value_schema is not None:
        detail = f"{field} is of protobuf only; value_format is {output.value_format}"
        yield Problem(field, "value_schema_forbidden", detail)
    elif output.value_format == "protobuf" and output.value_schema is None:
        yield Problem(field, "value_schema_required", f"{field}: an output of format protobuf needs a schema")
    yield from _problems("output", output.value_format, output.value_schema, output.protobuf)


def _problems(owner: str, value_format: str, schema: str | None, protobuf: ProtobufOutput) -> Iterator[Problem]:
    field = f"{owner}.protobuf"
    if value_format != "protobuf":
        if not is_default(protobuf):
            detail = f"{field} has options of protobuf, but the format is {value_format}"
            yield Problem(field, "protobuf_options_of_protobuf", detail)
        return
    field = f"{field}.message"
    if protobuf.message is None:
        detail = f"{field} must name the message of value_schema, with its package, such as shop.v1.Order"
        yield Problem(field, "message_required", detail)
    if schema is not None:
        # Without a message the set is checked all the same.
        yield from _in_set(owner, schema, protobuf.message)


def _keys_without_presence(owner: str, source: Input) -> Iterator[Problem]:
    """A key that is zero would be null in its row, and the row of another key group than its record."""
    schema, message = source.value_schema, source.protobuf.message
    if source.format != "protobuf" or source.protobuf.emit_default_values or schema is None or message is None:
        return
    try:
        absent = fields_without_presence(schema, message)
    except (DescriptorSetError, UnknownMessage):
        return  # Told by _in_set.
    for name in source.key_columns:
        if name.lower() in absent:
            detail = (
                f"{owner}.key_columns names {name}, a field without presence, which a writer leaves out when it is "
                f"zero: its rows would have null for their key. Set {owner}.protobuf.emit_default_values to true"
            )
            yield Problem(f"{owner}.key_columns", "keys_have_presence", detail)


def _in_set(owner: str, schema: str, message: str | None) -> Iterator[Problem]:
    try:
        field_names(schema, message or "")
    except DescriptorSetError as error:
        field = f"{owner}.value_schema"
        detail = f"{field} must be the base64 of a descriptor set, as `penstock descriptor` prints it, but {error}"
        yield Problem(field, "descriptor_set", detail)
    except UnknownMessage as error:
        if message is not None:
            known = ", ".join(error.known[:_MOST_NAMED]) + (", ..." if len(error.known) > _MOST_NAMED else "")
            detail = f"{owner}.protobuf.message: value_schema has no message {message}; it has {known}"
            yield Problem(f"{owner}.protobuf.message", "unknown_message", detail)
