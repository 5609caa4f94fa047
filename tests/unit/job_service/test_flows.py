"""Loops of topics and shared folders: which writes are refused, given what other jobs read and write."""

from __future__ import annotations

import re
from typing import Any

import pytest

from penstock.config.problems import problems_in
from penstock.control.errors import InvalidConfig
from services.job_service.flows import Flow, Flows, fields_of, flow_of, topics_read_by, unsaid_of
from tests.support.config.jobs import job

DELTA = {"type": "delta", "topic": None, "key_groups": None, "key_columns": None}
DELTA_SIDE = {"type": "delta", "path": "/out"}


def flow(text: str, *, may_loop: bool = False) -> Flow:
    """`a: x y > z` reads x and y and writes z."""
    name, rest = text.split(":")
    reads, _, writes = rest.partition(">")
    return Flow(name, tuple(reads.split()), writes.strip() or None, may_loop=may_loop)


def flows(*texts: str) -> Flows:
    return Flows(map(flow, texts))


@pytest.mark.parametrize(
    ("known", "written", "loop"),
    [
        ((), "a: t > t", "a > t > a"),
        (("b: t1 > t0",), "a: t0 > t1", "a > t1 > b > t0 > a"),
        (("b: t1 > t2", "c: t2 u > t3", "d: t3 > t0"), "a: t0 > t1", "a > t1 > b > t2 > c > t3 > d > t0 > a"),
        (("b: t1 > t2", "c: t1 > t0", "d: t2 > t0"), "a: t0 > t1", "a > t1 > c > t0 > a"),
        (("b: t1 > t2",), "a: t0 > t1", None),
        (("b: t1 >", "c: t0 > t9"), "a: t0 > t1", None),
        (("b: t1 > t2", "c: t2 > t1"), "a: t0 > t1", None),
        (("b: t1 > t0", "a: t0 > t9"), "a: t5 > t1", None),
    ],
)
def test_a_write_that_closes_a_loop_is_refused(known: tuple[str, ...], written: str, loop: str | None) -> None:
    found = flows(*known)
    if loop is None:
        found.take(flow(written))
        return
    with pytest.raises(InvalidConfig, match=f": {loop}\\. ") as refused:
        found.take(flow(written))
    assert (refused.value.field, refused.value.rule) == ("output.topic", "loop")


def test_the_first_of_two_halves_of_a_loop_is_taken_and_the_second_refused() -> None:
    """What is refused leaves no trace."""
    found = flows()
    found.take(flow("a: t0 > t1"))
    with pytest.raises(InvalidConfig, match="b > t0 > a > t1 > b"):
        found.take(flow("b: t1 > t0"))
    found.take(flow("c: t0 > t5"))
    found.take(flow("a: t0 > t9"))
    found.take(flow("b: t1 > t0"))


def test_all_outputs_that_must_not_be_are_told() -> None:
    """1. Two side outputs go where others write. 2. One of the two is mended."""
    found = Flows([flow_of("b", job({"output": {"topic": "t"}, "dead_letter_topic": "letters"}))])
    found.take(flow_of("files", job({"output": DELTA | {"path": "/out"}})))
    sides = {"late": {"output": {"type": "kafka", "topic": "letters"}}, "all": {"output": DELTA_SIDE}}
    config = job({"side_outputs": sides})
    with pytest.raises(InvalidConfig) as refused:
        found.take(flow_of("a", config), fields_of(config))
    told = [(problem.field, problem.rule) for problem in problems_in(refused.value)]
    assert told == [
        ("side_outputs.all.output.path", "folder_taken"),
        ("side_outputs.late.output.topic", "dead_letters"),
    ]


