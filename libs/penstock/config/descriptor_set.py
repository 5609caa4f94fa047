"""Descriptor sets of Protobuf in a job: the base64 of what `protoc --include_imports --descriptor_set_out` writes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError


class DescriptorSetError(ValueError):
    """A text that is no descriptor set."""


class UnknownMessage(ValueError):
    """A descriptor set has no message of this name. `known`: the names that it has, in the order of its files."""

    def __init__(self, message: str, known: tuple[str, ...]) -> None:
        super().__init__(message)
        self.known = known


class Described(NamedTuple):
    """A message, and the file that defines it."""

    file: FileDescriptorProto
    message: DescriptorProto


@lru_cache(maxsize=256)
def described(text: str, message: str) -> Described:
    """A message of a set, by its full name. Raises DescriptorSetError, UnknownMessage."""
    home = files_for(files_of(text), message)[-1]
    return Described(home, dict(messages_of([home]))[message])


def field_names(text: str, message: str) -> tuple[str, ...]:
    """The fields of a message as its file writes them. Raises DescriptorSetError, UnknownMessage."""
    return tuple(field.name for field in described(text, message).message.field)


def fields_without_presence(text: str, message: str) -> frozenset[str]:
    """The fields that a writer leaves out when they are zero: of proto3, without `optional`. Lower case. Raises
    DescriptorSetError, UnknownMessage."""
    found = described(text, message)
    return frozenset(field.name.lower() for field in found.message.field if not _has_presence(field, found.file))


def _has_presence(field: FieldDescriptorProto, file: FileDescriptorProto) -> bool:
    """Also of lists, which are empty without being null."""
    if field.label == field.LABEL_REPEATED or field.HasField("oneof_index"):
        return True
    if field.type in (field.TYPE_MESSAGE, field.TYPE_GROUP):
        return True
    of_field, of_file = (each.options.features for each in (field, file))
    features = of_field if of_field.HasField("field_presence") else of_file
    return bool(file.syntax != "proto3" and features.field_presence != features.IMPLICIT)


def message_names(files: Iterable[FileDescriptorProto]) -> tuple[str, ...]:
    """The full names of all messages, in the order of the files."""
    return tuple(name for name, _ in messages_of(files))


def files_of(text: str) -> tuple[FileDescriptorProto, ...]:
    """The files of a set. Raises DescriptorSetError."""
    try:
        content = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise DescriptorSetError("it is not base64") from error
    return files_in(content)


def files_in(content: bytes) -> tuple[FileDescriptorProto, ...]:
    """The files of a set, which is not in base64. Raises DescriptorSetError."""
    try:
        files = tuple(FileDescriptorSet.FromString(content).file)
    except DecodeError as error:
        raise DescriptorSetError("its bytes are no descriptor set") from error
    if not any(message_names(files)):
        raise DescriptorSetError("it has no messages")
    return files


def text_for(files: Iterable[FileDescriptorProto], message: str) -> str:
    """The base64 of what a job needs of a set to read or write a message, without comments and places in the source.
    Raises UnknownMessage."""
    needed = FileDescriptorSet()
    for file in files_for(files, message):
        needed.file.add().CopyFrom(file)
        needed.file[-1].ClearField("source_code_info")
    return base64.b64encode(needed.SerializeToString(deterministic=True)).decode()


def files_for(files: Iterable[FileDescriptorProto], message: str) -> list[FileDescriptorProto]:
    """The file of a message, after all that it imports. Raises UnknownMessage."""
    by_name = {file.name: file for file in files}
    home = next((file for file in by_name.values() if message in message_names([file])), None)
    if home is None:
        raise UnknownMessage(message, message_names(by_name.values()))
    return _in_order(home, by_name)


def _in_order(home: FileDescriptorProto, by_name: Mapping[str, FileDescriptorProto]) -> list[FileDescriptorProto]:
    found: dict[str, FileDescriptorProto] = {}
    begun = {home.name}
    # Files whose imports are being gone through: a set may have a chain of thousands.
    open_files = [(home, iter(home.dependency))]
    while open_files:
        file, imports = open_files[-1]
        name = next((name for name in imports if name in by_name and name not in begun), None)
        if name is None:
            found[file.name] = file
            open_files.pop()
        else:
            begun.add(name)
            open_files.append((by_name[name], iter(by_name[name].dependency)))
    return list(found.values())


def messages_of(files: Iterable[FileDescriptorProto]) -> Iterator[tuple[str, DescriptorProto]]:
    """All messages by their full names, in the order of the files."""
    for file in files:
        yield from _within(f"{file.package}." if file.package else "", file.message_type)


def _within(prefix: str, messages: Iterable[DescriptorProto]) -> Iterator[tuple[str, DescriptorProto]]:
    for message in messages:
        if not message.options.map_entry:
            yield prefix + message.name, message
            yield from _within(f"{prefix}{message.name}.", message.nested_type)
