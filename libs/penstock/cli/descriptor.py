"""`penstock descriptor`: a message of Protobuf as a job's input or output names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import note, say
from penstock.config.descriptor_set import (
    DescriptorSetError,
    UnknownMessage,
    field_names,
    files_in,
    message_names,
    text_for,
)
from penstock.config.kafka_input import MOST_OF_A_SCHEMA
from penstock.control.errors import UserError

_SOURCE = ".proto"


def _content_of(file: Path) -> bytes:
    if not file.is_file():
        raise UserError(f"there is no file {file}: {_made_by(file)}", field="file", rule="exists")
    return file.read_bytes()


def _made_by(file: Path) -> str:
    """How to make what is needed of a source."""
    source = file.name if file.suffix == _SOURCE else f"{file.stem}{_SOURCE}"
    made = f"{file.stem or 'shop'}.desc"
    told = f"protoc writes one from its source, `protoc --include_imports --descriptor_set_out={made} {source}`"
    return f"{told}; then `penstock descriptor {made}`"


def descriptor(
    file: Annotated[Path, typer.Argument(help="written by protoc --include_imports --descriptor_set_out=FILE")],
    message: Annotated[
        str | None, typer.Argument(help="full name of the message, such as shop.v1.Order; default: list all")
    ] = None,
) -> None:
    """Print what an input or output of Protobuf has in its job: the message, and a descriptor set as base64.

    Of the set only what the message needs is taken, without comments. Only this JSON document goes to the standard
    output. Without a message, those of the file are listed.
    """
    try:
        files = files_in(_content_of(file))
        if message is None:
            for name in message_names(files):
                say(name)
            return
        schema = text_for(files, message)
    except DescriptorSetError as error:
        raise UserError(
            f"{file} is no descriptor set: {_made_by(file)}", field="file", rule="descriptor_set"
        ) from error
    except UnknownMessage as error:
        told = f"{file} has no message {message}: `penstock descriptor {file}` lists those that it has"
        raise UserError(told, field="message", rule="unknown_message") from error
    if len(schema) > MOST_OF_A_SCHEMA:
        told = (
            f"the files of {message} make a text of {len(schema)} characters, and value_schema may have at most "
            f"{MOST_OF_A_SCHEMA}: move the message to a file that imports less"
        )
        raise UserError(told, field="value_schema", rule="string_too_long")
    note(f"fields of {message}: {', '.join(field_names(schema, message))}")
    print(json.dumps({"value_schema": schema, "protobuf": {"message": message}}, indent=2))
