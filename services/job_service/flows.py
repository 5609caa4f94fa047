"""What each job reads and where it writes, and what must not be: a loop of topics, a folder or table of another job,
rows among malformed records. Pure."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.config.model import PostgresOutput
from penstock.config.paths import with_arguments
from penstock.config.topic_patterns import covers, is_pattern, name_for_people, pattern_name
from penstock.config.topics import full_topic
from penstock.control.errors import InvalidConfig
from penstock.tasks.dead_letters import topic_or_own

# No path begins so: a folder of this scheme is a Postgres table.
_POSTGRES = "postgres:"


class Flow(NamedTuple):
    """A job's topics by their full names, and the folder or table that it takes: a path, or
    `postgres:<connection>/<table>`. `reads` also has patterns of topics (`penstock.config.topic_patterns`), and the
    paths of its streams and tables; no topic has such a name (`is_pattern`, `is_path`). `may_loop`: the job says that
    its records may come back to it. `dead_letters`: the topic of its malformed records, on the cell's own Kafka; None:
    it is not known."""

    job: str
    reads: tuple[str, ...]
    writes: str | None = None
    folder: str | None = None
    may_loop: bool = False
    dead_letters: str | None = None

    @property
    def passes_on(self) -> str | None:
        """The topic that a loop could go on by."""
        return None if self.may_loop else self.writes


def flow_of(job: str, config: Mapping[str, Any]) -> Flow:
    """The flow of a complete configuration, given as JSON."""
    output = config["output"]
    reads = tuple(sorted(set(topics_read_by(config)) | _paths_read(config)))
    dead_letters = topic_or_own(job, config.get("dead_letter_topic"))
    may_loop = bool(output.get("allow_loop", False))
    writes = None if output.get("topic") is None else full_topic(output["topic"], output.get("cluster"))
    return Flow(job, reads, writes, _taken_by(output), may_loop, dead_letters)


def topics_read_by(config: Mapping[str, Any]) -> list[str]:
    """The full names of the topics, and the patterns, that a complete configuration reads."""
    return [_read_by(source) for source in (config.get("inputs") or {}).values()]


def _read_by(source: Mapping[str, Any]) -> str:
    if source.get("topic_pattern") is not None:
        return pattern_name(source["topic_pattern"], source.get("excluded_topics") or (), source.get("cluster"))
    return full_topic(source["topic"], source.get("cluster"))


class Flows:
    """The jobs that may lie on a loop with jobs that are written, or share a topic or a folder with them.

    A write is refused for what it brings about, and never for what the job did before: another release may have
    accepted that, and it must be possible to stop the job.
    """

    def __init__(self, known: Iterable[Flow]) -> None:
        self._flows: dict[str, Flow] = {}
        self._writers: defaultdict[str, set[str]] = defaultdict(set)
        self._outputs: defaultdict[str, set[str]] = defaultdict(set)
        self._dead_letters: defaultdict[str, set[str]] = defaultdict(set)
        self._owners: defaultdict[str, set[str]] = defaultdict(set)
        for flow in known:
            self._put(flow)

    def take(self, flow: Flow) -> None:
        """From now on the job has this flow. Raises InvalidConfig, and changes nothing, when it must not."""
        before = self._flows.get(flow.job)
        if before is None or before.folder != flow.folder:
            self._require_free_folder(flow)
        if before is None or before.writes != flow.writes:
            self._require_output_apart(flow)
        if before is None or before.dead_letters not in (None, flow.dead_letters):
            self._require_dead_letters_apart(flow)
        if before is None or (before.reads, before.dead_letters) != (flow.reads, flow.dead_letters):
            _require_own_letters_unread(flow)
        if before is None or (before.reads, before.passes_on) != (flow.reads, flow.passes_on):
            self._require_no_loop(flow)
        self._put(flow)

    def _require_free_folder(self, flow: Flow) -> None:
        owners = sorted(self._owners[flow.folder or ""] - {flow.job})
        if owners and flow.folder is not None:
            raise _taken(flow.folder, owners[0])

    def _require_output_apart(self, flow: Flow) -> None:
        """Raises InvalidConfig when its rows would go where malformed records go, its own or those of another."""
        own = [flow.job] if flow.writes == flow.dead_letters else []
        found = [*own, *sorted(self._dead_letters[flow.writes or ""] - {flow.job})]
        if flow.writes is not None and found:
            raise InvalidConfig(
                f"output.topic: the malformed records of the job {found[0]} go to {flow.writes}; choose another topic",
                field="output.topic",
                rule="dead_letters",
            )

    def _require_dead_letters_apart(self, flow: Flow) -> None:
        """Raises InvalidConfig when its malformed records would go where rows go, its own or those of another."""
        own = [flow.job] if flow.writes == flow.dead_letters else []
        found = [*own, *sorted(self._outputs[flow.dead_letters or ""] - {flow.job})]
        if found:
            raise InvalidConfig(
                f"dead_letter_topic: {flow.dead_letters} is the output of the job {found[0]}; choose another topic",
                field="dead_letter_topic",
                rule="output",
            )

    def _require_no_loop(self, flow: Flow) -> None:
        loop = self._loop_of(flow)
        if loop:
            raise InvalidConfig(
                f"output.topic: the job would read its own output again, for ever: {_told(loop)}. "
                "Choose another topic, or set output.allow_loop",
                field="output.topic",
                rule="loop",
            )

    def _put(self, flow: Flow) -> None:
        before = self._flows.get(flow.job)
        if before is not None:
            self._writers[before.passes_on or ""].discard(flow.job)
            self._outputs[before.writes or ""].discard(flow.job)
            self._dead_letters[before.dead_letters or ""].discard(flow.job)
            self._owners[before.folder or ""].discard(flow.job)
        if flow.passes_on is not None:
            self._writers[flow.passes_on].add(flow.job)
        if flow.writes is not None:
            self._outputs[flow.writes].add(flow.job)
        if flow.dead_letters is not None:
            self._dead_letters[flow.dead_letters].add(flow.job)
        if flow.folder is not None:
            self._owners[flow.folder].add(flow.job)
        self._flows[flow.job] = flow

    def _loop_of(self, flow: Flow) -> list[str]:
        """A shortest loop through the job: jobs and topics in turn. Empty without one.

        It is looked for against the stream: a topic may have thousands of readers, but rarely more than a few writers.
        """
        if flow.passes_on is None:
            return []
        goes_to: dict[str, tuple[str, str] | None] = dict.fromkeys(flow.reads)
        queue = list(flow.reads)
        for topic in queue:
            if covers(topic, flow.passes_on):
                return [flow.job, *_way(topic, goes_to), flow.job]
            for job in sorted(self._writers_of(topic) - {flow.job}):
                fresh = [each for each in self._flows[job].reads if each not in goes_to]
                goes_to |= dict.fromkeys(fresh, (job, topic))
                queue += fresh
        return []

    def _writers_of(self, topic: str) -> set[str]:
        if not is_pattern(topic):
            return self._writers[topic]
        return {job for written, jobs in self._writers.items() if covers(topic, written) for job in jobs}


def _require_own_letters_unread(flow: Flow) -> None:
    """Raises InvalidConfig when a pattern brings the job's malformed records back to it."""
    letters = flow.dead_letters
    found = next((name for name in flow.reads if is_pattern(name) and letters and covers(name, letters)), None)
    if found is not None:
        raise InvalidConfig(
            f"inputs: the pattern {name_for_people(found)} matches {letters}, where the malformed records of the job "
            "go: it would read them for ever. Name that topic in excluded_topics, or write another pattern",
            field="inputs",
            rule="dead_letters_not_read",
        )


