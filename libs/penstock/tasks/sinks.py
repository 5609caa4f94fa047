"""Which outputs must be made before the tasks of a job start, and what is asked of a host for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from penstock.config.declare import ChangeKind, Name
from penstock.config.model import JobConfig
from penstock.config.spark_settings import READ_BY_ANALYSIS
from penstock.config.tree import ROOT, Leaf, Node, Path, child
from penstock.tasks.host_request import HostRequest

# What tells where the rows of a query are. Of SQL the arguments are literals, and tables are in every task.
_DECIDES_PLACEMENT = ("inputs", "query", "spark_settings")
_DECIDES_IN_PYTHON = ("args", "package", "tables")
OUTPUTS = ("output", "side_outputs")


class SinkRequest(HostRequest):
    """Make what the outputs of `config` name, unless it is there, and check that it takes the rows of the query.

    `revision` is that of the write which `config` comes from. `first_generation`: the first that the job ever had,
    above those of a deleted job of the same name.
    """

    kind: Literal["initialize_sink"] = "initialize_sink"
    job: Name
    revision: int = Field(ge=1)
    config: JobConfig
    first_generation: int = Field(1, ge=1)

    @property
    def key_number(self) -> int:
        return self.revision

    @property
    def host_config(self) -> JobConfig:
        """The output is made for the rows of the job's query."""
        return self.config


def prepared_part(config: Mapping[str, Any], *, started: bool) -> dict[str, Any]:
    """The part of a complete configuration, as JSON, that a host makes or checks before its commit; empty: nothing.

    Besides an output that must be made, it is the query of a job that has run (`started`): the write may have been
    accepted without a host, and a query that Spark refuses would replace one that works. Each task asks Spark at its
    start, too. So a job that never started is asked about only if it has several tasks and a write without a host may
    have missed much, since only the analysis tells whether rows that a query brings together are in one task: a Python
    query, or several inputs, whose keys may differ in type. A package of one task is tried by its rollout.

    Of the query only what `is_in_query` is there, so that other changes of many jobs wait for no host.
    """
    part = outputs_of(config) if needs_sink(config) else {}
    is_python = (config.get("query") or {}).get("python") is not None
    streams = config.get("streams") or {}
    missed_much = is_python or len(config.get("inputs") or {}) + len(streams) > 1
    has_several = has_several_tasks(config)
    if started or (has_several and missed_much):
        names = _DECIDES_PLACEMENT + (_DECIDES_IN_PYTHON if is_python and has_several else ())
        # The part of a job without streams stays as releases before this one have it.
        names += ("streams",) if streams else ()
        part |= {name: _in_query((name,), config.get(name), child(ROOT, name)) for name in names}
    return part


def is_in_query(path: Path, kind: ChangeKind) -> bool:
    """Whether Spark's analysis of a query that has run depends on a leaf of its part of the configuration. `kind`: the
    change kind of the leaf.

    It does not depend on leaves that change nothing or change while tasks run, such as limits of alerts and where to
    begin, nor on settings that Spark reads when the query runs; what values these may have is checked by the write.
    """
    if path[0] == "spark_settings":
        return path[-1] in READ_BY_ANALYSIS
    return kind > ChangeKind.LIVE


def _in_query(path: Path, value: Any, node: Node | None) -> Any:
    """The value without leaves below it that are not in the query."""
    if not isinstance(value, Mapping) or isinstance(node, Leaf):
        return value
    below = {key: None if node is None else child(node, key) for key in value}
    return {
        key: _in_query((*path, key), value[key], each)
        for key, each in below.items()
        if not isinstance(each, Leaf) or is_in_query((*path, key), each.row.change)
    }


def is_prepared(config: Mapping[str, Any], running: Mapping[str, Any]) -> bool:
    """Whether a host need not make or check anything before a job that runs `running` gets a configuration. Where rows
    are is asked anew when one task becomes several. What only `running` has needs no host: several tasks may become
    one."""
    if has_several_tasks(config) and not has_several_tasks(running):
        return False
    before = prepared_part(running, started=True)
    return all(name in before and before[name] == part for name, part in prepared_part(config, started=True).items())


def has_several_tasks(config: Mapping[str, Any]) -> bool:
    """Whether rows with one key may be in different tasks."""
    return bool(config.get("task_count", 1) > 1)


def outputs_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a complete configuration, as JSON, that says where rows go."""
    return {name: config[name] for name in OUTPUTS if config.get(name)}


def needs_sink(config: Mapping[str, Any]) -> bool:
    """Whether one of the outputs of a complete configuration, as JSON, is one that tasks would have to make.

    A Delta or Postgres table is; so is a folder, which takes the files of one job; so is a Kafka topic whose number of
    partitions the job says, and one on a further cluster, which may be out of reach. Others are as the broker makes
    them.
    """
    return any(map(_is_made, _each_output(config)))


def has_transactions(config: Mapping[str, Any]) -> bool:
    """Whether one of the outputs of a complete configuration, as JSON, is written in Kafka transactions. A seal ends
    these, so their Kafka has to answer (`penstock.spark.producers.series_outputs`)."""
    return any(_is_in_transactions(output) for output in _each_output(config))


def _each_output(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    sides = (config.get("side_outputs") or {}).values()
    yield from (output or {} for output in (config.get("output"), *(side.get("output") for side in sides)))


def _is_made(output: Mapping[str, Any]) -> bool:
    if output.get("type") == "kafka":
        return output.get("key_groups") is not None or output.get("cluster") is not None
    return output.get("type") in ("delta", "files", "postgres")


def _is_in_transactions(output: Mapping[str, Any]) -> bool:
    return output.get("type") == "kafka" and output.get("delivery", "exactly_once") == "exactly_once"
