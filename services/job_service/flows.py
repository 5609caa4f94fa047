"""What each job reads and where it writes, and what must not be: a loop of topics, folders and tables, a folder or
table of another job, rows among malformed records. Pure."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from penstock.config.model import MAIN, PostgresOutput, side_field
from penstock.config.paths import with_arguments
from penstock.config.problems import Problem, refusal
from penstock.config.topic_patterns import covers, is_pattern, name_for_people, pattern_name
from penstock.config.topics import full_topic
from penstock.tasks.dead_letters import topic_or_own

# No path begins so: a folder of this scheme is a Postgres table.
_POSTGRES = "postgres:"


class Flow(NamedTuple):
    """A job's topics by their full names, and the folder or table that it takes: a path, or
    `postgres:<connection>/<table>`. `reads` also has patterns of topics (`penstock.config.topic_patterns`), and the
    paths of its streams and tables; no topic has such a name (`is_pattern`, `is_path`). `may_loop`: the job says that
    its records may come back to it. `dead_letters`: the topic of its malformed records, on the cell's own Kafka; None:
    it is not known.

    Of its side outputs: `side_topics`, `side_stores`, those of both that `may_loop` is said of (`side_loops`), and what
    it takes of the stores (`side_folders`)."""

    job: str
    reads: tuple[str, ...]
    writes: str | None = None
    folder: str | None = None
    may_loop: bool = False
    dead_letters: str | None = None
    side_topics: tuple[str, ...] = ()
    side_loops: tuple[str, ...] = ()
    side_stores: tuple[str, ...] = ()
    side_folders: tuple[str, ...] = ()

    @property
    def topics(self) -> frozenset[str]:
        """The topics of all outputs."""
        return frozenset(self.side_topics) | ({self.writes} if self.writes is not None else set())

    @property
    def folders(self) -> frozenset[str]:
        """The folders and tables that it takes."""
        return frozenset(self.side_folders) | ({self.folder} if self.folder is not None else set())

    @property
    def passes_on(self) -> frozenset[str]:
        """The topics, folders and Delta tables that a loop could go on by."""
        own = set() if self.may_loop else {place for place in (self.writes, self.folder) if place is not None}
        places = {*self.side_topics, *self.side_stores}.difference(self.side_loops) | own
        return frozenset(place for place in places if not is_table(place))


class Unsaid(NamedTuple):
    """What a configuration says of loops, and its flow does not. `looked_up`: what the job reads as a table only, whose
    new rows make no rows. `shared`: the table of its output, if other jobs write there, too."""

    looked_up: frozenset[str] = frozenset()
    shared: str | None = None


def unsaid_of(config: Mapping[str, Any]) -> Unsaid:
    """Of a complete configuration, or of its streams, tables and arguments."""
    streams = {read_by_stream(stream) for stream in (config.get("streams") or {}).values()}
    output = config.get("output")
    is_shared = output is not None and not _may_loop(output) and _taken_by(output) is None
    return Unsaid(frozenset(_paths_read(config) - streams), stored_at(output) if output and is_shared else None)


def flow_of(job: str, config: Mapping[str, Any]) -> Flow:
    """The flow of a complete configuration, given as JSON."""
    output, sides = config["output"], _side_outputs(config)
    reads = tuple(sorted(set(topics_read_by(config)) | _paths_read(config)))
    dead_letters = topic_or_own(job, config.get("dead_letter_topic"))
    return Flow(
        job,
        reads,
        _topic_of(output),
        _taken_by(output),
        _may_loop(output),
        dead_letters,
        _in_order(_topic_of(side) for side in sides),
        _in_order(_place_of(side) for side in sides if _may_loop(side)),
        _in_order(stored_at(side) for side in sides),
        _in_order(_taken_by(side) for side in sides),
    )


def fields_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The fields of the side outputs of a configuration, by the topics, folders and tables where they go."""
    sides = (config.get("side_outputs") or {}).items()
    places = {_place_of(side["output"]): side_field(name) for name, side in sides}
    return {place: field for place, field in places.items() if place is not None}


