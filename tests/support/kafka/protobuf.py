"""Descriptor sets of Protobuf, and messages by Protobuf's own package for Python."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable
from typing import Any

from google.protobuf import duration_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

WELL_KNOWN = (timestamp_pb2.DESCRIPTOR, duration_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR)
TIMESTAMP, DURATION = ".google.protobuf.Timestamp", ".google.protobuf.Duration"


def field(number: int, name: str, kind: str, label: str = "optional", **more: Any) -> FieldDescriptorProto:
    """`kind`: a type of Protobuf, or `.full.Name` of a message, or `enum .full.Name`. `more`: as in a descriptor."""
    made = FieldDescriptorProto(name=name, number=number, **more)
    made.label = FieldDescriptorProto.Label.Value(f"LABEL_{label.upper()}")
    form, _, type_name = kind.rpartition(" ")
    if type_name.startswith("."):
        made.type_name = type_name
        form = form or "message"
    made.type = FieldDescriptorProto.Type.Value(f"TYPE_{(form or type_name).upper()}")
    return made


def message(name: str, *fields: FieldDescriptorProto, **more: Any) -> DescriptorProto:
    """`more`: as in a descriptor, such as nested_type."""
    return DescriptorProto(name=name, field=fields, **more)


def entry(name: str, key: str, value: str) -> DescriptorProto:
    """The message of a map's entries."""
    made = message(name, field(1, "key", key), field(2, "value", value))
    made.options.map_entry = True
    return made


def with_imports(*files: FileDescriptorProto) -> FileDescriptorSet:
    """A set of files after Protobuf's own, as far as these are imported."""
    wanted = {name for file in files for name in file.dependency}
    own = [known.serialized_pb for known in WELL_KNOWN if known.name in wanted]
    return FileDescriptorSet(file=[*map(FileDescriptorProto.FromString, own), *files])


def text(found: FileDescriptorSet) -> str:
    """As a job has it."""
    return base64.b64encode(found.SerializeToString()).decode()


def classes(found: FileDescriptorSet, *names: str) -> Iterable[Any]:
    """Classes of messages by their full names."""
    pool = DescriptorPool()
    for file in found.file:
        pool.Add(file)
    return tuple(GetMessageClass(pool.FindMessageTypeByName(name)) for name in names)


def framed(schema: int, indexes: bytes, value: bytes) -> bytes:
    """A message after the frame of a schema registry."""
    return struct.pack(">bI", 0, schema) + indexes + value


def base64_of(file: FileDescriptorProto) -> str:
    """As a registry has a file."""
    return base64.b64encode(file.SerializeToString(deterministic=True)).decode()
