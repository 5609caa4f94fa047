"""Facts, and the causes that are found, the likeliest first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.model.alerts import AlertKind
from penstock.model.causes import CauseKind, Certainty
from penstock.model.health import Moment
from penstock.model.jobs import JobState
from penstock.model.loops import LoopRound
from penstock.model.states import Health
from penstock.tasks.rollout import LeafChange, Rejected
from services.job_service.causes.facts import ContainerEvidence, Crashes, Elsewhere, Facts, Minute, Upstream
from services.job_service.causes.rank import causes_of
from services.job_service.cell_facts import Leader
from tests.support.job_service.causes import BUSY, NOW, WELL, ago, alert, change, facts, failed, leaf, task

STALLED = LoopRound("state_syncer", 1, 30.0, 0.1, None, 300.0, 300.0)
NOBODY = Leader("state_syncer", "m1", "http://m1", 1, -290.0)
CRASHES = [Crashes(0, (ago(500), ago(400), ago(300)), "x")]
OOM = failed("Java heap space (OutOfMemoryError)", out_of_memory=True)
HOT = (10.0,) * 7 + (900.0,)
OVER = [Minute(ago(60 * number), 1000.0 if number < 9 else 1.0) for number in range(1, 20)]
SILENT = Moment(NOW, ago(600))
OLD = {"reported_at": ago(600), "alive_at": ago(2)}
C1 = ContainerEvidence("c1", True, "open", None, 0, 0, 0)
PACKAGE = LeafChange(path=("package", "version"), old="1", new="2")
REJECTED = Rejected(revision=7, leaves=(PACKAGE,), wave=0, waves=2, task="etl/0", error="ValueError: 3")
AT_ITS_LIMIT = BUSY | {"backlog_records": 787, "input_rows_per_second": 3.9, "processed_rows_per_second": 5.0}
AT_ITS_LIMIT |= {"busy_share": 0.5}
"""What Spark measures of a task with 20 records per trigger of 5 s: it never says more than that comes in."""
UNKNOWN = "Failed to delete the folder"
LAG = facts([task(0, progress=BUSY)])
FIRST = [
    ("the syncer is down", facts(job={"state": JobState.PENDING}, rounds=[STALLED], leaders=[NOBODY]), "process_down"),
    ("nobody reports", facts([task(**OLD)], moment=SILENT), "process_down"),
    (
        "no owner",
        facts(job={"committed_at": ago(900)}, owners={0: None}, is_open=False),
        "no_room",
    ),
    (
        "no container fits",
        facts(job={"committed_at": ago(900)}, owners={0: None}, alerts=[alert(AlertKind.SELECTOR_UNMET)]),
        "no_room",
    ),
    ("a lost container", facts([task(failed_over=True)], containers=[C1._replace(is_live=False)]), "bad_container"),
    (
        "a container that fails elsewhere too",
        facts([failed("x")], containers=[C1._replace(others=4, bad_others=3, bad_jobs=2)], elsewhere=Elsewhere(50, 1)),
        "bad_container",
    ),
    (
        "a slow container",
        facts(
            [task(0, progress=BUSY | {"input_rows_per_second": 80.0}), task(1, "c2"), task(2, "c3")], containers=[C1]
        ),
        "bad_container",
    ),
    ("the end of a host", facts([failed("host h1 ended: jvm died")]), "host_ended"),
    ("no host", facts([failed("its Spark host did not start: not started: no Java")]), "host_ended"),
    ("a frozen host", facts([task(progress=WELL | {"silent_seconds": 40.0})], containers=[C1]), "bad_container"),
    (
        "stopped by oncall",
        facts(job={"wants_tasks": False, "state": JobState.STOPPED}, settings=[leaf("desired_state", "stopped")]),
        "held_by_layer",
    ),
    (
        "a trigger longer than the SLO",
        facts([task(progress=BUSY)], settings=[leaf("trigger_interval_seconds", 600.0)]),
        "held_by_layer",
    ),
    (
        "a limit of records",
        facts(
            [task(progress=AT_ITS_LIMIT)],
            settings=[leaf("max_records_per_trigger", 20)],
            config={"trigger_interval_seconds": 5.0},
        ),
        "held_by_layer",
    ),
    ("pinned", facts([task(progress=BUSY)], settings=[leaf("task_count", 1)]), "held_by_layer"),
    ("quarantined", facts(job={"state": JobState.QUARANTINED, "detail": "no disk"}), "change_failed"),
    (
        "fewer tasks",
        facts([task(progress=BUSY)], changes=[change({"task_count": 4}, {"task_count": 1})], minutes=OVER),
        "recent_change",
    ),
    (
        "less memory",
        facts(
            [OOM],
            crashes=CRASHES,
            changes=[change(None, {"resources": {"memory_bytes": 2**27}})],
            settings=[leaf("resources.memory_bytes", 2**27)],
        ),
        "recent_change",
    ),
    (
        "another query",
        facts([failed("[DIVIDE_BY_ZERO] x")], crashes=CRASHES, changes=[change({"query": "a"}, {"query": "b"})]),
        "recent_change",
    ),
    (
        "waits for a producer",
        facts([task(progress=WELL | {"held_back_by": "up/0/1", "held_back_seconds": 90.0})]),
        "upstream",
    ),
    ("malformed records", facts([failed("flights: a record does not fit value_schema")]), "malformed_input"),
    ("late rows", facts([task(progress=WELL | {"input_problems": {"late_rows": "7 late rows"}})]), "late_rows"),
    ("memory", facts([OOM]), "out_of_memory"),
    ("the query", facts([failed("query: no column x")]), "bad_code"),
    ("a rejected package", facts([task()], job={"mixed": True}, rejected=REJECTED), "bad_code"),
    ("the login at kafka", facts([failed("kafka refuses the user a (PLAIN) at b:9092: wrong")]), "kafka_login"),
    ("the output", facts([failed("postgres cannot serve the sink now: refused")]), "output_error"),
    ("a batch that does not finish", facts([task(progress=BUSY | {"oldest_unread_seconds": 2e3})]), "output_error"),
    ("the input", facts([failed("kafka did not describe the topics a: timed out")]), "input_error"),
    (
        "a topic that is gone, of a job that lags, too",
        facts([task(progress=BUSY | {"input_problems": {"input_unreadable": "there is no topic t"}})]),
        "input_error",
    ),
    ("little is read", facts([task(progress=BUSY | {"busy_share": 0.01})]), "input_error"),
    (
        "a hot key group",
        facts(
            [task(0), task(1, progress=BUSY | {"input_rows_per_second": 930.0})],
            key_group_rates=HOT,
            containers=[C1],
        ),
        "hot_key_group",
    ),
    ("at its limit", facts([task(progress=BUSY)], config={"max_task_count": 1}), "at_limit"),
    ("too small", LAG, "too_small"),
    (
        "less and less lag",
        facts(
            [task(progress=BUSY | {"processed_rows_per_second": 900.0, "busy_share": 0.7})],
            minutes=[Minute(ago(60 * number), 200.0 + number) for number in (3, 2, 1)],
        ),
        "catching_up",
    ),
    (
        "its first batches",
        facts([task(progress={"oldest_unread_seconds": 120.0})]),
        "warming_up",
    ),
    (
        "a first batch that takes far too long",
        facts([task(progress={"oldest_unread_seconds": 200.0})]),
        "output_error",
    ),
    ("many lag", facts([task(progress=BUSY)], alerts=[alert(AlertKind.SCALING_FROZEN, "cell")]), "too_small"),
    ("an unknown error", facts([failed(UNKNOWN)]), "other_error"),
]


@pytest.mark.parametrize(("known", "kind"), [row[1:] for row in FIRST], ids=[row[0] for row in FIRST])
def test_the_first_cause(known: Facts, kind: str) -> None:
    found = causes_of(known)
    assert [each.kind for each in found][:1] == [CauseKind(kind)], found
    assert found[0].evidence
    assert found[0].advice


def test_each_kind_is_the_first_of_some_facts() -> None:
    assert set(CauseKind) - {CauseKind(row[2]) for row in FIRST} == {CauseKind.MANY_JOBS}


NONE: list[tuple[str, Facts]] = [
    ("a healthy job", facts([task()])),
    ("an unrelated change", facts([failed("?")], crashes=CRASHES, changes=[change({"priority": 1}, {"priority": 2})])),
    ("more tasks", facts([task(progress=BUSY)], changes=[change({"task_count": 1}, {"task_count": 2})], minutes=OVER)),
    (
        "a change long before",
        facts(
            [task(progress=BUSY)],
            changes=[change({"task_count": 4}, {"task_count": 1}, 9e4)],
            minutes=OVER,
            job={"committed_at": ago(9e4)},
        ),
    ),
    (
        "a change after it began",
        facts([task(progress=BUSY)], changes=[change({"task_count": 4}, {"task_count": 1}, 60)], minutes=OVER),
    ),
    (
        "a change a moment after it crashed",
        facts([failed("[DIVIDE_BY_ZERO] x")], crashes=CRASHES, changes=[change({"query": "a"}, {"query": "b"}, 499)]),
    ),
    (
        "a hidden change",
        facts(
            [task(progress=BUSY)],
            changes=[change({"task_count": 4}, {"task_count": 1}, layer="base")],
            settings=[leaf("task_count", 3, "provisioner")],
            minutes=OVER,
        ),
    ),
    (
        "not committed yet",
        facts(
            [task(progress=BUSY)],
            job={"running_revision": 6},
            changes=[change({"task_count": 4}, {"task_count": 1})],
            minutes=OVER,
        ),
    ),
    ("one container for all", facts([failed("x")], containers=[C1])),
    (
        "a container where others do well",
        facts([failed("x")], containers=[C1._replace(others=9, bad_others=1, bad_jobs=1)], elsewhere=Elsewhere(9, 0)),
    ),
    (
        "a container, and nothing runs elsewhere",
        facts([failed("x")], containers=[C1._replace(others=3, bad_others=3)], elsewhere=Elsewhere(0, 0)),
    ),
    (
        "bad everywhere",
        facts([failed("x")], containers=[C1._replace(others=2, bad_others=2)], elsewhere=Elsewhere(9, 9)),
    ),
    (
        "a syncer that works",
        facts(job={"state": JobState.PENDING}, rounds=[STALLED._replace(age_seconds=1, good_age_seconds=1)]),
    ),
]
NO_CONTAINER = facts([failed("query: no column x"), task(1, "c2")], containers=[C1])
OTHERS = {CauseKind.RECENT_CHANGE, CauseKind.BAD_CONTAINER, CauseKind.PROCESS_DOWN}


def test_an_error_that_a_task_has_anywhere_accuses_no_container() -> None:
    assert [each.kind for each in causes_of(NO_CONTAINER)] == [CauseKind.BAD_CODE]
    second = causes_of(facts([failed(UNKNOWN), task(1, "c2")], containers=[C1]))[1]
    assert second.summary.startswith("the container c1 may be bad"), "of an unknown error it is said, after the crash"


def test_the_end_of_one_host_accuses_no_container_for_sure() -> None:
    """It took the tasks of other jobs with it; elsewhere all is well."""
    ended = facts(
        [failed("host h1 ended: jvm died")],
        containers=[C1._replace(others=3, bad_others=3, bad_jobs=2)],
        elsewhere=Elsewhere(50, 0),
    )
    found = [(each.kind, each.certainty) for each in causes_of(ended)]
    assert found[0][0] is CauseKind.HOST_ENDED
    assert (CauseKind.BAD_CONTAINER, Certainty.POSSIBLE) in found


def test_a_host_that_cannot_start_is_told_with_its_last_words() -> None:
    (cause, *_) = causes_of(facts([failed("its Spark host did not start: not started: Unrecognized VM option")]))
    assert cause.summary == "no Spark host can be started for the tasks"
    assert cause.evidence == ("task 0: its Spark host did not start: not started: Unrecognized VM option",)
    assert "its last words name" in cause.advice


@pytest.mark.parametrize("known", [row[1] for row in NONE], ids=[row[0] for row in NONE])
def test_what_is_no_cause(known: Facts) -> None:
    assert not OTHERS & {each.kind for each in causes_of(known)}


@pytest.mark.parametrize("kind", [AlertKind.MALFORMED_RECORDS, AlertKind.NO_EVENT_TIME])
def test_causes_come_by_certainty_then_from_far_to_near(kind: AlertKind) -> None:
    """A task crashes in its query, another job upstream is lagging, records lack something: the first is certain."""
    broken = failed("query: no column x")
    problems: dict[str, Any] = {"input_problems": {kind.value: "3 malformed records"}}
    known = facts(
        [broken, task(1, progress=WELL | problems)], upstream=[Upstream("up", "t", Health.LAGGING, "task 0: is behind")]
    )
    found = [(each.kind, each.certainty) for each in causes_of(known)]
    assert found == [
        (CauseKind.BAD_CODE, Certainty.CERTAIN),
        (CauseKind.UPSTREAM, Certainty.POSSIBLE),
        (CauseKind.MALFORMED_INPUT, Certainty.POSSIBLE),
    ]


CODE = change({"query": {"sql": "a"}}, {"query": {"sql": "b"}})
BROKEN = failed("[DIVIDE_BY_ZERO] x")
FRESH = Crashes(0, tuple(ago(seconds) for seconds in (300, 240, 180, 120, 60)), "x")


@pytest.mark.parametrize(
    ("known", "certainty"),
    [
        # Crashes that are forgotten, or that the restart by the change hides, may have been before it.
        (facts([BROKEN], crashes=[FRESH], changes=[CODE]), Certainty.LIKELY),
        (facts([BROKEN], crashes=[FRESH], changes=[CODE], minutes=[Minute(ago(700), crashes=0.0)]), Certainty.CERTAIN),
        (facts([BROKEN], crashes=[FRESH], changes=[CODE], minutes=[Minute(ago(700), crashes=1.0)]), None),
        (facts([BROKEN], crashes=[replace(FRESH, crashed_at=(ago(200), ago(100)))], changes=[CODE]), Certainty.CERTAIN),
        # A task that is well crashed yesterday.
        (
            facts(
                [BROKEN, task(1)],
                crashes=[replace(FRESH, crashed_at=(ago(200),)), Crashes(1, (ago(72_000),), "y")],
                changes=[CODE],
            ),
            Certainty.CERTAIN,
        ),
        # All minutes that are read are over the SLO: it may have begun at any time before.
        (
            facts(
                [task(progress=BUSY)],
                changes=[change({"task_count": 4}, {"task_count": 1}, 11_400.0)],
                minutes=[Minute(ago(60 * number), 1000.0) for number in range(180)],
                job={"committed_at": ago(11_400)},
            ),
            None,
        ),
    ],
)
def test_a_change_is_accused_as_far_as_it_is_known_what_was_before(known: Facts, certainty: Certainty | None) -> None:
    found = [each.certainty for each in causes_of(known) if each.kind is CauseKind.RECENT_CHANGE]
    assert found == ([] if certainty is None else [certainty])


def test_a_dropped_layer_counts_by_what_then_holds() -> None:
    """The layer oncall gave 4 tasks, and has expired: the layer below gives 1."""
    known = facts(
        [task(progress=BUSY)],
        changes=[change({"task_count": 4}, None, action="expire", author="expiry")],
        settings=[leaf("task_count", 1, "base")],
        minutes=OVER,
    )
    first = causes_of(known)[0]
    assert (first.kind, first.certainty) == (CauseKind.RECENT_CHANGE, Certainty.CERTAIN)
    assert first.summary == "the layer oncall expired: task_count: 4 to 1"
    assert "task_count: 4 to 1" in first.evidence[0]
    assert "penstock revert etl oncall 1" in first.advice


def test_a_hot_group_that_no_ranges_help_is_said_to_need_another_key() -> None:
    tasks = [task(0), task(1, progress=BUSY | {"input_rows_per_second": 930.0})]
    (first, *_) = causes_of(facts(tasks, key_group_rates=(0.0,) * 7 + (900.0,)))
    assert "key group 7 alone has 100% of the input" in first.evidence
    assert "another key" in first.advice


def test_a_limit_below_oncall_is_hidden_not_dropped() -> None:
    """The job cannot be without its layer base: an override is what helps at once."""
    limit = leaf("max_records_per_trigger", 20, "base")
    known = facts(
        [task(progress=AT_ITS_LIMIT)],
        settings=[limit],
        config={"trigger_interval_seconds": 5.0},
        key_group_rates=(3.0,) * 8,
    )
    (first, *_) = causes_of(known)
    assert (first.kind, first.certainty) == (CauseKind.HELD_BY_LAYER, Certainty.CERTAIN)
    assert first.evidence[1:] == (
        "task 0 reads 3.9 rows/s of the 4.0 that it may, and 787 rows wait for it",
        "24.0 rows/s come in, and all tasks together may read 4.0 rows/s",
    )
    assert first.advice.startswith("`penstock override etl max_records_per_trigger=200 --reason ... --for 2h`")


@pytest.mark.parametrize(
    "progress", [{"input_rows_per_second": 2.0}, {"backlog_records": 19}], ids=["reads less", "less than a batch waits"]
)
def test_a_limit_that_a_task_does_not_reach_is_no_cause(progress: dict[str, Any]) -> None:
    slow = AT_ITS_LIMIT | {"processed_rows_per_second": 0.1} | progress
    known = facts(
        [task(progress=slow)],
        settings=[leaf("max_records_per_trigger", 20)],
        config={"trigger_interval_seconds": 5.0},
    )
    assert CauseKind.HELD_BY_LAYER not in {each.kind for each in causes_of(known)}


@pytest.mark.parametrize(
    ("config", "advice"),
    [
        ({"inputs": {"in": {"topic": "t", "key_groups": 1}}}, "each task needs a key group"),
        ({"max_task_count": 1}, "`penstock override etl max_task_count=2"),
    ],
)
def test_the_advice_is_about_the_limit_that_counts(config: dict[str, Any], advice: str) -> None:
    (first, *_) = causes_of(facts([task(progress=BUSY)], config=config))
    assert first.kind is CauseKind.AT_LIMIT
    assert first.advice.startswith(advice)


def test_the_minute_of_a_change_is_not_said_to_be_after_it() -> None:
    """The change is of 11:52:20, and the first minute over the SLO is that of 11:52."""
    changes = [change({"task_count": 4}, {"task_count": 1}, 460)]
    (first, *_) = causes_of(facts([task(progress=BUSY)], changes=changes, minutes=OVER))
    assert first.evidence[1] == "the first minute over the SLO is 2026-01-01 11:52 UTC"


def test_a_change_that_failed_says_the_default_that_it_replaces() -> None:
    written = change({}, {"task_count": 4, "args": {"x": 1}})
    known = facts(job={"state": JobState.QUARANTINED, "detail": "no disk"}, changes=[written])
    (first, *_) = causes_of(known)
    assert first.evidence[1].endswith("args.x: unset to 1, task_count: 1 to 4")