def _told(loop: Sequence[str]) -> str:
    return " > ".join(map(name_for_people, loop))


def _way(topic: str, goes_to: Mapping[str, tuple[str, str] | None]) -> list[str]:
    """From a topic by jobs to one that the job reads."""
    way = [topic]
    while (step := goes_to[way[-1]]) is not None:
        way += step
    return way


def _taken_by(output: Mapping[str, Any]) -> str | None:
    """The folder or table that an output has for its job alone."""
    return None if output.get("allow_other_writers", False) else stored_at(output)


def stored_at(output: Mapping[str, Any]) -> str | None:
    """The folder or table of an output, as `Flow.folder` names it; None for a topic."""
    if output["type"] == "postgres":
        connection = output.get("connection", PostgresOutput.model_fields["connection"].default)
        return f"{_POSTGRES}{connection}/{output['table'].removeprefix('public.')}"
    return _normalized(output["path"]) if output["type"] in ("files", "delta") else None


def is_path(name: str) -> bool:
    """Whether a name in `Flow.reads` is that of a folder or table."""
    return "/" in name


def _paths_read(config: Mapping[str, Any]) -> set[str]:
    """The folders and Delta tables that a job reads, as `stored_at` names them."""
    streams = [stream["path"] for stream in (config.get("streams") or {}).values() if stream.get("path") is not None]
    args = config.get("args") or {}
    tables = [with_arguments(table["path"], args) for table in (config.get("tables") or {}).values()]
    return {_normalized(path) for path in (*streams, *tables)}


def is_table(folder: str) -> bool:
    """Whether a `Flow.folder` is a Postgres table."""
    return folder.startswith(_POSTGRES)


def _taken(folder: str, owner: str) -> InvalidConfig:
    if is_table(folder):
        connection, _, table = folder.removeprefix(_POSTGRES).partition("/")
        return InvalidConfig(
            f"output.table: the job {owner} writes to the table {table} of the connection {connection}. Choose another "
            "table. For one with the rows of both, set output.allow_other_writers; with upsert_columns, in both jobs",
            field="output.table",
            rule="table_taken",
        )
    return InvalidConfig(
        f"output.path: the job {owner} writes to {folder}, and a folder takes the output of one job. "
        "For a Delta table with the rows of both, set output.allow_other_writers; with upsert_columns, in both jobs",
        field="output.path",
        rule="folder_taken",
    )


def _normalized(path: str) -> str:
    """Different texts of one local path are one folder."""
    scheme, colon, rest = path.partition(":")
    if colon and scheme != "file":
        return path.rstrip("/")
    return posixpath.normpath((rest if colon else path).replace("//", "/").replace("//", "/"))
