"""The stateful operators of a checkpoint and their stores, by Spark's operator metadata.

Built-in operators have `state/<operator>/_metadata/metadata` (version 1) and a schema beside each store.
transformWithState has `state/<operator>/_metadata/v2/<batch>`, which names its schemas' files by absolute paths.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from penstock.config.keygroups import KeyGroupRange
from penstock.spark.checkpoint import numbers, parsed
from penstock.spark.files import Files

_PARTITIONS = "spark.sql.shuffle.partitions"
_JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_DEFAULT_STORE = "default"


@dataclass(frozen=True)
class StateStoreInfo:
    """One store of one operator. `properties` (JSON) and `schema_files` are those of a transformWithState."""

    operator: int
    operator_name: str
    name: str
    prefix_columns: int
    properties: str = ""
    schema_files: tuple[str, ...] = ()

    def folder(self, partition: int) -> str:
        """Where the store of a partition is, below the checkpoint."""
        folder = f"state/{self.operator}/{partition}"
        return folder if self.name == _DEFAULT_STORE else f"{folder}/{self.name}"


class OldState(NamedTuple):
    """The state of an old task after the batch `batch_id`. `metadata`: of that batch."""

    checkpoint: str
    key_groups: KeyGroupRange
    batch_id: int
    metadata: Mapping[str, Any]

    @property
    def version(self) -> int:
        """The version of its stores."""
        return self.batch_id + 1


@dataclass(frozen=True)
class Operator:
    """One operator: Spark's metadata, the version of the metadata, and the operator's stores."""

    number: int
    version: str
    record: Mapping[str, Any]
    stores: tuple[StateStoreInfo, ...]

    @property
    def metadata_path(self) -> str:
        """Where the metadata of a checkpoint that begins with batch 0 is, below the checkpoint."""
        return _metadata_path(self.number) if self.version == "v1" else f"{_versioned(self.number)}/0"

    def metadata_for(self, checkpoint: str, partitions: int) -> str:
        """The content of the metadata file in another checkpoint (a qualified path)."""
        stores = [_moved(store, self.number, checkpoint, partitions) for store in self.record["stateStoreInfo"]]
        return f"{self.version}\n{json.dumps({**self.record, 'stateStoreInfo': stores}, separators=(',', ':'))}"

    def schema_paths(self) -> tuple[str, ...]:
        """The schema files, below the checkpoint. Metadata of version 1 implies fixed paths in partition 0."""
        named = [_below(path, self.number) for store in self.stores for path in store.schema_files]
        if self.version != "v1":
            return tuple(named)
        return tuple(f"{store.folder(0)}/_metadata/schema" for store in self.stores)


def operators_of(checkpoint: str, files: Files) -> tuple[Operator, ...]:
    """The stateful operators of a checkpoint; empty for a stateless query.

    Raises BrokenCheckpoint when their metadata is missing or has an unknown version.
    """
    return tuple(_operator(checkpoint, number, files) for number in sorted(numbers(f"{checkpoint}/state", files)))


def partitions_of(batch_metadata: Mapping[str, Any]) -> int:
    """The number of state partitions that a batch ran with, by the metadata of its entry in the offsets log."""
    return int(batch_metadata["conf"][_PARTITIONS])


def metadata_for(
    batch_metadata: Mapping[str, Any], partitions: int, watermark_ms: int, timestamp_ms: int
) -> dict[str, Any]:
    """The metadata of a batch with another number of state partitions, watermark and time."""
    conf = {**batch_metadata["conf"], _PARTITIONS: str(partitions)}
    return {**batch_metadata, "batchWatermarkMs": watermark_ms, "batchTimestampMs": timestamp_ms, "conf": conf}


def join_format_version(batch_metadata: Mapping[str, Any]) -> int:
    """The state format of stream-stream joins; 2 if Spark did not record it."""
    return int(batch_metadata["conf"].get(_JOIN_FORMAT, 2))


def parse_operator(number: int, text: str) -> Operator:
    """Parses an operator's metadata file. Raises ValueError for an unknown version."""
    version, _, rest = text.partition("\n")
    if version not in ("v1", "v2"):
        raise ValueError(f"the operator metadata has version {version!r}, expected v1 or v2")
    record = json.loads(rest)
    stores = [
        StateStoreInfo(
            number,
            record["operatorInfo"]["operatorName"],
            store["storeName"],
            store["numColsPrefixKey"],
            record.get("operatorPropertiesJson", ""),
            tuple(store.get("stateSchemaFilePaths", ())),
        )
        for store in record["stateStoreInfo"]
    ]
    return Operator(number, version, record, tuple(stores))


def _operator(checkpoint: str, number: int, files: Files) -> Operator:
    batches = numbers(f"{checkpoint}/{_versioned(number)}", files)
    path = f"{_versioned(number)}/{max(batches)}" if batches else _metadata_path(number)
    return parsed(f"{checkpoint}/{path}", partial(parse_operator, number), files)


def _moved(store: Mapping[str, Any], operator: int, checkpoint: str, partitions: int) -> dict[str, Any]:
    moved = {**store, "numPartitions": partitions}
    if "stateSchemaFilePaths" in store:
        paths = [f"{checkpoint}/{_below(path, operator)}" for path in store["stateSchemaFilePaths"]]
        moved["stateSchemaFilePaths"] = paths
    return moved


def _below(path: str, operator: int) -> str:
    """The part of a schema file's absolute path that is below its checkpoint."""
    return path[path.rindex(f"state/{operator}/_stateSchema/") :]


def _metadata_path(operator: int) -> str:
    return f"state/{operator}/_metadata/metadata"


def _versioned(operator: int) -> str:
    return f"state/{operator}/_metadata/v2"
