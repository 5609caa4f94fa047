"""Jobs whose readers cannot wait for them: a watermark waits for the marks of the tasks that write its topic. What is
written at least once has no marks, and marks of a job that knows no event time say nothing of it. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from penstock.config.topic_patterns import covers, is_pattern, name_for_people
from penstock.config.topics import full_topic
from penstock.control.errors import InvalidConfig
from services.job_service.flows import read_by

Config = Mapping[str, Any]
_DECIDING = ("query", "inputs", "streams", "output", "side_outputs")
_OWN_WATERMARK = re.compile(r"\bwatermark\b", re.IGNORECASE)


class Late(NamedTuple):
    """The watermark of an input of `reader`, which reads `name` (a topic or pattern), does not wait for `writer`.

    `output`: the field of the output that is written at least once; None where the writer knows no event time."""

    reader: str
    field: str
    name: str
    writer: str
    output: str | None = None


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


def may_know_time(config: Config) -> bool:
    """Whether a job may have an event time of its own, and need not get it from those that write its inputs. What the
    code of a Python query does is not known."""
    sources = [*(config.get("inputs") or {}).values(), *(config.get("streams") or {}).values()]
    query = config.get("query") or {}
    is_unknown = query.get("python") is not None or _OWN_WATERMARK.search(query.get("sql") or "") is not None
    return is_unknown or any(source.get("watermark_delay") is not None for source in sources)


def topics_written(config: Config) -> dict[str, str]:
    """The fields of the outputs of a complete configuration that go to topics, by topic."""
    return {full_topic(output["topic"], output.get("cluster")): field for field, output in _topic_outputs(config)}


def may_be_late(config: Config) -> bool:
    """Whether rows of the job may be late for a reader, or rows that it reads for the job itself."""
    is_unmarked = any(output.get("delivery") == "at_least_once" for _, output in _topic_outputs(config))
    return bool(waits_for(config)) or is_unmarked or (bool(topics_written(config)) and not may_know_time(config))


class Jobs:
    """Complete configurations of jobs that read what others of them write."""

    def __init__(self, configs: Mapping[str, Config]) -> None:
        self._configs = configs
        self._writers: defaultdict[str, set[str]] = defaultdict(set)
        for job, config in configs.items():
            for topic in topics_written(config):
                self._writers[topic].add(job)
        self._unmarked = {job: _unmarked(config) for job, config in configs.items()}
        self._untimed = self._found_untimed()

    def late(self) -> set[Late]:
        """All pairs of a reader and a writer that it does not wait for."""
        return {
            late
            for reader, config in self._configs.items()
            for name, field in waits_for(config).items()
            for late in self._late(reader, field, name)
        }

    def _late(self, reader: str, field: str, name: str) -> Iterator[Late]:
        """The tasks of a job that reads what it writes itself are not told apart: that is a loop, and was accepted."""
        for topic in self._named(name):
            for writer in self._writers[topic] - {reader}:
                output = self._unmarked[writer].get(topic)
                # A pattern never waits. Where its topics have marks, the check of the topics themselves says so.
                if output is not None or (not is_pattern(name) and writer in self._untimed):
                    yield Late(reader, field, name, writer, output)

    def _named(self, name: str) -> list[str]:
        if is_pattern(name):
            return [topic for topic in self._writers if covers(name, topic)]
        return [name] if name in self._writers else []

    def _found_untimed(self) -> set[str]:
        """The jobs whose marks do not say how far they have come, by an event time of their own or by that of all their
        inputs. A loop keeps the event time that comes into it."""
        readers: defaultdict[str, set[str]] = defaultdict(set)
        waiting = []
        for job, config in self._configs.items():
            if not may_know_time(config):
                topics = {read_by(source) for source in (config.get("inputs") or {}).values()}
                if config.get("streams") or not topics or not all(map(self._has_marks, topics)):
                    waiting.append(job)
                for topic in topics:
                    readers[topic].add(job)
        untimed = set(waiting)
        while waiting:
            written = topics_written(self._configs[waiting.pop()])
            fresh = {job for topic in written for job in readers[topic]} - untimed
            untimed |= fresh
            waiting += fresh
        return untimed

    def _has_marks(self, topic: str) -> bool:
        """Whether all that is written to a topic has marks. Never of a pattern."""
        writers = self._writers.get(topic, set())
        return bool(writers) and not any(topic in self._unmarked[writer] for writer in writers)


def require_no_late_rows(job: str, before: Iterable[Config], after: Config, others: Mapping[str, Config]) -> None:
    """Raises InvalidConfig when a write makes a job with event time read what another one writes without marks, or
    without an event time. What is so already is left alone. `before`: what was expected of the job, and what it runs.
    `others`: the jobs around."""
    now = Jobs({**others, job: after}).late()
    if now:
        until_now = [{**others, job: config} for config in before] or [dict(others)]
        known = {late for configs in until_now for late in Jobs(configs).late()}
        new = sorted(now - known, key=lambda late: (late.reader != job, late))
        if new:
            raise _refusal(job, new[0])


def notes(job: str, config: Config, others: Mapping[str, Config]) -> list[str]:
    """What an earlier release accepted, in a sentence for each writer whose rows may be late for the job."""
    found = sorted(late for late in Jobs({**others, job: config}).late() if late.reader == job)
    return [f"inputs.{late.field}: {_told(late)}. {_remedy(late)}" for late in found]


def _topic_outputs(config: Config) -> Iterator[tuple[str, Config]]:
    sides = (config.get("side_outputs") or {}).items()
    for field, output in (("output", config["output"]), *((f"side_outputs.{n}.output", s["output"]) for n, s in sides)):
        if output.get("topic") is not None:
            yield field, output


def _unmarked(config: Config) -> dict[str, str]:
    """The fields of the outputs of a complete configuration that have no marks, by topic."""
    fields = topics_written(config)
    marked = {field for field, output in _topic_outputs(config) if output.get("delivery") != "at_least_once"}
    return {topic: field for topic, field in fields.items() if field not in marked}


def _refusal(job: str, late: Late) -> InvalidConfig:
    if late.reader == job:
        field = f"inputs.{late.field}.allow_late_producers"
    else:
        field = "inputs" if late.output is None else f"{late.output}.delivery"
    return InvalidConfig(f"{field}: {_told(late)}. {_remedy(late)}", field=field, rule="late_producers")


def _told(late: Late) -> str:
    topic = name_for_people(late.name)
    if late.output is not None:
        why = f"{late.writer} writes {topic} at least once, so it does not say how far its tasks have come"
    else:
        why = f"{late.writer} writes {topic} and knows no event time: it cannot say how far its tasks have come"
    return f"{why}, and the watermark of {late.reader} does not wait for them: rows of a slow task may be late"


def _remedy(late: Late) -> str:
    if late.output is not None:
        mended = f"Set delivery to exactly_once in {late.writer}"
    else:
        mended = f"Set event_time_column and watermark_delay of the inputs of {late.writer}"
    return f"{mended}, or allow_late_producers of the input of {late.reader}"