def test_topics_of_one_name_on_two_clusters_are_two_topics() -> None:
    """1. What a job reads and writes has the name of its cluster. 2. A mirror is no loop, nor are dead letters of the
    cell's own Kafka in its way; 3. the way back over the other cluster is a loop."""
    here, there = {"topic": "orders"}, {"topic": "orders", "cluster": "eu"}
    mirror = flow_of("mirror", job({"inputs": {"flights": here}, "output": there}))
    assert (mirror.reads[1:], mirror.writes, mirror.dead_letters) == (("orders",), "orders@eu", "mirror.dead-letters")
    assert topics_read_by(job({"inputs": {"flights": there}})) == ["orders@eu"]
    found = Flows([mirror, flow_of("bad", job({"dead_letter_topic": "rows"}))])
    found.take(flow_of("apart", job({"inputs": {"flights": here}, "output": {"topic": "rows", "cluster": "eu"}})))
    with pytest.raises(InvalidConfig, match="back > orders > mirror > orders@eu > back"):
        found.take(flow_of("back", job({"inputs": {"flights": there}, "output": here})))
    with pytest.raises(InvalidConfig, match="malformed records of the job bad go to rows"):
        found.take(flow_of("mixed", job({"inputs": {"flights": there}, "output": {"topic": "rows"}})))


