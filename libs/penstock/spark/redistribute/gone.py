"""Outputs on Kafka clusters that an operator has declared gone for good (kafka/CLUSTERS.md). Pure."""

from __future__ import annotations

from collections.abc import Collection

from penstock.config.model import JobConfig, KafkaOutput, Output


def pending_written_by(source: JobConfig, target: JobConfig, gone: Collection[str]) -> JobConfig:
    """The configuration by which the pending batches of `source` end: an output whose cluster is gone is that of
    `target` in its place; a side output that `target` does not have is left out."""
    sides = {}
    for name, side in source.side_outputs.items():
        if not _is_gone(side.output, gone):
            sides[name] = side
        elif name in target.side_outputs:
            sides[name] = target.side_outputs[name]
    output = target.output if _is_gone(source.output, gone) else source.output
    return source.model_copy(update={"output": output, "side_outputs": sides})


def _is_gone(output: Output, gone: Collection[str]) -> bool:
    return isinstance(output, KafkaOutput) and output.cluster in gone
