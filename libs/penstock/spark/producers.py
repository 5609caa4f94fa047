"""How the tasks of a chain of jobs agree on event time: options of the format `penstock-kafka`. Pure.

The producers of a topic record in its topic of marks how far they have come (`jvm/.../kafka/README.md`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from penstock.config.declare import MARKS_SUFFIX
from penstock.config.event_time import delay_millis
from penstock.config.model import Input, JobConfig, KafkaOutput, Output
from penstock.config.topics import full_topic
from penstock.tasks.spec import TaskSpec, key_group_ranges

NOTED_MARKS = "MARKS-"
"""In the folder of a generation: begins the name of a file for each topic that its tasks wrote marks for."""
_LONGEST_TOPIC = 249


def marks_topic(topic: str) -> str | None:
    """The topic of marks beside `topic`; None when its name would be too long for Kafka."""
    name = topic + MARKS_SUFFIX
    return name if len(name) <= _LONGEST_TOPIC else None


def marks_of(source: Input) -> str | None:
    """The full name of the topic of marks of an input, which is on the input's cluster; None also for a pattern, whose
    topics' producers are not waited for."""
    marks = None if source.topic is None else marks_topic(source.topic)
    return None if marks is None else full_topic(marks, source.cluster)


def reader_options(config: JobConfig, source: Input) -> dict[str, str]:
    """Options of a source that waits for the producers of its topic."""
    announce = {"announce": str(bool(marked_topics(config))).lower()}
    if source.topic is None:
        return announce
    marks = marks_topic(source.topic)
    if marks is None:
        return {}
    options = {"producerMarks": marks, **announce}
    if source.watermark_delay is not None:
        options["watermarkDelayMillis"] = str(delay_millis(source.watermark_delay))
    if config.completeness == "drop_late":
        options["producerPatienceMillis"] = str(max(1, round(config.completeness_wait_seconds * 1000)))
    return options


def accepts_late(config: JobConfig) -> bool:
    """Whether all inputs with a watermark accept that rows of producers which nobody waits for are late."""
    timed = [source for source in config.inputs.values() if source.watermark_delay is not None]
    return bool(timed) and all(source.allow_late_producers for source in timed)


def writer_options(spec: TaskSpec, topic: str) -> dict[str, str]:
    """Options of a sink that records how far its task has come."""
    marks = marks_topic(topic)
    if marks is None:
        return {}
    return {
        "marksTopic": marks,
        "marksGroup": spec.job,
        "marksGeneration": str(spec.generation),
        "marksMember": f"{spec.index}/{len(key_group_ranges(spec.config))}",
    }


def series_outputs(config: JobConfig) -> Iterator[tuple[str | None, KafkaOutput]]:
    """The outputs that are written in transactions, each by a series of its own, with the names of side outputs."""
    outputs: list[tuple[str | None, Output]] = [(None, config.output)]
    outputs += [(name, side.output) for name, side in sorted(config.side_outputs.items())]
    for name, output in outputs:
        if isinstance(output, KafkaOutput) and output.delivery == "exactly_once":
            yield name, output


def marked_topics(config: JobConfig) -> list[str]:
    """The full names of the topics for which the job's tasks record how far they have come."""
    outputs = (output for _, output in series_outputs(config))
    return [output.full_topic for output in outputs if marks_topic(output.topic) is not None]


def ended(job: str, generation: int) -> str:
    """The mark (`jvm/.../kafka/marks/Mark.java`): no task of `job` writes any more, up to this generation."""
    return json.dumps({"g": job, "gen": generation, "i": 0, "n": 1, "end": True, "at": {}})
