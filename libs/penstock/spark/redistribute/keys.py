"""How the rows of each stateful operator are told their key group.

The query is analysed once more with tags on the inputs' key columns (`io.penstock.state.KeyedOperators`): a tag comes
out at an operator only where the column was passed on unchanged, so it is known where in the state's key the input's
key is. Nothing is guessed: state without the whole key of its input is not moved between tasks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import Input, JobConfig
from penstock.config.stream import Stream
from penstock.control.errors import BrokenTask
from penstock.spark.query import result_of
from penstock.spark.redistribute.stores import StateStoreInfo
from penstock.spark.settings import SparkSettings
from penstock.spark.sources import read_input
from penstock.spark.streams import read_streams
from penstock.tasks.redistribution import Layout

_TAG = "penstock.key"


@dataclass(frozen=True)
class KeyFunction:
    """`io.penstock.state.KeyFunction`: `places` of the input's key columns in what the state is partitioned by."""

    name: str
    key_groups: int
    places: tuple[int, ...]


WHOLE = KeyFunction("none", 1, ())
"""All rows are of one key group: state that stays in one task."""


@dataclass(frozen=True)
class KeyedOperator:
    """By what an operator's state is partitioned: of each column the place in the input's key, or None."""

    operator: int
    name: str
    columns: tuple[int | None, ...]


def keyed_operators(
    session: SparkSession, config: JobConfig, settings: SparkSettings
) -> tuple[tuple[KeyedOperator, ...], bool]:
    """The stateful operators of a job's query, and whether a UNION in it mixes keys with other columns.

    Raises what `penstock.spark.query.result_of` raises.
    """
    part = KeyGroupRange(0, 1)
    frames = {
        name: _tagged(read_input(session, name, _with_tags(source), part, settings, more={}), source)
        for name, source in config.inputs.items()
    }
    streams = read_streams(session, config, settings.path_roots)
    frames |= {name: _tagged(frame, config.streams[name]) for name, frame in streams.items()}
    result = result_of(session, frames, config, settings)
    jvm: Any = session._jvm
    found = json.loads(jvm.io.penstock.state.KeyedOperators.describe(result._jdf, _TAG))
    operators = [
        KeyedOperator(record["operator"], record["name"], tuple(record["columns"])) for record in found["operators"]
    ]
    return tuple(operators), bool(found["mixed"])


def state_keys(
    session: SparkSession, source: Layout, target: Layout, stores: Sequence[StateStoreInfo], settings: SparkSettings
) -> dict[int, KeyFunction]:
    """By operator: how its rows are told their key group. State that stays in the one task that has it needs no keys.

    `session`: of a task of `target`. Raises BrokenTask where that cannot be told.
    """
    if len(source.ranges) == len(target.ranges) == 1:
        return {store.operator: WHOLE for store in stores}
    operators, mixed = keyed_operators(session, target.config, settings)
    require_operators(operators, {store.operator: store.operator_name for store in stores})
    return key_functions(operators, target.config.sources, mixed=mixed)


def require_operators(found: Sequence[KeyedOperator], in_checkpoint: Mapping[int, str]) -> None:
    """Raises BrokenTask unless the query has the operators that the checkpoint names by their ids. Pure."""
    planned = {operator.operator: operator.name for operator in found}
    if planned != in_checkpoint:
        raise BrokenTask(
            f"query: state cannot be moved because the query has the operators {planned}, "
            f"but the checkpoints have {in_checkpoint}"
        )


def key_functions(
    operators: Sequence[KeyedOperator], inputs: Mapping[str, Input | Stream], *, mixed: bool
) -> dict[int, KeyFunction]:
    """By operator: how its rows are told their key group. Pure.

    Raises BrokenTask where that cannot be told.
    """
    keys = {(source.key_function, len(source.key_columns), source.key_groups) for source in inputs.values()}
    if len(keys) != 1:
        told = "; ".join(
            f"inputs.{name} has key_function {source.key_function}, key_columns {list(source.key_columns)} and "
            f"key_groups {source.key_groups}"
            for name, source in sorted(inputs.items())
        )
        raise BrokenTask(
            f"inputs: state cannot be moved because the inputs have different keys: {told}. The same key_function, as "
            "many key_columns and the same key_groups are needed in each"
        )
    ((function, size, key_groups),) = keys
    if mixed:
        raise BrokenTask("query: state cannot be moved because the key column is in only some branches of a UNION")
    return {found.operator: KeyFunction(function, key_groups, _places(found, function, size)) for found in operators}


def _places(found: KeyedOperator, function: str, size: int) -> tuple[int, ...]:
    if function == "none" or any(place not in found.columns for place in range(size)):
        raise BrokenTask(
            f"query: state cannot be moved because the keys of operator {found.operator} lack the input's key columns. "
            "Without them it is not known which task a row of state belongs to. Set inputs.<name>.key_function and "
            "inputs.<name>.key_columns if the input's producer chooses the partition by columns of the operator; else "
            "put a shuffle job before this one that keys the input by them"
        )
    return tuple(found.columns.index(place) for place in range(size))


def _tagged(frame: DataFrame, source: Input | Stream) -> DataFrame:
    places = _places_by_name(source)
    for field in frame.schema.fields:
        if field.name.lower() in places:
            frame = frame.withMetadata(field.name, {**field.metadata, _TAG: places[field.name.lower()]})
    return frame


def _with_tags(source: Input) -> Input:
    """The input with tags in the schema of its records, from which Spark may take a column late."""
    if source.format not in ("json", "csv") or source.value_schema is None:
        return source
    schema: Any = StructType.fromDDL(source.value_schema)
    places = _places_by_name(source)
    for field in schema.fields:
        if field.name.lower() in places:
            field.metadata[_TAG] = places[field.name.lower()]
    return source.model_copy(update={"value_schema": schema.json()})


def _places_by_name(source: Input | Stream) -> dict[str, int]:
    return {name.lower(): place for place, name in enumerate(source.key_columns)}
