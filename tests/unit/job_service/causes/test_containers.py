"""Containers that ended and began anew, and tasks that nobody reports."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.causes import CauseKind, Certainty
from penstock.model.states import Health
from services.job_service.causes.facts import ContainerEvidence, Elsewhere, Facts, Gone
from services.job_service.causes.rank import causes_of
from tests.support.job_service.causes import ago, facts, failed, task

C1 = ContainerEvidence("c1", True, "open", None, 0, 0, 0, registered_at=ago(90_000))
ANEW = C1._replace(name="c2", registered_at=ago(20))
STARTING: dict[str, Any] = {"state": "starting", "progress": None}
RUNS_UNKNOWN = task(0, progress={"batch_id": 4})
"""A task that runs, and nobody knows how far it is behind."""
_BEGAN = "the container c2 began 20 s ago; tasks that it is to run start there"
_ANEW = (
    "the container c2 began anew 20 s ago: it had ended, was killed or lost its lease; the tasks that ran there start "
    "again"
)


@pytest.mark.parametrize(
    "known",
    [
        facts([task(0, "c1")], job={"task_count": 2}, owners={0: "c1", 1: "c2"}, containers=[C1, ANEW]),
        facts([task(0, "c1"), task(1, "c2", **STARTING)], owners={0: "c1", 1: "c2"}, containers=[C1, ANEW]),
        facts([RUNS_UNKNOWN], job={"task_count": 2}, owners={0: "c1", 1: "c2"}, containers=[C1, ANEW]),
        facts(
            [task(0), task(1, "c2", reported_at=ago(50), alive_at=ago(3))],
            owners={0: "c1", 1: "c2"},
            containers=[C1, ANEW],
        ),
        facts(
            [task(0)],
            job={"task_count": 2, "committed_at": ago(100)},
            owners={0: "c1", 1: "c2"},
            containers=[C1, ANEW],
        ),
    ],
    ids=[
        "missing",
        "starting",
        "missing, and the lag of another is unknown",
        "told by the life before",
        "just changed",
    ],
)
def test_a_container_that_began_anew_is_the_only_cause_that_its_tasks_wait(known: Facts) -> None:
    (first,) = causes_of(known)
    assert (first.kind, first.certainty) == (CauseKind.BAD_CONTAINER, Certainty.CERTAIN)
    is_told_before = any(each.reported_at == ago(50) for each in known.tasks)
    assert first.summary == (_ANEW if is_told_before else _BEGAN)
    assert first.evidence[0] == "task 1 of the job, which c2 is to run, does not run well yet"


@pytest.mark.parametrize(
    "changes",
    [
        {"job": {"task_count": 2, "committed_at": ago(10)}},
        {"containers": [C1, ANEW._replace(registered_at=ago(900))], "job": {"task_count": 2, "committed_at": ago(100)}},
        {"job": {"task_count": 2, "stopping": True}},
        {"containers": [C1, ANEW._replace(registered_at=None)], "job": {"task_count": 2, "committed_at": ago(100)}},
    ],
    ids=["older than the change", "long ago", "stopped for a change", "unknown"],
)
def test_a_task_that_waits_for_its_start_accuses_no_other_container(changes: dict[str, Any]) -> None:
    known: dict[str, Any] = {"owners": {0: "c1", 1: "c2"}, "containers": [C1, ANEW]}
    found = causes_of(facts([task(0)], **(known | changes)))
    assert CauseKind.BAD_CONTAINER not in {each.kind for each in found}


def test_an_error_in_the_new_life_is_told_as_an_error() -> None:
    found = causes_of(facts([failed("query: no column x", container="c2")], owners={0: "c2"}, containers=[ANEW]))
    assert [each.kind for each in found] == [CauseKind.BAD_CODE]


def test_a_task_that_is_behind_in_the_new_life_is_told_by_its_lag() -> None:
    behind = task(0, "c2", progress={"oldest_unread_seconds": 120.0})
    found = causes_of(facts([behind], owners={0: "c2"}, containers=[ANEW]))
    assert [each.kind for each in found] == [CauseKind.WARMING_UP]


def test_a_task_that_no_container_reports_is_told_with_the_one_that_is_to_run_it() -> None:
    """The job was changed long ago: it is not just starting. The lag of the other task is unknown, which is less."""
    old = ContainerEvidence("c2", True, "open", None, 0, 0, 0, registered_at=ago(90_000))
    known = facts([RUNS_UNKNOWN], job={"task_count": 2}, owners={0: "c1", 1: "c2"}, containers=[C1, old])
    assert known.verdict.health is Health.UNKNOWN
    (first,) = causes_of(known)
    assert (first.kind, first.certainty) == (CauseKind.BAD_CONTAINER, Certainty.LIKELY)
    assert first.summary == "the container c2 may be bad: task 1 of the job is to run there"
    assert first.evidence == ("no container reports task 1, which c2 is to run",)


_OLD = C1._replace(name="c2", registered_at=ago(90_000))
_LOST, _BACK = Gone("c3", ago(75), is_back=False), Gone("c3", ago(30), is_back=True)


@pytest.mark.parametrize(
    "tasks",
    [[RUNS_UNKNOWN], [task(0, "c1"), task(1, "c2", **STARTING)], [task(0, "c1"), task(1, "c2", progress={})]],
    ids=["no container reports it yet", "it starts", "it runs, and has finished no batch"],
)
@pytest.mark.parametrize(
    ("gone", "certainty", "what"),
    [
        (_LOST, Certainty.LIKELY, "is lost: nothing was heard of it since 11:58:45 UTC; its tasks start"),
        (_BACK, Certainty.POSSIBLE, "started 30 s ago; if this was a restart, the tasks that it had start"),
    ],
    ids=["lost", "back without its shards"],
)
def test_a_killed_container_is_the_first_cause_that_its_tasks_wait_on_another_one(
    tasks: list[Any], gone: Gone, certainty: Certainty, what: str
) -> None:
    """The reports of a lost container are forgotten, and its heir is no bad container."""
    known = facts(tasks, job={"task_count": 2}, owners={0: "c1", 1: "c2"}, containers=[C1, _OLD], gone=[gone])
    first, *more = causes_of(known)
    assert (first.kind, first.certainty) == (CauseKind.BAD_CONTAINER, certainty)
    assert first.summary == f"the container c3 {what} on other containers"
    assert first.evidence == ("these tasks do not run well yet; perhaps c3 ran them before: task 1 on c2",)
    assert CauseKind.BAD_CONTAINER not in {each.kind for each in more}


@pytest.mark.parametrize(
    ("changes", "accused"),
    [
        ({"gone": [_LOST], "job": {"task_count": 2, "committed_at": ago(60)}}, "c2"),
        ({"gone": [_LOST._replace(at=ago(400))]}, "c2"),
        ({"gone": [_LOST], "owners": {0: "c1"}, "job": {}}, ""),
    ],
    ids=["it went before the last change", "it went long ago", "no task waits"],
)
def test_a_container_that_went_is_accused_of_nothing_else(changes: dict[str, Any], accused: str) -> None:
    known: dict[str, Any] = {"job": {"task_count": 2}, "owners": {0: "c1", 1: "c2"}, "containers": [C1, _OLD]}
    found = causes_of(facts([RUNS_UNKNOWN], **(known | changes)))
    told = [each.summary for each in found if each.kind is CauseKind.BAD_CONTAINER]
    assert all(f"the container {accused} may be bad" in each for each in told)
    assert not any("c3" in each for each in told)


@pytest.mark.parametrize(
    ("gone", "moved_seconds_ago", "is_accused"),
    [
        (_LOST, 80, True),
        (_LOST, 15, False),
        (_BACK, 400, True),
        (_BACK, 40, False),
        (_BACK, 10, False),
    ],
    ids=["had it before", "got it since", "back, had it before", "back, got it before that", "back, got it after that"],
)
def test_only_a_container_that_got_the_shard_since_another_went_is_not_accused(
    gone: Gone, moved_seconds_ago: float, is_accused: bool
) -> None:
    """In a cell of hundreds some container was always lost or started lately."""
    known = facts(
        [RUNS_UNKNOWN],
        job={"task_count": 2},
        owners={0: "c1", 1: "c2"},
        moved_at={0: ago(90_000), 1: ago(moved_seconds_ago)},
        containers=[C1, _OLD],
        gone=[gone],
    )
    told = [each.summary for each in causes_of(known) if each.kind is CauseKind.BAD_CONTAINER]
    assert any("the container c2 may be bad" in each for each in told) is is_accused
    assert not (is_accused and any("c3" in each for each in told)), "one that is gone did not have the shard"


def test_a_container_that_was_added_is_not_named() -> None:
    """A shard that moved after it began was not one that it lost before."""
    known = facts(
        [RUNS_UNKNOWN],
        job={"task_count": 2},
        owners={0: "c1", 1: "c2"},
        moved_at={0: ago(90_000), 1: ago(15)},
        containers=[C1, _OLD],
        gone=[_LOST, _BACK._replace(name="added")],
    )
    told = [each.summary for each in causes_of(known) if each.kind is CauseKind.BAD_CONTAINER]
    assert told == [
        "the container c3 is lost: nothing was heard of it since 11:58:45 UTC; its tasks start on other containers"
    ]


_MANY_LOST = [_LOST._replace(name=f"l{number}", at=ago(75 + number)) for number in range(7)]
_MANY_BACK = [_BACK._replace(name=f"b{number}", at=ago(30 + number)) for number in range(7)]


@pytest.mark.parametrize(
    ("gone", "certainty", "summary"),
    [
        (
            _MANY_LOST,
            Certainty.LIKELY,
            "the containers l0, l1, l2, l3, l4 and 2 more are lost: of the first of them nothing was heard since "
            "11:58:39 UTC; their tasks start on other containers",
        ),
        (
            _MANY_BACK,
            Certainty.POSSIBLE,
            "the containers b0, b1, b2, b3, b4 and 2 more started in the last 36 s; if these were restarts, the tasks "
            "that they had start on other containers",
        ),
        (
            [*_MANY_BACK[:2], _MANY_LOST[0]],
            Certainty.LIKELY,
            "the containers l0, b0, b1 were lost or started in the last 75 s; the tasks that they had start on other "
            "containers",
        ),
    ],
    ids=["lost", "back", "both"],
)
def test_many_containers_that_went_are_one_cause_with_five_names(
    gone: list[Gone], certainty: Certainty, summary: str
) -> None:
    """In a rolling restart each container goes and comes back."""
    starting = [task(index, "c2", **STARTING) for index in range(1, 8)]
    known = facts(
        [task(0, "c1"), *starting],
        owners={0: "c1"} | {each.index: "c2" for each in starting},
        moved_at={0: ago(90_000)} | {each.index: ago(50) for each in starting},
        containers=[C1, _OLD],
        gone=gone,
    )
    (found,) = (each for each in causes_of(known) if each.kind is CauseKind.BAD_CONTAINER)
    assert (found.certainty, found.summary) == (certainty, summary)
    assert found.evidence[0].endswith(
        "perhaps these containers ran them before: task 1 on c2; task 2 on c2; task 3 on c2; task 4 on c2; "
        "task 5 on c2; and 2 more"
    )
    assert "if the process of one of them has ended" in found.advice


def test_a_silent_container_is_told_as_silent() -> None:
    silent = task(1, "c2", reported_at=ago(30), alive_at=ago(31))
    first = causes_of(facts([task(0), silent], owners={0: "c1", 1: "c2"}, containers=[C1, _OLD]))[0]
    assert (first.kind, first.certainty) == (CauseKind.BAD_CONTAINER, Certainty.CERTAIN)
    assert first.summary == "no report of the container c2 comes: task 1 of the job ran there"
    assert "start the process again" in first.advice


def test_a_lost_container_is_told_also_once_its_tasks_are_forgotten() -> None:
    lost = C1._replace(name="c2", is_live=False)
    first = causes_of(facts([task(0)], job={"task_count": 2}, owners={0: "c1", 1: "c2"}, containers=[C1, lost]))[0]
    assert first.summary == "the container c2 is lost: task 1 of the job was to run there"
    assert first.evidence == ("c2 is lost: its shards go to other containers",)


@pytest.mark.parametrize(
    ("ended_hosts", "kinds"),
    [
        (["h1"], [CauseKind.HOST_ENDED]),
        (["h1", "h2"], [CauseKind.HOST_ENDED, CauseKind.BAD_CONTAINER]),
        (["", "h1"], [CauseKind.HOST_ENDED, CauseKind.BAD_CONTAINER]),
        ([], [CauseKind.HOST_ENDED, CauseKind.BAD_CONTAINER]),
    ],
    ids=["one host", "two hosts", "another error too", "unknown"],
)
def test_a_host_that_took_the_tasks_of_other_jobs_too_is_the_only_cause(
    ended_hosts: list[str], kinds: list[CauseKind]
) -> None:
    container = C1._replace(others=3, bad_others=3, bad_jobs=2, ended_hosts=ended_hosts)
    ended = failed("host h1 ended: jvm died")
    known = facts([ended, task(1, "c2")], containers=[container], elsewhere=Elsewhere(50, 0))
    assert [each.kind for each in causes_of(known)] == kinds


def test_where_the_tasks_of_a_lost_container_go_is_told() -> None:
    lost = C1._replace(is_live=False)
    gone = task(0, "c1", failed_over=True, reported_at=ago(70), alive_at=ago(70))
    first = causes_of(facts([gone], owners={0: "c2"}, containers=[lost, C1._replace(name="c2")]))[0]
    assert first.evidence[0] == (
        "c1 is lost: its shards have gone to other containers (task 0 to c2), where Spark hosts may have to start first"
    )
