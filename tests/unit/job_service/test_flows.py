"""Loops of topics and shared folders: which writes are refused, given what other jobs read and write."""

from __future__ import annotations

import pytest

from penstock.control.errors import InvalidConfig
from services.job_service.flows import Flow, Flows, flow_of
from tests.support.config.jobs import job


def flow(text: str, *, may_loop: bool = False) -> Flow:
    """`a: x y > z` reads x and y and writes z."""
    name, rest = text.split(":")
    reads, _, writes = rest.partition(">")
    return Flow(name, tuple(reads.split()), writes.strip() or None, may_loop=may_loop)


def flows(*texts: str) -> Flows:
    return Flows(map(flow, texts), {})


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

    found = Flows([files("a", "/out")], {"/out": "a"})
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
    found = Flows([], {"/out": "a"})
    with pytest.raises(InvalidConfig, match=r"the job a writes to /out.* set output.allow_other_writers"):
        found.take(table("b"))
    found.take(table("b", shared=True))
    found.take(table("a"))


def test_a_delta_job_of_an_earlier_release_can_be_written_though_another_has_its_table() -> None:
    """1. Nothing was known of its table. 2. It is written, as it is to stop, and again. 3. No third one takes it."""
    found = Flows([table("a")], {"/out": "a"})
    before = table("b")._replace(folder=None)
    found.take(table("b"), before)
    found.take(table("b")._replace(reads=("other",)), table("b"))
    with pytest.raises(InvalidConfig, match=r"the job \w writes to /out"):
        found.take(table("c"))
    with pytest.raises(InvalidConfig, match=r"the job \w writes to /out"):
        found.take(table("d"), flow("d: flights > clean"))


def test_other_outputs_may_be_shared() -> None:
    output = {"type": "postgres", "table": "t"}
    found = [flow_of(name, job() | {"output": output}) for name in ("a", "b")]
    assert [(each.writes, each.folder) for each in found] == [(None, None)] * 2


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
    found = Flows([known], {})
    if field is None:
        found.take(written)
        return
    with pytest.raises(InvalidConfig, match=field) as refused:
        found.take(written)
    assert refused.value.field == field
