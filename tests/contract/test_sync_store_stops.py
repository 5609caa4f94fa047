"""The contract of `SyncStore`: which containers must have said that a stopped job's tasks are gone."""

from __future__ import annotations

from typing import Any

import pytest

from services.state_syncer.decide.observe import Presence
from tests.contract.sync_store_forms import FORMS, commit, make_form, view, write
from tests.support.store.jobs import make_layer


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Any:
    return make_form(request)


def stopping_job_of(form: Any) -> int:
    """A job that stops, of which a has a task, and b none; both have reported before. The number of the stop."""
    form.layer("j", "base", make_layer())
    form.delete("j")
    stop = write(form, commits=[commit(stopping=True)])
    for name in ("a", "b"):
        form.container(name)
        form.report(name, stop - 1)
    form.own("a")
    form.report("a", stop - 1, "j")
    return stop


def test_tasks_are_gone_only_when_every_container_has_said_so(form: Any) -> None:
    """1. A job that ran on a is stopping; nobody has reported: unknown. 2. a still lists it: present. 3. a reports
    without it; b, which owns its shards, has not reported: unknown. 4. b has reported from before: unknown. 5. And
    after: absent."""
    form.layer("j", "base", make_layer())
    form.delete("j")
    stop = write(form, commits=[commit(stopping=True)])
    form.container("a")
    form.container("b")
    form.own("b")
    found = [view(form).presence]
    for container, applied, jobs in (("a", stop, ("j",)), ("a", stop, ()), ("b", stop - 1, ()), ("b", stop, ())):
        form.report(container, applied, *jobs)
        found.append(view(form).presence)
    unknown = Presence.UNKNOWN
    assert found == [unknown, Presence.PRESENT, unknown, unknown, Presence.ABSENT]


def test_a_container_that_owns_no_shard_of_a_job_holds_it_up_only_until_it_is_told(form: Any) -> None:
    """1. a owns all shards and says that the job's tasks are gone; b listed one before, and is silent since. 2. The
    stop is written down for whoever gets a shard later: absent. 3. A later stop is not. 4. b owns the shards: unknown.
    """
    form.layer("j", "base", make_layer())
    form.delete("j")
    stop = write(form, commits=[commit(stopping=True)])
    for name in ("a", "b"):
        form.container(name)
    form.own("a")
    form.report("b", stop - 1, "j")
    form.report("a", stop)
    found = [view(form).presence]
    write(form, unasked_stop=stop)
    found.append(view(form).presence)
    write(form, unasked_stop=stop - 1)
    found.append(view(form).presence)
    form.report("a", write(form, commits=[commit(stopping=True)]))
    found.append(view(form).presence)
    form.own("b")
    form.report("b", stop)
    found.append(view(form).presence)
    assert found == [Presence.UNTOLD, Presence.ABSENT, Presence.ABSENT, Presence.UNTOLD, Presence.UNKNOWN]


def test_what_a_lost_container_ran_is_gone_and_a_container_unheard_of_is_not(form: Any) -> None:
    form.layer("j", "base", make_layer())
    form.delete("j")
    stop = write(form, commits=[commit(stopping=True)])
    form.container("a", "lost")
    form.report("a", stop - 1, "j")
    assert view(form).presence is Presence.ABSENT
    form.report("nobody", stop, "j")
    assert view(form).presence is Presence.UNKNOWN


def test_a_container_that_has_yet_to_say_that_tasks_are_gone_may_be_silent(form: Any) -> None:
    """1. a has a task of a job that stops, and has reported lately. 2. It is silent, and b reports. 3. Both report, and
    have applied the stop; later a is silent again."""
    stop = stopping_job_of(form)
    assert view(form).silent == ()
    form.silence("a", 13.0)
    (silent,) = view(form).silent
    assert (silent.container, round(silent.seconds)) == ("a", 13)
    form.report("b", stop)
    form.report("a", stop)
    form.silence("a", 13.0)
    assert (view(form).silent, view(form).presence) == ((), Presence.ABSENT)


def test_nobody_is_silent_while_reports_are_not_taken(form: Any) -> None:
    """1. The store was away: reports and heartbeats of a and b are old. 2. b is the first to report again. 3. Its
    heartbeat is written: a may be dead. 4. So is one of a: only its reports are missing."""
    stop = stopping_job_of(form)
    for name in ("a", "b"):
        form.silence(name, 20.0)
    found = [view(form).silent]
    form.report("b", stop)
    found.append(view(form).silent)
    form.heartbeat("b", 1.0)
    found.append(view(form).silent)
    form.heartbeat("a", 12.0)
    found.append(view(form).silent)
    assert [[each.container for each in silent] for silent in found] == [[], [], ["a"], []]
    assert view(form).presence is Presence.PRESENT
