"""By which outputs the pending batches of an old generation end, when some of them cannot take any. Pure."""

from __future__ import annotations

from collections.abc import Collection

from penstock.config.model import JobConfig, KafkaOutput, Output


def pending_written_by(source: JobConfig, target: JobConfig, gone: Collection[str]) -> JobConfig:
    """`source` without outputs on Kafka clusters that an operator has declared gone for good (kafka/CLUSTERS.md): in
    their places are those of `target`, or none where it has none."""
    sides = {}
    for name, side in source.side_outputs.items():
        if not _is_gone(side.output, gone):
            sides[name] = side
        elif name in target.side_outputs:
            sides[name] = target.side_outputs[name]
    output = target.output if _is_gone(source.output, gone) else source.output
    return source.model_copy(update={"output": output, "side_outputs": sides})


def without_removed(source: JobConfig, target: JobConfig) -> JobConfig:
    """`source` without the side outputs that `target` does not have."""
    sides = {name: side for name, side in source.side_outputs.items() if name in target.side_outputs}
    return source.model_copy(update={"side_outputs": sides})


def _is_gone(output: Output, gone: Collection[str]) -> bool:
    return isinstance(output, KafkaOutput) and output.cluster in gone