def streaming(name: str, reads: str, output: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A job that reads the Delta table `reads` as a stream."""
    streams = {"rows": {"format": "delta", "path": reads}}
    return job({"inputs": {}, "streams": streams, "output": {**DELTA, **output}, **more})


def taken(found: Flows, name: str, config: dict[str, Any]) -> None:
    found.take(flow_of(name, config), fields_of(config), unsaid_of(config))


SIDES_BACK = {"side_outputs": {"back": {"output": {"type": "delta", "path": "/a"}}}}
LOOKS_UP = {"streams": {}, "tables": {"known": {"format": "delta", "path": "/a"}}}


@pytest.mark.parametrize(
    ("written", "loop"),
    [
        (streaming("c", "/b", {"path": "/c"}), None),
        (streaming("c", "/b", {"path": "/a"}), "output.path: .*c > /a > b > /b > c. Choose another path"),
        (streaming("c", "/b", {"path": "file:///a/"}), "c > /a > b > /b > c"),
        (streaming("c", "/b", {"path": "/a", "allow_other_writers": True}), "c > /a > b > /b > c"),
        (streaming("c", "/b", {"path": "/a", "allow_loop": True}), None),
        (streaming("c", "/b", {"path": "/a", "allow_loop": True, "allow_other_writers": True}), None),
        (streaming("c", "/c", {"path": "/c"}), "c > /c > c"),
        (streaming("c", "/b", {"path": "/c"}, **SIDES_BACK), "side_outputs.back.output.path: .*c > /a > b > /b > c"),
        (job({"output": {**DELTA, "path": "/a"}, "inputs": {"flights": {"topic": "t"}}}), "c > /a > b > t > c"),
        (job({**LOOKS_UP, "output": {**DELTA, "path": "/a"}}), None),
    ],
)
def test_folders_and_tables_that_are_streams_close_a_loop(written: dict[str, Any], loop: str | None) -> None:
    """b makes of the rows of /a rows of /b and of the topic t."""
    found = Flows([])
    sides = {"also": {"output": {"type": "kafka", "topic": "t"}}}
    taken(found, "b", streaming("b", "/a", {"path": "/b"}, side_outputs=sides))
    if loop is None:
        taken(found, "c", written)
        return
    with pytest.raises(InvalidConfig, match=loop) as refused:
        taken(found, "c", written)
    assert refused.value.rule == "loop"


def test_a_table_that_a_job_on_the_way_only_looks_up_closes_no_loop() -> None:
    """1. It looks rows up in the table: no loop. 2. It reads it as a stream, too: a loop."""
    looks, closes = job({**LOOKS_UP, "output": {**DELTA, "path": "/b"}}), streaming("c", "/b", {"path": "/a"})
    found = Flows([])
    taken(found, "b", looks)
    taken(found, "c", closes)
    also_streams = {**looks, "streams": streaming("b", "/a", {})["streams"]}
    found = Flows([flow_of("b", also_streams)], {"b": unsaid_of(also_streams)})
    with pytest.raises(InvalidConfig, match="c > /a > b > /b > c"):
        taken(found, "c", closes)


@pytest.mark.parametrize(
    ("known", "written", "loop"),
    [
        ((), "a: ~t.* > t1", "a > t.* > a"),
        (("b: ~t1.*|t2 > t0",), "a: t0 > t12", "a > t1.*|t2 > b > t0 > a"),
        (("b: t1 > t0",), "a: ~t0|x > t1", "a > t1 > b > t0|x > a"),
        (("b: t1 > t00",), "a: ~t[0-9] > u1", None),
        ((), "a: ~t.*~t1 > t1", None),
        ((), "a: ~t.* > t1@eu", None),
        ((), "a: ~t.*@eu > t1@eu", "a > t.*@eu > a"),
    ],
)
def test_a_pattern_closes_a_loop_by_each_topic_that_it_matches(
    known: tuple[str, ...], written: str, loop: str | None
) -> None:
    found = flows(*known)
    if loop is None:
        found.take(flow(written))
        return
    with pytest.raises(InvalidConfig, match=re.escape(f": {loop}. ")):
        found.take(flow(written))


def test_a_pattern_that_matches_the_dead_letters_of_its_own_job_is_refused() -> None:
    """A topic has the name of the job before anybody has seen it. Those of another job may be read."""

    def reading(name: str, **fields: object) -> Flow:
        inputs = {"flights": {"topic": None, "topic_pattern": "letters.*", **fields}}
        return flow_of(name, job({"inputs": inputs}))

    found = Flows([])
    with pytest.raises(InvalidConfig, match=r"matches letters\.dead-letters") as refused:
        found.take(reading("letters"))
    assert (refused.value.field, refused.value.rule) == ("inputs", "dead_letters_not_read")
    found.take(reading("letters", excluded_topics=["letters.dead-letters"]))
    found.take(reading("other"))
    found.take(reading("letters", cluster="eu"))


@pytest.mark.parametrize("allows", ["a", "b"])
def test_a_loop_is_taken_when_one_of_its_jobs_allows_it(allows: str) -> None:
    found = flows()
    found.take(flow("a: t0 > t1", may_loop=allows == "a"))
    found.take(flow("b: t1 > t0", may_loop=allows == "b"))
    with pytest.raises(InvalidConfig):
        found.take(flow("a: t0 > t1") if allows == "a" else flow("b: t1 > t0"))


@pytest.mark.parametrize("path", ["/out", "/out/", "file:/out", "file:///out", "//out/./"])
def test_a_folder_is_one_jobs_however_it_is_written(path: str) -> None:
    def files(name: str, path: str) -> Flow:
        return flow_of(name, job() | {"output": {"type": "files", "path": path}})

    found = Flows([files("a", "/out")])
    with pytest.raises(InvalidConfig, match="the job a writes to /out") as refused:
        found.take(files("b", path))
    assert (refused.value.field, refused.value.rule) == ("output.path", "folder_taken")
    found.take(files("a", path))
    found.take(files("a", "/elsewhere"))
    found.take(files("b", path))


def table(name: str, *, shared: bool = False) -> Flow:
    return flow_of(
        name, job() | {"output": {"type": "delta", "path": "file:/x/../out/", "allow_other_writers": shared}}
    )


def test_a_delta_table_is_shared_when_the_second_job_says_so() -> None:
    found = Flows([table("a")])
    with pytest.raises(InvalidConfig, match=r"the job a writes to /out.* set output.allow_other_writers"):
        found.take(table("b"))
    found.take(table("b", shared=True))
    found.take(table("a"))


def test_two_jobs_that_have_one_table_already_can_be_written_and_no_third_takes_it() -> None:
    """An earlier release let them. Once one of them is gone from the table, it stays the other's."""
    found = Flows([table("a"), table("b")])
    for name in ("a", "b"):
        found.take(table(name)._replace(reads=("other",)))
    moved = flow_of("b", job() | {"output": {"type": "delta", "path": "/elsewhere"}})
    for written in (table("c"), moved, table("b")):
        if written is moved:
            found.take(written)
            continue
        with pytest.raises(InvalidConfig, match=r"the job a writes to /out"):
            found.take(written)


@pytest.mark.parametrize("before", [table("b", shared=True), table("b")._replace(folder="/elsewhere")])
def test_a_table_that_others_have_is_not_taken_for_one_job_or_by_a_move(before: Flow) -> None:
    found = Flows([table("a"), before])
    with pytest.raises(InvalidConfig, match=r"the job a writes to /out"):
        found.take(table("b"))


@pytest.mark.parametrize("table", ["public.t", "t"])
def test_a_postgres_table_is_shared_when_the_second_job_says_so(table: str) -> None:
    def rows(name: str, **output: object) -> Flow:
        return flow_of(name, job() | {"output": {"type": "postgres", "connection": "default", "table": table} | output})

    found = Flows([rows("a", table="t")])
    with pytest.raises(InvalidConfig, match=r"the job a writes to the table t .* set output.allow_other_w") as refused:
        found.take(rows("b"))
    assert (refused.value.field, refused.value.rule) == ("output.table", "table_taken")
    for other in ({"connection": "elsewhere"}, {"table": "other.t"}, {"allow_other_writers": True}):
        found.take(rows("b", **other))


def test_topics_may_be_shared() -> None:
    found = [flow_of(name, job() | {"output": {"type": "kafka", "topic": "t"}}) for name in ("a", "b")]
    assert [(each.writes, each.folder) for each in found] == [("t", None)] * 2


def _of(name: str, output: str | None, dead_letters: str | None = None) -> Flow:
    written = {"type": "delta", "path": "/out"} if output is None else {"type": "kafka", "topic": output}
    return flow_of(name, job() | {"output": written, "dead_letter_topic": dead_letters})


@pytest.mark.parametrize(
    ("known", "written", "field"),
    [
        (_of("a", "t", "bad"), _of("b", "bad"), "output.topic"),
        (_of("a", "t"), _of("b", "a.dead-letters"), "output.topic"),
        (_of("a", "t"), _of("b", "bad", "bad"), "output.topic"),
        (_of("a", "t"), _of("b", "b.dead-letters"), "output.topic"),
        (_of("a", "t"), _of("b", "u", "t"), "dead_letter_topic"),
        (_of("a", "b.dead-letters"), _of("b", "u"), "dead_letter_topic"),
        (_of("a", "t", "bad"), _of("b", "u", "bad"), None),
        (_of("a", "t", "bad"), _of("b", None), None),
        (_of("a", "t", "bad"), _of("b", "t"), None),
        (_of("b", "t", "bad"), _of("b", "bad", "worse"), None),
        (Flow("a", (), "t"), _of("b", "a.dead-letters"), None),
    ],
)
def test_rows_do_not_go_where_malformed_records_go(known: Flow, written: Flow, field: str | None) -> None:
    """Several jobs may share a topic of rows, or one of malformed records."""
    found = Flows([known])
    if field is None:
        found.take(written)
        return
    with pytest.raises(InvalidConfig, match=field) as refused:
        found.take(written)
    assert refused.value.field == field


@pytest.mark.parametrize("noted", [True, False])
def test_a_job_that_breaks_a_newer_rule_can_be_written(noted: bool) -> None:
    """An earlier release let `b` write among the malformed records of `a`, and `c` among its own. All can go on as they
    are, whatever else is written. What would break the rule anew is refused."""
    before = [_of("a", None, "errors"), _of("b", "errors"), _of("c", "own", "own")]
    found = Flows(before if noted else [each._replace(dead_letters=None) for each in before])
    for each in before:
        found.take(each._replace(reads=("flights", "more")))
    with pytest.raises(InvalidConfig, match="is the output of the job b"):
        found.take(_of("c", "own", "errors"))
    with pytest.raises(InvalidConfig, match="malformed records of the job a"):
        found.take(_of("c", "errors", "own"))


def test_a_loop_that_was_there_is_no_reason_against_a_write() -> None:
    found = flows("a: t0 > t1", "b: t1 > t0")
    found.take(flow("a: t0 > t1")._replace(dead_letters="bad"))
    with pytest.raises(InvalidConfig, match="output again"):
        found.take(flow("a: t0 t5 > t1"))


_SIDES: dict[str, Any] = {
    "topic": {"output": {"type": "kafka", "topic": "u", "cluster": "eu"}},
    "loop": {"output": {"type": "kafka", "topic": "v", "allow_loop": True}},
    "delta": {"output": {"type": "delta", "path": "file:/d/"}},
    "shared": {"output": {"type": "postgres", "table": "public.p", "allow_other_writers": True}},
    "function": {"output": {"type": "foreach_batch", "python": "m:f"}},
}


def side(name: str, sides: dict[str, Any], **more: Any) -> tuple[Flow, dict[str, str]]:
    config = job() | {"side_outputs": sides} | more
    return flow_of(name, config), fields_of(config)


def test_side_outputs_are_in_the_flow_of_their_job() -> None:
    found, fields = side("a", _SIDES)
    assert (found.side_topics, found.side_loops) == (("u@eu", "v"), ("v",))
    assert (found.side_stores, found.side_folders) == (("/d", "postgres:default/p"), ("/d",))
    assert found.passes_on == {"clean", "u@eu", "/d"}
    assert fields["u@eu"] == "side_outputs.topic.output"
    assert fields["/d"] == "side_outputs.delta.output"
    assert flow_of("a", job())[6:] == ((), (), (), ())


@pytest.mark.parametrize(
    ("known", "sides", "field", "rule"),
    [
        (job() | {"output": {"type": "delta", "path": "/d"}}, _SIDES, "side_outputs.delta.output.path", "folder_taken"),
        (
            job() | {"output": {"type": "postgres", "table": "p"}},
            {"s": {"output": {"type": "postgres", "table": "p"}}},
            "side_outputs.s.output.table",
            "table_taken",
        ),
        (
            job() | {"dead_letter_topic": "bad"},
            {"s": {"output": {"type": "kafka", "topic": "bad"}}},
            "side_outputs.s.output.topic",
            "dead_letters",
        ),
        (
            job({"inputs": {"flights": {"topic": "w"}}, "output": {"topic": "flights"}}),
            {"s": {"output": {"type": "kafka", "topic": "w"}}},
            "side_outputs.s.output.topic",
            "loop",
        ),
    ],
)
def test_what_is_refused_of_an_output_is_refused_of_a_side_output(
    known: dict[str, Any], sides: dict[str, Any], field: str, rule: str
) -> None:
    """And where the side output is the first, of the other job's output."""
    other = flow_of("other", known)
    found = Flows([other])
    with pytest.raises(InvalidConfig) as refused:
        found.take(*side("a", sides))
    assert (refused.value.field, refused.value.rule) == (field, rule)
    found.take(flow_of("a", job()))
    first = Flows([side("a", sides)[0]])
    with pytest.raises(InvalidConfig):
        first.take(other)


def test_a_side_output_may_loop_by_its_own_leave() -> None:
    found = Flows([flow_of("b", job({"inputs": {"flights": {"topic": "v"}}, "output": {"topic": "flights"}}))])
    found.take(*side("a", {"loop": _SIDES["loop"]}))
    with pytest.raises(InvalidConfig, match="a > v > b > flights > a") as refused:
        found.take(*side("a", {"loop": {"output": {"type": "kafka", "topic": "v"}}}))
    assert "set side_outputs.loop.output.allow_loop" in refused.value.detail
