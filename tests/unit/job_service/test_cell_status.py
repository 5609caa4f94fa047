"""Which parts of a cell are well, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.loops import LoopRound
from services.job_service.cell_facts import CellFacts, ContainerFacts, Leader, Probe
from services.job_service.cell_status import NEEDED_LOOPS, Seen, status_of


def leader(loop: str, **facts: Any) -> Leader:
    return Leader(loop, "host-1", "http://leader", 3, 9.0)._replace(**facts)


def noted(loop: str, **facts: Any) -> LoopRound:
    return LoopRound(loop, 3, 30.0, 0.1, None, 4.0, 4.0)._replace(**facts)


def container(name: str = "a", **facts: Any) -> ContainerFacts:
    return ContainerFacts(name, True, "open", 1.0, 2.0)._replace(**facts)


def cell(**facts: Any) -> CellFacts:
    well = CellFacts(
        [leader(loop) for loop in NEEDED_LOOPS], [noted(loop) for loop in NEEDED_LOOPS], [container()], {}, "0011"
    )
    return well._replace(**facts)


def seen(of: CellFacts | None = None, **facts: Any) -> Seen:
    well = Seen(of or cell(), {"task_service": Probe("http://t")}, {None: Probe("k:1", brokers=1)}, "0011", 0.01, 60.0)
    return well._replace(**facts)


def others(loop: str, kind: Any, **facts: Any) -> list[Any]:
    return [kind(each, **(facts if each == loop else {})) for each in NEEDED_LOOPS]


STALE: dict[str, Any] = {"age_seconds": 76.0, "good_age_seconds": 76.0}
FAILS: dict[str, Any] = {"error": "Unavailable: no store", "good_age_seconds": 90.0}
BAD = {
    "a loop without a round": (
        seen(cell(rounds=others("state_syncer", noted, **STALE))),
        "loop state_syncer",
        "no round for 76 s",
        "restart it",
    ),
    "a loop whose rounds fail": (
        seen(cell(rounds=others("state_syncer", noted, **FAILS))),
        "loop state_syncer",
        "no good round for 90 s: Unavailable: no store",
        "log",
    ),
    "a loop whose last round failed": (
        seen(cell(rounds=others("state_syncer", noted, error="Bug: x"))),
        "loop state_syncer",
        "it failed: Bug: x",
        "log",
    ),
    "a loop that nobody leads": (
        seen(cell(leaders=others("shard_manager", leader, seconds_left=-8.0))),
        "loop shard_manager",
        "nobody leads",
        "start the shard_manager",
    ),
    "a loop that was never there": (
        seen(cell(leaders=[], rounds=[noted("job_service.expiry"), noted("shard_manager")])),
        "loop state_syncer",
        "no round yet",
        "start the state_syncer",
    ),
    "a service whose certificate ends soon": (
        seen(services={"task_service": Probe("https://t", certificate_days_left=13.4)}),
        "service task_service",
        "its certificate ends in 13.4 days",
        "by the command in its log, and bring the folder to it; `penstock certificates rotate` only where all share",
    ),
    "a service that does not answer": (
        seen(services={"task_service": Probe("http://t", "refused")}),
        "service task_service",
        "does not answer at http://t: refused",
        "start it",
    ),
    "another schema": (seen(schema="0012"), "store", "schema 0011; this release has 0012", "release"),
    "a slow store": (seen(store_seconds=3.0), "store", "answers in 3000 ms", "pg_stat_activity"),
    "no broker": (
        seen(buses={None: Probe("k:1", "timed out")}),
        "bus",
        "answers at k:1: timed out",
        "PENSTOCK_KAFKA_BOOTSTRAP",
    ),
    "no broker of another cluster": (
        seen(buses={None: Probe("k:1", brokers=1), "eu": Probe("e:1", "timed out")}),
        "bus eu",
        "no broker answers at e:1: timed out",
        "eu in PENSTOCK_KAFKA_CLUSTERS",
    ),
    "a silent container": (
        seen(cell(containers=[container(), container("b", report_age_seconds=61.0)])),
        "containers",
        "2 open; no report for 60 s: b",
        "restart these",
    ),
    "no container reports": (
        seen(cell(containers=[container(report_age_seconds=None)])),
        "containers",
        "no report for 60 s: a",
        "start the Task Service",
    ),
    "no container takes shards": (
        seen(cell(containers=[container(availability="cordoned"), container("b", is_live=False)])),
        "containers",
        "1 cordoned, 1 lost",
        "uncordon",
    ),
    "open alerts": (seen(cell(alerts={"quarantined": 2})), "alerts", "2 quarantined", "penstock alerts"),
}


@pytest.mark.parametrize(("of", "part", "summary", "advice"), BAD.values(), ids=BAD.keys())
def test_what_is_not_well_is_told_with_what_to_do(of: Seen, part: str, summary: str, advice: str) -> None:
    found = status_of(of)
    bad = {line.part: line for line in found.parts if not line.ok}
    assert not found.ok
    assert part in bad
    assert summary in bad[part].summary
    assert advice in (bad[part].advice or "")


def test_a_cell_that_is_well_has_nothing_to_do() -> None:
    found = status_of(seen())
    assert found.ok
    assert {line.advice for line in found.parts} == {None}
    assert [line.part for line in found.parts] == [
        *(f"loop {loop}" for loop in NEEDED_LOOPS), "service task_service", "store", "bus", "containers", "alerts",
    ]  # fmt: skip


def test_a_lost_container_may_be_forgotten() -> None:
    """The cell is well all the same."""
    found = status_of(seen(cell(containers=[container(), container("b", is_live=False)])))
    assert found.ok
    (line,) = (line for line in found.parts if line.part == "containers")
    assert (line.summary, line.advice) == ("1 lost, 1 open", "b may come back; else `penstock forget NAME`")


def test_a_service_that_does_not_know_where_kafka_is_says_nothing_of_it() -> None:
    assert "bus" not in [line.part for line in status_of(seen(buses={})).parts]
