"""Inputs and outputs of Protobuf: what their rules refuse, and what a descriptor set gives."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import (
    EDITION_2023,
    FeatureSet,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from penstock.config.classify import classify
from penstock.config.declare import ChangeKind
from penstock.config.descriptor_set import UnknownMessage, field_names, files_in, files_of, message_names, text_for
from penstock.config.model import Input
from penstock.config.validate import check_merged
from penstock.config.value_schema import column_names
from penstock.control.errors import InvalidConfig
from penstock.spark.sinks.protobuf_value import schema_files
from tests.support.config.jobs import job
from tests.support.kafka.protobuf import TIMESTAMP, entry, field, message, text, with_imports

BASE = FileDescriptorProto(name="base.proto", message_type=[message("Base", field(1, "n", "int32"))])
OTHER = FileDescriptorProto(name="other.proto", package="o", message_type=[message("Other", field(1, "n", "int32"))])
FILE = FileDescriptorProto(
    name="shop.proto",
    package="shop.v1",
    dependency=["base.proto", "google/protobuf/timestamp.proto"],
    message_type=[
        message(
            "Order",
            field(1, "Dest", "string"),
            field(2, "time", TIMESTAMP),
            field(3, "base", ".Base"),
            field(4, "tags", ".shop.v1.Order.TagsEntry", "repeated"),
            nested_type=[message("Line", field(1, "n", "int32")), entry("TagsEntry", "string", "string")],
        )
    ],
)
FILE.source_code_info.location.add(leading_comments="a comment")
SET = with_imports(BASE, OTHER, FILE)
TEXT, NAME = text(SET), "shop.v1.Order"
PROTOBUF = {"format": "protobuf", "value_schema": TEXT, "protobuf": {"message": NAME}}
OUTPUT = {"value_format": "protobuf", "value_schema": TEXT, "protobuf": {"message": NAME}}


def flights(**changes: Any) -> dict[str, Any]:
    return job({"inputs": {"flights": {**PROTOBUF, **changes}}})


def output(**changes: Any) -> dict[str, Any]:
    return job({"output": {**OUTPUT, **changes}})


def proto3(name: str, **more: Any) -> tuple[FileDescriptorProto, FieldDescriptorProto]:
    return FileDescriptorProto(syntax="proto3"), field(1, name, "int32", **more)


def implicit(name: str) -> tuple[FileDescriptorProto, FieldDescriptorProto]:
    made = field(1, name, "int32")
    made.options.features.field_presence = FeatureSet.IMPLICIT
    return FileDescriptorProto(syntax="editions", edition=EDITION_2023), made


def keyed(of: tuple[FileDescriptorProto, FieldDescriptorProto], **options: Any) -> dict[str, Any]:
    """An input of a message with one field, which is the key."""
    file, key = of
    file.name, made = "keyed.proto", message("Keyed", key)
    if key.HasField("oneof_index"):
        made.oneof_decl.add(name="_n")
    file.message_type.append(made)
    return {
        "value_schema": text(with_imports(file)),
        "protobuf": {"message": "Keyed", **options},
        "key_columns": [key.name],
    }


NO_SET = "base64 of a descriptor set, as `penstock descriptor` prints it, but "


@pytest.mark.parametrize(
    ("config", "field", "rule", "told"),
    [
        (flights(value_schema=None), "inputs.flights.value_schema", "value_schema_required", "needs a schema"),
        (
            flights(value_schema="no base64!"),
            "inputs.flights.value_schema",
            "descriptor_set",
            f"{NO_SET}it is not base64",
        ),
        (flights(value_schema="AAAA"), "inputs.flights.value_schema", "descriptor_set", f"{NO_SET}its bytes are no"),
        (
            flights(value_schema="+g=="),
            "inputs.flights.value_schema",
            "descriptor_set",
            "its bytes are no descriptor set",
        ),
        (flights(protobuf=None), "inputs.flights.protobuf.message", "message_required", "such as shop.v1.Order"),
        (
            flights(protobuf={"message": "Order"}),
            "inputs.flights.protobuf.message",
            "unknown_message",
            "no message Order; it has google.protobuf.Timestamp, Base, o.Other, shop.v1.Order, shop.v1.Order.Line",
        ),
        (
            flights(**keyed(proto3("N"))),
            "inputs.flights.key_columns",
            "keys_have_presence",
            "names N, a field without presence, which a writer leaves out when it is zero: its rows would have null "
            "for their key. Set inputs.flights.protobuf.emit_default_values to true",
        ),
        (flights(**keyed(implicit("n"))), "inputs.flights.key_columns", "keys_have_presence", "names n, a field"),
        (flights(key_columns=["to"]), "inputs.flights.key_columns", "unknown_column", "names to"),
        (
            flights(metadata_columns={"key": "TIME"}),
            "inputs.flights.metadata_columns.key",
            "column_taken",
            "has such a column already",
        ),
        (
            flights(format="json", value_schema="dest STRING"),
            "inputs.flights.protobuf",
            "protobuf_options_of_protobuf",
            "has options of protobuf, but the format is json",
        ),
        (output(value_schema=None), "output.value_schema", "value_schema_required", "needs a schema"),
        (output(value_format="json"), "output.value_schema", "value_schema_forbidden", "value_format is json"),
        (output(value_format="avro", value_schema=None), "output.protobuf", "protobuf_options_of_protobuf", "is avro"),
        (output(protobuf=None), "output.protobuf.message", "message_required", "must name the message"),
        (output(protobuf={"message": "x.Y"}), "output.protobuf.message", "unknown_message", "has no message x.Y"),
        (output(value_schema="AAAA"), "output.value_schema", "descriptor_set", "descriptor set"),
    ],
)
def test_what_is_refused(config: dict[str, Any], field: str, rule: str, told: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        check_merged(config)
    assert (refused.value.field, refused.value.rule, told in refused.value.detail) == (field, rule, True)


@pytest.mark.parametrize(
    "config",
    [
        flights(key_columns=["Dest"], event_time_column="time", watermark_delay="1 minute", schema_registry=True),
        flights(value_schema=TEXT[:80] + "\n" + TEXT[80:], protobuf={"message": f"{NAME}.Line"}, key_columns=["n"]),
        output(schema_registry=True),
        flights(**keyed(proto3("n"), emit_default_values=True)),
        flights(**keyed(proto3("n", oneof_index=0, proto3_optional=True))),
        flights(**keyed((FileDescriptorProto(syntax="editions", edition=EDITION_2023), field(1, "n", "int32")))),
    ],
)
def test_what_is_allowed(config: dict[str, Any]) -> None:
    check_merged(config)


def test_a_job_without_protobuf_is_stored_as_before() -> None:
    stored: Any = check_merged(job()).model_dump(mode="json")
    assert "protobuf" not in stored["inputs"]["flights"]
    assert {"protobuf", "value_schema"} & stored["output"].keys() == set()


@pytest.mark.parametrize(
    ("before", "after", "leaf"),
    [
        (
            flights(),
            flights(protobuf={"message": f"{NAME}.Line"}, key_columns=["n"]),
            "inputs.flights.protobuf.message",
        ),
        (
            flights(),
            flights(protobuf={"message": NAME, "emit_default_values": True}),
            "inputs.flights.protobuf.emit_default_values",
        ),
        (output(), output(value_schema=text(with_imports(BASE, FILE))), "output.value_schema"),
        (output(), output(protobuf={"message": f"{NAME}.Line"}), "output.protobuf.message"),
    ],
)
def test_a_change_restarts_the_tasks(before: dict[str, Any], after: dict[str, Any], leaf: str) -> None:
    found = classify(check_merged(before), check_merged(after))
    assert leaf in found.names
    assert found.kind == (
        ChangeKind.RESCALE if any("key_columns" in name for name in found.names) else ChangeKind.RESTART
    )


def test_the_columns_of_an_input_are_the_fields_of_its_message() -> None:
    source = Input.model_validate({"topic": "t", "key_groups": 1, **PROTOBUF})
    assert column_names(source) == {"dest", "time", "base", "tags"}
    assert field_names(TEXT, NAME) == ("Dest", "time", "base", "tags")


def test_a_job_gets_the_files_of_its_message_alone() -> None:
    """Without comments, each after those that it imports."""
    reversed_set = FileDescriptorSet(file=reversed(SET.file))
    found = files_of(text_for(files_in(reversed_set.SerializeToString()), NAME))
    assert [file.name for file in found] == ["base.proto", "google/protobuf/timestamp.proto", "shop.proto"]
    assert not any(file.HasField("source_code_info") for file in found)
    assert message_names(found) == ("Base", "google.protobuf.Timestamp", NAME, f"{NAME}.Line")
    with pytest.raises(UnknownMessage) as unknown:
        text_for(SET.file, "Order")
    assert f"{NAME}.Line" in unknown.value.known


def test_a_registry_gets_files_with_what_they_import_but_for_those_that_it_has() -> None:
    base, own = schema_files(TEXT, f"{NAME}.Line")
    assert (base.name, base.imports, base.schema.kind) == ("base.proto", (), "PROTOBUF")
    assert (own.name, own.imports) == ("shop.proto", ("base.proto",))
    assert FileDescriptorProto.FromString(base64.b64decode(own.schema.text)) == FILE


def test_a_chain_of_imports_may_be_long() -> None:
    """Whoever sends a plan chooses it."""
    files = [FileDescriptorProto(name=str(n), dependency=[str(n + 1)]) for n in range(5_000)]
    files[0].message_type.add(name="M")
    files.append(FileDescriptorProto(name="5000"))
    found = files_of(text_for(files, "M"))
    assert [file.name for file in found] == [str(n) for n in reversed(range(5_001))]
