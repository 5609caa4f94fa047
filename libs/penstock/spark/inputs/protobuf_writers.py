"""Whether an input of Protobuf can read what a writer's schema in a registry describes. Pure.

Fields are told by their numbers, so a writer's schema needs no likeness to the job's but that a number which both have
is written in one form, and is not a list there alone. Only the message itself is compared, not those within it.
Confluent's registry does not tell the type of a field that is a message or an enum: it then has only `type_name`.
"""

from __future__ import annotations

import base64
import binascii

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError

from penstock.config.descriptor_set import described, messages_of
from penstock.config.model import Input
from penstock.kafka.registry import Schema

_OF_ONE_FORM = (
    ("INT32", "INT64", "UINT32", "UINT64", "BOOL", "ENUM"),
    ("SINT32", "SINT64"),
    ("FIXED32", "SFIXED32"),
    ("FIXED64", "SFIXED64"),
    ("STRING", "BYTES"),
)
_FORMS = {name: forms[0] for forms in _OF_ONE_FORM for name in forms}


def protobuf_misfit(source: Input, newest: Schema) -> str | None:
    """Why the input cannot read messages of the newest schema of its subject; None if it can, or if the registry gave
    the text of the file."""
    file = _file(newest.text)
    if file is None:
        return None
    message = str(source.protobuf.message)
    writers = dict(messages_of([file]))
    if message not in writers:
        return f"its file has no message {message}; it has {', '.join(writers)}"
    return _different(described(str(source.value_schema), message).message, writers[message])


def _different(reader: DescriptorProto, writer: DescriptorProto) -> str | None:
    written = {field.number: field for field in writer.field}
    for field in reader.field:
        other = written.get(field.number)
        if other is not None and (_is_list(other) > _is_list(field) or _is_of_another_form(field, other)):
            there, here = (f"{_kind(each)} {each.name}" for each in (other, field))
            return f"the field {field.number} is {there} there, and {here} here"
    return None


def _is_list(field: FieldDescriptorProto) -> bool:
    return bool(field.label == FieldDescriptorProto.LABEL_REPEATED)


def _is_of_another_form(field: FieldDescriptorProto, other: FieldDescriptorProto) -> bool:
    return bool(other.HasField("type")) and _form(field) != _form(other)


def _form(field: FieldDescriptorProto) -> str:
    name = _type(field)
    return _FORMS.get(name, name)


def _kind(field: FieldDescriptorProto) -> str:
    kind = _type(field).lower() if field.HasField("type") else field.type_name.removeprefix(".")
    return f"repeated {kind}" if _is_list(field) else kind


def _type(field: FieldDescriptorProto) -> str:
    return str(FieldDescriptorProto.Type.Name(field.type)).removeprefix("TYPE_")


def _file(text: str) -> FileDescriptorProto | None:
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
