"""Which jobs and topics are around a job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from penstock.wire.lineage import Dataset, DatasetKind, LineageEdge, Use
from services.job_service.flows import Flow, flow_of
from services.job_service.lineage import Around, Found, Step, around, shape, topics_filled, topics_read

CHAIN = (Flow("a", ("t0",), "t1"), Flow("b", ("t1",), "t2"), Flow("c", ("t2",), "t3"), Flow("d", ("t3",), "t4"))


def of(job: str, flows: Iterable[Flow], depth: int = 10, most: int = 200) -> Around:
    known = sorted(flows)

    def near(topics: set[str], uses: dict[str, set[str]], seen: AbstractSet[str], limit: int) -> list[Flow]:
        return [flow for flow in known if flow.job not in seen and topics & uses[flow.job]][:limit]

    reads = {flow.job: topics_read([flow]) for flow in known}
    fills = {flow.job: topics_filled([flow]) for flow in known}

    def upstream(level: Sequence[Flow], seen: AbstractSet[str], limit: int) -> list[Flow]:
        return near(topics_read(level), fills, seen, limit)

    def downstream(level: Sequence[Flow], seen: AbstractSet[str], limit: int) -> list[Flow]:
        return near(topics_filled(level), reads, seen, limit)

    start = next(flow for flow in known if flow.job == job)
    return around(start, upstream, downstream, depth, most)


def distances(found: Around) -> dict[str, int]:
    return {flow.job: distance for flow, distance in found.found}


def test_jobs_upstream_are_below_zero_and_those_downstream_above() -> None:
    assert distances(of("c", CHAIN)) == {"a": -2, "b": -1, "c": 0, "d": 1}
    assert distances(of("c", CHAIN, depth=1)) == {"b": -1, "c": 0, "d": 1}
    assert list(distances(of("a", CHAIN))) == ["a", "b", "c", "d"]


def test_a_loop_ends_and_each_job_has_its_smaller_distance() -> None:
    loop = (*CHAIN[:3], Flow("d", ("t3",), "t0", may_loop=True), Flow("self", ("x",), "x", may_loop=True))
    assert distances(of("a", loop)) == {"c": -2, "d": -1, "a": 0, "b": 1}
    assert of("a", loop).complete
    assert of("self", loop) == Around([Found(loop[4], 0)], complete=True)


def test_another_reader_of_the_same_topic_is_not_around() -> None:
    assert "sibling" not in distances(of("b", (*CHAIN, Flow("sibling", ("t1",), "s"))))


def test_the_nearest_are_kept_and_each_side_has_its_half() -> None:
    """1. A topic with many readers leaves room for what is upstream. 2. One side takes what the other does not need.
    3. As many as fit are complete."""
    many = [Flow(f"reader-{number:02}", ("t3",), None) for number in range(30)]
    found = of("c", (*CHAIN, *many), most=11)
    assert distances(found).keys() >= {"a", "b", "c", "d"}
    assert (len(found.found), found.complete) == (11, False)
    sources = [Flow(f"source-{number:02}", ("raw",), "t0") for number in range(30)]
    both = of("a", (*CHAIN, *sources, *(Flow(f"reader-{number:02}", ("t1",)) for number in range(30))), most=11)
    assert sorted(distances(both).values()) == [-1] * 5 + [0] + [1] * 5
    assert len(of("a", (*CHAIN, *sources), most=40).found) == 34
    assert of("a", (*CHAIN, *sources), most=34).complete
    assert not of("a", (*CHAIN, *sources), most=33).complete


def drawn(job: str, flows: Iterable[Flow], **stores: str) -> set[tuple[str, str, str]]:
    return {(edge.job, edge.use, edge.dataset) for edge in shape(of(job, flows).found, stores).edges}


def test_what_comes_in_from_above_and_goes_out_below_is_shown() -> None:
    """Neither other inputs of a job downstream nor what else a job upstream fills."""
    flows = (
        Flow("up", ("raw",), "mid", dead_letters="up-dead"),
        Flow("me", ("mid", "side"), "out", dead_letters="me-dead"),
        Flow("down", ("out", "elsewhere"), "end", dead_letters="down-dead"),
    )
    assert drawn("me", flows) == {
        ("up", "reads", "raw"),
        ("up", "writes", "mid"),
        ("me", "reads", "mid"),
        ("me", "reads", "side"),
        ("me", "writes", "out"),
        ("down", "reads", "out"),
        ("down", "writes", "end"),
    }


def test_a_pattern_is_shown_with_the_topics_that_it_matches() -> None:
    flows = (
        Flow("up", ("raw",), "orders-a", dead_letters="orders-bad"),
        Flow("me", ("~orders-.*~orders-x",), "out", dead_letters="me-bad"),
    )
    found = [Found(flows[0], -1), Found(flows[1], 0)]
    told = shape(found, {})
    assert {(each.name, each.kind) for each in told.datasets if each.name.startswith("orders")} == {
        ("orders-.*", DatasetKind.PATTERN),
        ("orders-a", DatasetKind.TOPIC),
        ("orders-bad", DatasetKind.TOPIC),
    }
    reads = [edge.dataset for edge in told.edges if (edge.job, edge.use) == ("me", Use.READS)]
    assert sorted(reads) == ["orders-.*", "orders-a", "orders-bad"]


def test_malformed_records_are_shown_if_a_job_reads_them() -> None:
    flows = (Flow("me", ("t",), "out", dead_letters="dead"), Flow("repair", ("dead",), "t2", dead_letters="other"))
    found = drawn("me", flows)
    assert {("me", "dead_letters", "dead"), ("repair", "reads", "dead")} <= found
    assert not any(dataset == "other" for _, _, dataset in found)
    assert ("me", "dead_letters", "dead") in drawn("repair", flows)


def test_outputs_that_are_no_topics_have_their_kind_and_no_password() -> None:
    flows = (Flow("me", ("t",)), Flow("next", ("t",)))
    told = shape([Found(flows[0], 0)], {"me": "s3a://key:secret@bucket/out"})
    assert told.datasets == [
        Dataset(name="s3a://bucket/out", kind=DatasetKind.FOLDER),
        Dataset(name="t", kind=DatasetKind.TOPIC),
    ]
    assert told.edges[1] == LineageEdge(job="me", dataset="s3a://bucket/out", use=Use.WRITES)
    table = shape([Found(flows[0], 0)], {"me": "postgres:default/orders"}).datasets[0]
    assert (table.name, table.kind) == ("postgres:default/orders", DatasetKind.TABLE)
    container = shape([Found(flows[0], 0)], {"me": "abfss://box@account.host/out"}).datasets[0]
    assert container.name == "abfss://box@account.host/out"


def test_a_step_is_asked_for_no_more_than_there_is_room() -> None:
    asked: list[int] = []

    def endless(_: Sequence[Flow], seen: AbstractSet[str], limit: int) -> list[Flow]:
        asked.append(limit)
        return [Flow(f"j{len(seen)}-{number}", ()) for number in range(min(limit, 4))]

    nothing: Step = lambda *_: []  # noqa: E731
    found = around(Flow("me", ()), nothing, endless, 10, most=11)
    assert asked == [11, 7, 3]
    assert (len(found.found), found.complete) == (11, False)


def test_a_delta_table_of_one_job_is_read_by_others_as_a_stream_or_a_table() -> None:
    made = {"type": "delta", "path": "file:/lake/orders"}
    writer = flow_of("writer", {"inputs": {"x": {"topic": "t"}}, "output": made})
    elsewhere = {"inputs": {"x": {"topic": "u"}}, "output": {"type": "kafka", "topic": "out"}}
    stream = flow_of("stream", {**elsewhere, "inputs": {}, "streams": {"o": {"path": "/lake//orders/"}, "r": {}}})
    table = flow_of("table", {**elsewhere, "args": {"d": "orders"}, "tables": {"o": {"path": "file:/lake/${d}"}}})
    found = of("writer", (writer, stream, table))
    assert distances(found) == {"writer": 0, "stream": 1, "table": 1}
    assert distances(of("table", (writer, stream, table))) == {"writer": -1, "table": 0}
    drawn = shape(of("stream", (writer, stream)).found, {"writer": "/lake/orders"})
    assert Dataset(name="/lake/orders", kind=DatasetKind.FOLDER) in drawn.datasets
    uses = {(edge.job, edge.use) for edge in drawn.edges if edge.dataset == "/lake/orders"}
    assert uses == {("writer", Use.WRITES), ("stream", Use.READS)}
