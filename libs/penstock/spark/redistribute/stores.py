"""The stateful operators of a checkpoint and their stores, as Spark's operator metadata names them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.control.errors import BrokenCheckpoint, BrokenTask
from penstock.spark.checkpoint import CheckpointFiles

_PARTITIONS = "spark.sql.shuffle.partitions"
_JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_DEFAULT_STORE = "default"


@dataclass(frozen=True)
class StateStoreInfo:
    """One store of one operator. `path` is its folder for metadata below the checkpoint."""

    operator: int
    operator_name: str
    name: str
    prefix_columns: int

    @property
    def schema_path(self) -> str:
        """The file with the store's schema, below the checkpoint: partition 0 has it."""
        folder = "" if self.name == _DEFAULT_STORE else f"{self.name}/"
        return f"state/{self.operator}/0/{folder}_metadata/schema"


def operator_metadata_path(operator: int) -> str:
    """The file with an operator's metadata, below the checkpoint."""
    return f"state/{operator}/_metadata/metadata"


def state_stores(checkpoint: str, files: CheckpointFiles) -> tuple[StateStoreInfo, ...]:
    """All stores of a checkpoint; none of a stateless query.

    Raises BrokenTask for an operator whose state cannot be moved.
    """
    operators = sorted(int(name) for name in files.names(f"{checkpoint}/state") if name.isdigit())
    return tuple(store for operator in operators for store in _stores_of(checkpoint, operator, files))


def with_partitions(metadata_text: str, partitions: int) -> str:
    """The content of an operator's metadata file for another number of state partitions."""
    version, record = _parse(metadata_text)
    for store in record["stateStoreInfo"]:
        store["numPartitions"] = partitions
    return f"{version}\n{json.dumps(record, separators=(',', ':'))}"


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
    """The format of stream-stream joins' state; 2 where Spark did not note it."""
    return int(batch_metadata["conf"].get(_JOIN_FORMAT, 2))


def _stores_of(checkpoint: str, operator: int, files: CheckpointFiles) -> list[StateStoreInfo]:
    try:
        _, record = _parse(files.read(f"{checkpoint}/{operator_metadata_path(operator)}"))
    except FileNotFoundError as error:
        raise BrokenTask(
            f"operator {operator} of {checkpoint} is a transformWithState or one of a Spark without operator metadata: "
            "its state cannot be moved to another number of tasks or threads"
        ) from error
    name = record["operatorInfo"]["operatorName"]
    return [
        StateStoreInfo(operator, name, store["storeName"], store["numColsPrefixKey"])
        for store in record["stateStoreInfo"]
    ]


def _parse(text: str) -> tuple[str, dict[str, Any]]:
    version, _, record = text.partition("\n")
    if version != "v1":
        raise BrokenCheckpoint(f"operator metadata of version {version!r}, expected v1")
    parsed: dict[str, Any] = json.loads(record)
    return version, parsed
