"""The schema of an output in the cell's schema registry: registered when a task starts, only checked by a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from penstock.config.model import KafkaOutput
from penstock.control.errors import BrokenTask, Unavailable
from penstock.kafka.access import Brokers
from penstock.kafka.registry import IncompatibleSchema, Reference, Registry, Schema, subject_of
from penstock.spark.inputs.registry import required_registry

_FIELD = "output.schema_registry"
_References = Mapping[str, Reference | None]


class SchemaFile(NamedTuple):
    """A schema that may refer to others. `imports`: their names. A registry has each under a subject of its name."""

    name: str
    schema: Schema
    imports: tuple[str, ...] = ()


def registered_id(
    output: KafkaOutput, schema: SchemaFile, brokers: Brokers, others: Sequence[SchemaFile] = (), *, registers: bool
) -> int | None:
    """The id of an output's schema in the registry; None without a registry, or where it is only checked.

    `others`: what it refers to, each after what it refers to itself. Raises BrokenTask when the registry does not take
    a schema, or the cell has none; Unavailable when it gives no answer.
    """
    if not output.schema_registry:
        return None
    registry = required_registry(brokers, _FIELD)
    references: dict[str, Reference | None] = {}
    for file in others:
        with _told_of(file.name):
            _take(registry, file, file.name, references, registers=registers)
            references[file.name] = _reference(registry, file, references)
    subject = subject_of(output.topic)
    with _told_of(subject):
        return _take(registry, schema, subject, references, registers=registers)


@contextmanager
def _told_of(subject: str) -> Iterator[None]:
    """What the registry says becomes an error that names the field and the subject."""
    try:
        yield
    except IncompatibleSchema as error:
        told = f"{_FIELD}: the registry does not take the schema for the subject {subject}: {error}"
        raise BrokenTask(told, rule="schema_compatible") from error
    except Unavailable as error:
        raise Unavailable(f"{_FIELD}: {error.detail}") from error


def _take(
    registry: Registry, file: SchemaFile, subject: str, references: _References, *, registers: bool
) -> int | None:
    schema = _with_references(file, references)
    if schema is None:
        return None  # A plan: there cannot be a version of it, since it refers to what is not registered yet.
    if registers:
        return registry.registered(subject, schema)
    registry.require_compatible(subject, schema)
    return None


def _reference(registry: Registry, file: SchemaFile, references: _References) -> Reference | None:
    schema = _with_references(file, references)
    known = None if schema is None else registry.known(file.name, schema)
    return None if known is None else Reference(file.name, file.name, known.version)


def _with_references(file: SchemaFile, references: _References) -> Schema | None:
    """None when one of them is not registered."""
    found = [reference for name in file.imports if (reference := references[name]) is not None]
    return file.schema._replace(references=tuple(found)) if len(found) == len(file.imports) else None
