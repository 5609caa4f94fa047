"""Whose event time is passed on by way of many jobs."""

from __future__ import annotations

from typing import Any

from services.job_service.late_producers import Jobs, Late

TIMED = {"event_time_column": "at", "watermark_delay": "1 minute"}


def job(reads: list[str], writes: str, **source: Any) -> dict[str, Any]:
    return {
        "inputs": {f"in{at}": {"topic": name, **source} for at, name in enumerate(reads)},
        "output": {"topic": writes},
    }


def chain(length: int, **first: Any) -> dict[str, Any]:
    jobs = {f"job{at}": job([f"t{at}"], f"t{at + 1}", **(first if at == 0 else {})) for at in range(length)}
    return jobs | {"reader": job([f"t{length}"], "counts", **TIMED)}


def mesh(layers: int, **first: Any) -> dict[str, Any]:
    """Each of two jobs of a layer reads what both of the layer before write."""
    jobs = {
        f"job{layer}{side}": job([f"t{layer}0", f"t{layer}1"], f"t{layer + 1}{side}", **(first if layer == 0 else {}))
        for layer in range(layers)
        for side in range(2)
    }
    return jobs | {"reader": job([f"t{layers}0"], "counts", **TIMED)}


def test_the_event_time_of_the_first_of_a_thousand_jobs_is_passed_on() -> None:
    assert Jobs(chain(1_000, **TIMED)).late() == set()
    assert Jobs(chain(1_000)).late() == {Late("reader", "in0", "t1000", "job999")}


def test_jobs_that_meet_on_many_ways_are_looked_at_once() -> None:
    assert Jobs(mesh(30, **TIMED)).late() == set()
    assert Jobs(mesh(30)).late() == {Late("reader", "in0", "t300", "job290")}


def test_a_loop_keeps_the_event_time_that_comes_into_it() -> None:
    loop = {"one": job(["raw", "back"], "clean"), "two": job(["clean"], "back"), "reader": job(["clean"], "n", **TIMED)}
    assert Jobs({**loop, "first": job(["a"], "raw", **TIMED)}).late() == set()
    assert Jobs({**loop, "first": job(["a"], "raw")}).late() == {Late("reader", "in0", "clean", "one")}