def places_of_repeats(config: Mapping[str, Any]) -> frozenset[str]:
    """The topics, folders and tables of a complete configuration where a row that is written again is there twice."""
    outputs = [config["output"], *_side_outputs(config)]
    return frozenset(_in_order(_place_of(output) for output in outputs if not output.get("upsert_columns")))


def places_of_rows(config: Mapping[str, Any]) -> frozenset[str]:
    """The topics, folders and tables where a complete configuration has rows, also those that replace others."""
    return frozenset(_in_order(_place_of(output) for output in [config["output"], *_side_outputs(config)]))


def is_shared_at(config: Mapping[str, Any], place: str) -> bool:
    """Whether a complete configuration says that other jobs write to one of its topics or tables, too."""
    holders = [config, *(config.get("side_outputs") or {}).values()]
    return any(_is_at(holder, place) and holder["output"].get("allow_other_writers") for holder in holders)


def choices_at(config: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """Which rows and columns of its result a complete configuration has for a topic, folder or table."""
    sides = (config.get("side_outputs") or {}).values()
    chosen = [{"where": side.get("where"), "columns": side.get("columns")} for side in sides if _is_at(side, place)]
    return [*([{}] if _is_at(config, place) else []), *chosen]


def _is_at(holder: Mapping[str, Any], place: str) -> bool:
    return _place_of(holder["output"]) == place


def _side_outputs(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [side["output"] for side in (config.get("side_outputs") or {}).values()]


def _place_of(output: Mapping[str, Any]) -> str | None:
    return _topic_of(output) or stored_at(output)


def _topic_of(output: Mapping[str, Any]) -> str | None:
    return None if output.get("topic") is None else full_topic(output["topic"], output.get("cluster"))


def _may_loop(output: Mapping[str, Any]) -> bool:
    return bool(output.get("allow_loop", False))


def _in_order(places: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted(place for place in places if place is not None))


def topics_read_by(config: Mapping[str, Any]) -> list[str]:
    """The full names of the topics, and the patterns, that a complete configuration reads."""
    return [read_by(source) for source in (config.get("inputs") or {}).values()]


def read_by(source: Mapping[str, Any]) -> str:
    """The full name of the topic that an input reads, or of its pattern."""
    if source.get("topic_pattern") is not None:
        return pattern_name(source["topic_pattern"], source.get("excluded_topics") or (), source.get("cluster"))
    return full_topic(source["topic"], source.get("cluster"))


_NOTHING_UNSAID = Unsaid()


class Flows:
    """The jobs that may lie on a loop with jobs that are written, or share a topic or a folder with them.

    A write is refused for what it brings about, and never for what the job did before: another release may have
    accepted that, and it must be possible to stop the job.
    """

    def __init__(self, known: Iterable[Flow], unsaid: Mapping[str, Unsaid] = MappingProxyType({})) -> None:
        self._unsaid = dict(unsaid)
        self._flows: dict[str, Flow] = {}
        self._writers: defaultdict[str, set[str]] = defaultdict(set)
        self._outputs: defaultdict[str, set[str]] = defaultdict(set)
        self._dead_letters: defaultdict[str, set[str]] = defaultdict(set)
        self._owners: defaultdict[str, set[str]] = defaultdict(set)
        for flow in known:
            self._put(flow)

    def take(
        self, flow: Flow, fields: Mapping[str, str] = MappingProxyType({}), unsaid: Unsaid = _NOTHING_UNSAID
    ) -> None:
        """From now on the job has this flow. Raises InvalidConfig with every problem, and changes nothing, when it must
        not. `fields`: of the outputs beside `output`, as `fields_of` gives them."""
        found = list(self._problems(flow, fields, unsaid))
        if found:
            raise refusal(found)
        self._put(flow)
        self._unsaid[flow.job] = unsaid

    def _problems(self, flow: Flow, fields: Mapping[str, str], unsaid: Unsaid) -> Iterator[Problem]:
        before = self._flows.get(flow.job)
        for folder in sorted(flow.folders - (before.folders if before is not None else set())):
            yield from self._folder_taken(flow.job, folder, fields.get(folder, MAIN))
        for topic in sorted(flow.topics - (before.topics if before is not None else set())):
            yield from self._output_among_letters(flow, topic, fields.get(topic, MAIN))
        if before is None or before.dead_letters not in (None, flow.dead_letters):
            yield from self._letters_among_rows(flow)
        if before is None or (before.reads, before.dead_letters) != (flow.reads, flow.dead_letters):
            yield from _own_letters_read(flow)
        if before is None or (before.reads, before.passes_on) != (flow.reads, flow.passes_on):
            yield from self._loop(flow, fields, unsaid)

    def _folder_taken(self, job: str, folder: str, field: str) -> Iterator[Problem]:
        owners = sorted(self._owners[folder] - {job})
        if owners:
            yield _taken(folder, owners[0], field)

    def _output_among_letters(self, flow: Flow, topic: str, field: str) -> Iterator[Problem]:
        """Its rows would go where malformed records go, its own or those of another."""
        own = [flow.job] if topic == flow.dead_letters else []
        found = [*own, *sorted(self._dead_letters[topic] - {flow.job})]
        if found:
            detail = f"{field}.topic: the malformed records of the job {found[0]} go to {topic}; choose another topic"
            yield Problem(f"{field}.topic", "dead_letters", detail)

    def _letters_among_rows(self, flow: Flow) -> Iterator[Problem]:
        """Its malformed records would go where rows go, its own or those of another."""
        own = [flow.job] if flow.dead_letters in flow.topics else []
        found = [*own, *sorted(self._outputs[flow.dead_letters or ""] - {flow.job})]
        if found:
            detail = f"dead_letter_topic: {flow.dead_letters} is the output of the job {found[0]}; choose another topic"
            yield Problem("dead_letter_topic", "output", detail)

    def _loop(self, flow: Flow, fields: Mapping[str, str], unsaid: Unsaid) -> Iterator[Problem]:
        found = self._loop_of(flow, unsaid)
        if found is not None:
            place, loop = found
            field, what = fields.get(place, MAIN), "path" if is_path(place) else "topic"
            detail = (
                f"{field}.{what}: the job would read its own output again, for ever: {_told(loop)}. "
                f"Choose another {what}, or set {field}.allow_loop"
            )
            yield Problem(f"{field}.{what}", "loop", detail)

    def _put(self, flow: Flow) -> None:
        before = self._flows.get(flow.job)
        if before is not None:
            for index, name in self._entries(before):
                index[name].discard(flow.job)
        for index, name in self._entries(flow):
            index[name].add(flow.job)
        self._flows[flow.job] = flow

    def _entries(self, flow: Flow) -> Iterator[tuple[defaultdict[str, set[str]], str]]:
        """Where a job is found, by which names."""
        yield from ((self._writers, topic) for topic in flow.passes_on)
        yield from ((self._outputs, topic) for topic in flow.topics)
        yield from ((self._owners, folder) for folder in flow.folders)
        if flow.dead_letters is not None:
            yield self._dead_letters, flow.dead_letters

    def _loop_of(self, flow: Flow, unsaid: Unsaid) -> tuple[str, list[str]] | None:
        """A shortest loop through the job: its own topic or folder in it, then jobs and these in turn. None without.

        It is looked for against the stream: a topic may have thousands of readers, but rarely more than a few writers.
        """
        passes_on = flow.passes_on | ({unsaid.shared} if unsaid.shared is not None else set())
        if not passes_on:
            return None
        queue = _rows_of(flow, unsaid)
        goes_to: dict[str, tuple[str, str] | None] = dict.fromkeys(queue)
        for topic in queue:
            closing = sorted(own for own in passes_on if covers(topic, own))
            if closing:
                return closing[0], [flow.job, *_way(topic, goes_to), flow.job]
            for job in sorted(self._writers_of(topic) - {flow.job}):
                rows = _rows_of(self._flows[job], self._unsaid.get(job, _NOTHING_UNSAID))
                fresh = [each for each in rows if each not in goes_to]
                goes_to |= dict.fromkeys(fresh, (job, topic))
                queue += fresh
        return None

    def _writers_of(self, topic: str) -> set[str]:
        if not is_pattern(topic):
            return self._writers[topic]
        return {job for written, jobs in self._writers.items() if covers(topic, written) for job in jobs}


def _rows_of(flow: Flow, unsaid: Unsaid) -> list[str]:
    """What a job reads as rows that come."""
    return [name for name in flow.reads if name not in unsaid.looked_up]


def _own_letters_read(flow: Flow) -> Iterator[Problem]:
    """A pattern brings the job's malformed records back to it."""
    letters = flow.dead_letters
    found = next((name for name in flow.reads if is_pattern(name) and letters and covers(name, letters)), None)
    if found is not None:
        detail = (
            f"inputs: the pattern {name_for_people(found)} matches {letters}, where the malformed records of the job "
            "go: it would read them for ever. Name that topic in excluded_topics, or write another pattern"
        )
        yield Problem("inputs", "dead_letters_not_read", detail)


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
    streams = [read_by_stream(stream) for stream in (config.get("streams") or {}).values()]
    return {*(path for path in streams if path is not None), *tables_read(config)}


def tables_read(config: Mapping[str, Any]) -> list[str]:
    """The folders of the tables that a job looks rows up in, as `stored_at` names them."""
    args = config.get("args") or {}
    return [_normalized(with_arguments(table["path"], args)) for table in (config.get("tables") or {}).values()]


def topics_read_again(running: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
    """The topics, by their full names, that a job which runs with `running` reads from their beginning with `after`:
    it leaves them out no more. Whether it has read them before that is not known."""
    found = set()
    for name, source in (after.get("inputs") or {}).items():
        before = (running.get("inputs") or {}).get(name) or {}
        for topic in set(before.get("excluded_topics") or ()) - set(source.get("excluded_topics") or ()):
            full = full_topic(topic, source.get("cluster"))
            if source.get("topic_pattern") is not None and covers(read_by(source), full):
                found.add(full)
    return found


def read_by_stream(stream: Mapping[str, Any]) -> str | None:
    """The folder or Delta table of a stream, as `stored_at` names it; None for one without."""
    return None if stream.get("path") is None else _normalized(stream["path"])


def is_table(folder: str) -> bool:
    """Whether a `Flow.folder` is a Postgres table."""
    return folder.startswith(_POSTGRES)


def _taken(folder: str, owner: str, output: str) -> Problem:
    shared = f"set {output}.allow_other_writers; with upsert_columns, in both jobs"
    if is_table(folder):
        connection, _, table = folder.removeprefix(_POSTGRES).partition("/")
        detail = (
            f"{output}.table: the job {owner} writes to the table {table} of the connection {connection}. Choose "
            f"another table. For one with the rows of both, {shared}"
        )
        return Problem(f"{output}.table", "table_taken", detail)
    detail = (
        f"{output}.path: the job {owner} writes to {folder}, and a folder takes the output of one job. "
        f"For a Delta table with the rows of both, {shared}"
    )
    return Problem(f"{output}.path", "folder_taken", detail)


def _normalized(path: str) -> str:
    """Different texts of one local path are one folder."""
    scheme, colon, rest = path.partition(":")
    if colon and scheme != "file":
        return path.rstrip("/")
    return posixpath.normpath((rest if colon else path).replace("//", "/").replace("//", "/"))
