"""The contracts of `SpecSource` and `ReportSink`: what is to run, and what does."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.config.model import DesiredState
from penstock.control.errors import Unavailable
from penstock.model.reports import TaskReport, TaskReportBatch, TaskReportChanges, TaskState
from penstock.tasks.spec import expand
from penstock.wire.cluster import DIGESTS, Snapshot
from tests.contract.task_service_forms import a_task_service, in_memory

WAIT_SECONDS = 20.0


@pytest.fixture(params=[a_task_service, in_memory], ids=lambda make: make.__name__)
def form(request: pytest.FixtureRequest) -> Iterator[Any]:
    with request.param(request) as form:
        yield form


def jobs(snapshot: Snapshot | None) -> set[str]:
    assert snapshot is not None
    return {template.job for template in snapshot.templates}


# ---- SpecSource


def test_a_rollout_says_what_the_other_tasks_run(form: Any) -> None:
    form.commit_mixed("a")
    snapshot = form.client().full()
    assert snapshot is not None
    (template,) = snapshot.templates
    assert [spec.config.priority for spec in expand(template)] == [2, 0]


def test_a_full_snapshot_has_everything(form: Any) -> None:
    form.commit("a")
    number = form.commit("b")
    source = form.client()
    first = source.full()
    assert (first.full, jobs(first), first.commit_number) == (True, {"a", "b"}, number)
    form.commit("c")
    assert jobs(source.full(number, first.store)) == {"a", "b", "c"}


def test_the_digest_of_a_full_snapshot_is_that_of_all_deltas(form: Any) -> None:
    """1. Two jobs. 2. One is forgotten, another comes, the last one changes. 3. A row that cannot be read: the digest
    leaves its job out."""
    form.commit("a")
    number = form.commit("b")
    first = form.client().full()
    known = dict(zip([each.job for each in first.templates], first.row_digests, strict=True))
    assert first.digest == sum(known.values()) % DIGESTS
    form.forget("a")
    form.commit("b")
    form.commit("c")
    form.break_row("d")
    delta, full = form.client().delta(number, 0.0, first.store), form.client().full()
    for job in delta.removed:
        del known[job]
    known |= dict(zip([each.job for each in delta.templates], delta.row_digests, strict=True))
    assert delta.digest == full.digest == sum(known.values()) % DIGESTS != first.digest
    assert known == dict(zip([each.job for each in full.templates], full.row_digests, strict=True))


def test_a_delta_has_what_came_after_a_commit(form: Any) -> None:
    form.commit("a")
    number = form.commit("b")
    form.forget("a")
    last = form.commit("c")
    delta = form.client().delta(number, 0.0)
    assert (delta.full, jobs(delta), delta.removed, delta.commit_number) == (False, {"c"}, ("a",), last)
    assert [template.commit_number for template in delta.templates] == [last]
    nothing = form.client().delta(last, 0.0)
    assert (nothing.full, nothing.templates, nothing.removed, nothing.commit_number) == (False, (), (), last)


def test_a_forgotten_job_that_lives_again_is_served_and_not_removed(form: Any) -> None:
    number = form.commit("a")
    form.forget("a")
    form.commit("a")
    delta = form.client().delta(number, 0.0)
    assert (jobs(delta), delta.removed) == ({"a"}, ())


def test_a_delta_waits_for_the_next_commit(form: Any) -> None:
    number = form.commit("a")
    source = form.client()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(source.delta, number, WAIT_SECONDS)
        assert not waiting.done()
        form.commit("b")
        assert jobs(waiting.result(timeout=WAIT_SECONDS / 2)) == {"b"}


def test_a_wait_in_vain_ends_with_an_empty_delta(form: Any) -> None:
    number = form.commit("a")
    delta = form.client().delta(number, 0.1)
    assert (delta.full, delta.templates, delta.commit_number) == (False, (), number)


def test_nobody_is_answered_with_an_older_commit_than_it_has_acted_on(form: Any) -> None:
    number = form.commit("a")
    source = form.client()
    store = source.full().store
    for ask in (lambda: source.delta(number + 100, 0.0, store), lambda: source.full(number + 100, store)):
        with pytest.raises(Unavailable):
            ask()
    assert source.delta(number, 0.0, store).commit_number == number


def test_a_caller_of_another_incarnation_of_the_store_gets_everything(form: Any) -> None:
    """Whichever numbers it knows."""
    number = form.commit("a")
    source = form.client()
    store = source.full().store
    for after in (number - 1, number, number + 100):
        answer = source.delta(after, WAIT_SECONDS, "former")
        assert (answer.full, jobs(answer), answer.commit_number, answer.store) == (True, {"a"}, number, store)
    assert store not in ("", "former")


def test_a_job_that_is_to_stop_is_served_as_stopped(form: Any) -> None:
    """Its absence would say nothing: it is there, and asks for no tasks."""
    number = form.commit("a")
    form.commit("a", stopping=True)
    (template,) = form.client().delta(number, 0.0).templates
    assert template.config.desired_state is DesiredState.STOPPED


def test_a_row_that_cannot_be_read_is_named_and_not_removed(form: Any) -> None:
    number = form.commit("a")
    form.break_row("b")
    source = form.client()
    full, delta = source.full(), source.delta(number, 0.0)
    assert (jobs(full), full.unreadable) == ({"a"}, ("b",))
    assert (jobs(delta), delta.removed, delta.unreadable) == (set(), (), ("b",))


def test_a_source_that_is_away_is_unavailable(form: Any) -> None:
    form.commit("a")
    away = form.client(away=True)
    for call in (away.full, lambda: away.delta(0, 0.0)):
        with pytest.raises(Unavailable):
            call()


# ---- ReportSink


def batch(*indices: int, incarnation: str = "one", container: str = "c1") -> TaskReportBatch:
    tasks = tuple(
        TaskReport(job="a", index=index, state=TaskState.RUNNING, revision=1, generation=1, restarts=0, epoch=1)
        for index in indices
    )
    return TaskReportBatch(container=container, incarnation=incarnation, commit_number=1, version=1, tasks=tasks)


def test_a_report_replaces_the_last_one_whole(form: Any) -> None:
    form.register("one")
    sink = form.client()
    sink.report(batch(0, 1))
    assert form.reported() == {"a/0", "a/1"}
    sink.report(batch(1, 2))
    assert form.reported() == {"a/1", "a/2"}
    sink.report(batch())
    assert form.reported() == set()


@contextmanager
def expect_nothing_stored(form: Any) -> Iterator[None]:
    before = form.reported()
    with pytest.raises(Unavailable):
        yield
    assert form.reported() == before


def changes(*indices: int, number: int, after: int, ended: tuple[int, ...] = (), **more: Any) -> TaskReportChanges:
    facts = batch(*indices).model_dump() | {"number": number, "after": after, "ended": [("a", each) for each in ended]}
    return TaskReportChanges.model_validate(facts | more)


def test_changes_leave_all_other_tasks_as_they_are(form: Any) -> None:
    """1. Two tasks. 2. Nothing new, twice. 3. One begins and one ends. 4. They build on the report with news."""
    form.register("one")
    sink = form.client()
    assert sink.report(batch(0, 1), 1)
    assert sink.report_changes(changes(number=2, after=1))
    assert sink.report_changes(changes(number=3, after=1))
    assert form.reported() == {"a/0", "a/1"}
    assert sink.report_changes(changes(2, number=4, after=1, ended=(0,)))
    assert form.reported() == {"a/1", "a/2"}
    assert sink.report_changes(changes(number=5, after=4, ended=(1, 2)))
    assert form.reported() == set()


@pytest.mark.parametrize(
    "refused",
    [
        pytest.param(changes(9, number=7, after=1, ended=(0,)), id="a report with news was lost"),
        pytest.param(changes(9, number=4, after=4, ended=(0,)), id="told twice"),
        pytest.param(changes(9, number=3, after=1, ended=(0,)), id="late"),
        pytest.param(changes(9, number=5, after=5, ended=(0,)), id="on a report without news"),
        pytest.param(changes(9, number=6, after=4, ended=(0,), incarnation="two"), id="of another life"),
        pytest.param(changes(9, number=6, after=4, ended=(0,), container="c2"), id="of a stranger"),
    ],
)
def test_changes_to_any_other_report_change_nothing(form: Any, refused: TaskReportChanges) -> None:
    form.register("one")
    sink = form.client()
    assert sink.report(batch(0), 2)
    assert sink.report_changes(changes(1, number=4, after=2))
    assert sink.report_changes(changes(number=5, after=4))
    assert not form.client(container=refused.container).report_changes(refused)
    assert form.reported() == {"a/0", "a/1"}
    assert sink.report_changes(changes(number=6, after=4, ended=(0,)))
    assert form.reported() == {"a/1"}


def test_a_full_report_that_comes_late_changes_nothing(form: Any) -> None:
    form.register("one")
    sink = form.client()
    assert sink.report(batch(0, 1), 2)
    with expect_nothing_stored(form):
        sink.report(batch(), 1)
    assert sink.report_changes(changes(2, number=3, after=2))
    with expect_nothing_stored(form):
        sink.report(batch(), 3)


def test_no_changes_may_follow_a_report_without_a_number(form: Any) -> None:
    """As a Task Manager of the release before sends it."""
    form.register("one")
    sink = form.client()
    assert sink.report(batch(0), 2)
    assert not sink.report(batch(0, 1))
    assert not sink.report_changes(changes(number=3, after=2, ended=(0,)))
    assert form.reported() == {"a/0", "a/1"}


def test_a_later_life_counts_from_one_again(form: Any) -> None:
    form.register("one")
    sink = form.client()
    assert sink.report(batch(0), 9)
    form.register("two")
    assert not sink.report_changes(changes(number=10, after=9, ended=(0,)))
    assert sink.report(batch(1, incarnation="two"), 1)
    assert sink.report_changes(changes(number=2, after=1, ended=(1,), incarnation="two"))
    assert form.reported() == set()


def test_a_report_of_a_life_that_is_over_changes_nothing(form: Any) -> None:
    form.register("one")
    form.client().report(batch(0))
    form.register("two")
    with expect_nothing_stored(form):
        form.client().report(batch(1, incarnation="one"))
    form.client().report(batch(2, incarnation="two"))
    assert form.reported() == {"a/2"}


def test_a_report_of_a_container_that_was_never_registered_changes_nothing(form: Any) -> None:
    with expect_nothing_stored(form):
        form.client().report(batch(1, container="c2"))


def test_a_sink_that_is_away_is_unavailable_and_what_it_knew_stays(form: Any) -> None:
    form.register("one")
    form.client().report(batch(0))
    with expect_nothing_stored(form):
        form.client(away=True).report(batch())
