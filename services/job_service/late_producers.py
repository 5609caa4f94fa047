"""Jobs whose readers cannot wait for them: topics written at least once have no marks of their producers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.config.topic_patterns import covers, name_for_people
from penstock.config.topics import full_topic
from penstock.control.errors import InvalidConfig
from services.job_service.flows import read_by

Config = Mapping[str, Any]
_DECIDING = ("inputs", "output", "side_outputs")


def may_matter(old: Config, new: Config) -> bool:
    """Whether a change of a layer's content may make rows late."""
    return any(old.get(name) != new.get(name) for name in _DECIDING)


def waits_for(config: Config) -> dict[str, str]:
    """The inputs of a complete configuration that need all producers of what they read, a topic or pattern."""
    return {
        read_by(source): name
        for name, source in (config.get("inputs") or {}).items()
        if source.get("watermark_delay") is not None and not source.get("allow_late_producers", False)
    }


def unmarked(config: Config) -> dict[str, str]:
    """The fields of the outputs of a complete configuration that have no marks, by topic."""
    return dict(_unmarked(config))


def require_no_late_rows(job: str, before: Config, after: Config, others: Mapping[str, Config]) -> None:
    """Raises InvalidConfig when a write makes `job` read what another job writes at least once, or the other way round,
    where the reader has event time. What was so before is left alone. `others`: the jobs that read and write there."""
    reads = {name: field for name, field in waits_for(after).items() if name not in waits_for(before)}
    writes = {topic: field for topic, field in unmarked(after).items() if topic not in unmarked(before)}
    for other, config in sorted(others.items()):
        for name, field in reads.items():
            if any(covers(name, topic) for topic in unmarked(config)):
                raise _late(f"inputs.{field}.allow_late_producers", other, job, name)
        for name in waits_for(config):
            for topic, field in writes.items():
                if covers(name, topic):
                    raise _late(f"{field}.delivery", job, other, name)


def _unmarked(config: Config) -> Iterator[tuple[str, str]]:
    sides = (config.get("side_outputs") or {}).items()
    for field, output in (("output", config["output"]), *((f"side_outputs.{n}.output", s["output"]) for n, s in sides)):
        if output.get("topic") is not None and output.get("delivery") == "at_least_once":
            yield full_topic(output["topic"], output.get("cluster")), field


def _late(field: str, writer: str, reader: str, name: str) -> InvalidConfig:
    return InvalidConfig(
        f"{field}: {writer} writes {name_for_people(name)} at least once, so it does not say how far its tasks have "
        f"come, and the watermark of {reader} does not wait for them: rows of a slow task may be late. Set delivery to "
        f"exactly_once in {writer}, or allow_late_producers of the input of {reader}",
        field=field,
        rule="late_producers",
    )
