"""What an open page is told: that something changed, to those that it concerns, and never more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from unittest.mock import Mock

import httpx
import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from penstock.control.clock import SystemClock
from penstock.control.errors import TooManyCalls
from penstock.control.process import wait_until
from penstock.wire.job_client import JobClient
from services.console.api import create_console
from services.console.live import follower, stream
from services.console.live.stream import Live
from services.console.live.watches import Watches
from services.console.routes.live import Followed
from services.console.sealed import Session
from services.console.settings import ConsoleSettings
from services.job_service.api import create_api
from services.job_service.settings import JobServiceSettings
from tests.integration.console.conftest import SignedIn
from tests.support.console.service import User, token_of
from tests.support.control.serving import serving
from tests.support.job_service.service import CONFIG, RunningJobService

SELDOM = 3600.0
"""So rarely are pages refreshed by time alone that only events are seen."""


@pytest.fixture
def watches(service: RunningJobService, client: JobClient) -> Iterator[tuple[User, Watches]]:
    """An admin at a console that refreshes by events alone, and who is woken by it."""
    client.put_job("etl", CONFIG, verify=False)
    settings = ConsoleSettings(job_service_url=service.url, console_refresh_seconds=SELDOM)
    app = create_console(settings, SystemClock())
    with serving(app) as url, User(url) as user:
        user.sign_in(service.admin)
        yield user, app.state.parts.live.watches


@contextmanager
def opened(user: User, path: str = "/live") -> Iterator[Iterator[str]]:
    """The lines of a page's stream, after those that begin it."""
    with user.http.stream("GET", path) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        assert [next(lines) for _ in range(3)] == ["id: 0", "retry: 1000", ""]
        yield lines


def changed(lines: Iterator[str]) -> list[str]:
    return [next(lines) for _ in range(4)]


@contextmanager
def left_by_the_first(user: User, client: JobClient) -> Iterator[Iterator[str]]:
    """The lines of a page of `user`, after a reader with the token `first`, who was the first to look, has gone."""
    with User(user.url) as reader:
        reader.sign_in(client.create_token("first", "reader", expires_in_seconds=3600))
        with opened(reader) as first:
            changed(first)
            with opened(user) as second:
                first.close()  # type: ignore[attr-defined]
                reader.http.close()
                yield second


def test_an_open_page_learns_that_something_changed_and_not_what(
    watches: tuple[User, Watches], client: JobClient
) -> None:
    """1. Once the events are heard, what was missed before. 2. A write to its job. 3. Another page hears of all jobs.
    4. When they are closed nothing is kept of them."""
    user, open_pages = watches
    told = ["id: 0", "event: changed", "data: now", ""]
    with opened(user, "/live?job=etl") as lines:
        assert changed(lines) == told
        client.put_job("other", CONFIG, verify=False)
        [watch] = open_pages
        with opened(user) as of_all:
            client.put_layer("etl", "oncall", {"priority": 3}, if_match=0, verify=False)
            assert changed(of_all) == told
            assert changed(lines) == told
        assert watch.job == "etl"
    wait_until(lambda: len(open_pages) == 0, 10, "the pages to be left")


def test_signing_out_ends_the_streams_of_that_session_only(
    watches: tuple[User, Watches], service: RunningJobService
) -> None:
    user, open_pages = watches
    with User(user.url) as other:
        other.sign_in(service.admin)
        with opened(user) as lines, opened(other):
            wait_until(lambda: len(open_pages) == 2, 10, "two pages")
            assert user.http.post("/sign-out", data={"form_token": token_of(user.get("/"))}).status_code == 303
            assert all(line in ("", "id: 0", "event: changed", "data: now") for line in lines), "and ends"
            wait_until(lambda: len(open_pages) == 1, 10, "one page to be left")
    assert user.http.get("/live").status_code == 401


def test_a_stream_needs_a_session_whose_token_is_good(
    watches: tuple[User, Watches], client: JobClient, signed_in: SignedIn
) -> None:
    user, _ = watches
    with User(user.url) as nobody:
        assert nobody.http.get("/live").status_code == 401
    with User(user.url) as reader:
        reader.sign_in(client.create_token("leaver", "reader", expires_in_seconds=3600))
        with opened(reader):
            client.revoke_token("leaver")
        assert reader.http.get("/live").status_code == 401
        part = reader.http.get("/jobs/etl", headers={"HX-Request": "true"})
        assert (part.status_code, part.headers["hx-redirect"]) == (200, "/sign-in?next=/jobs/etl")


def test_another_token_is_used_when_the_page_of_the_first_is_closed(
    watches: tuple[User, Watches], client: JobClient, service: RunningJobService
) -> None:
    """A reader is the first to look; what a later one looks at goes on when the reader has gone."""
    user, _ = watches
    with left_by_the_first(user, client) as second:
        client.revoke_token("first")
        client.put_layer("etl", "oncall", {"priority": 4}, if_match=0, verify=False)
        assert "event: changed" in changed(second)


def test_a_page_that_closes_wakes_no_other_page(
    watches: tuple[User, Watches], client: JobClient, service: RunningJobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events go on with the token of the other one, where they were."""
    user, open_pages = watches
    woken = list[str | None]()
    wake = open_pages.wake
    monkeypatch.setattr(open_pages, "wake", lambda job: (woken.append(job), wake(job)))
    with left_by_the_first(user, client) as second:
        wait_until(lambda: len(open_pages) == 1, 10, "the first page to be left")
        client.put_layer("etl", "oncall", {"priority": 4}, if_match=0, verify=False)
        changed(second)
    assert woken == [None, "etl"]


def test_a_token_that_has_too_many_streams_keeps_events_from_nobody(
    service: RunningJobService, client: JobClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was the first to look, and the Job Service refuses it (429): the next page's token is asked with."""
    monkeypatch.setattr(follower, "PAUSE_SECONDS", 0.0)
    client.put_job("etl", CONFIG, verify=False)
    greedy = client.create_token("greedy", "reader", expires_in_seconds=3600)
    few = JobServiceSettings(
        database_url=service.database_url, job_service_event_seconds=0.0, job_service_event_streams=8
    )
    with serving(create_api(service.engine, SystemClock(), few)) as url, ExitStack() as taken:
        for _ in range(2):
            http = taken.enter_context(httpx.Client(trust_env=False, timeout=60))
            slot = http.stream("GET", f"{url}/v1/events", headers={"Authorization": f"Bearer {greedy}"})
            assert taken.enter_context(slot).status_code == 200
        settings = ConsoleSettings(job_service_url=url, console_refresh_seconds=SELDOM)
        app = create_console(settings, SystemClock())
        with serving(app) as console, User(console) as first, User(console) as second:
            first.sign_in(greedy)
            second.sign_in(service.admin)
            with opened(first), opened(second) as lines:
                assert "event: changed" in changed(lines)


def sessions_of(*tokens: str) -> list[Session]:
    """A session for each of these tokens."""
    return [Session(nonce=str(at), token=token, name="n", role="reader", layers=()) for at, token in enumerate(tokens)]


def test_a_token_has_a_share_of_all_places_however_often_it_signs_in() -> None:
    pages = Watches(most=8)
    *taken, third, other = sessions_of("t", "t", "t", "other")
    for session in taken:
        pages.join(session, None)
    with pytest.raises(TooManyCalls, match="a token 2"):
        pages.join(third, None)
    pages.join(other, None)


def test_a_token_without_a_page_gets_a_place_of_the_token_with_most() -> None:
    """1. Six tokens have all places. 2. Another gets the oldest of the one with most, and that page ends. 3. Neither
    gets a second one. 4. The page that has ended is closed and takes nobody's place."""
    pages = Watches(most=12)
    greedy = sessions_of(*"aaabbccddeef")
    first, *others = [pages.join(session, None) for session in greedy]
    pages.put_last(first)
    late, again, refused = sessions_of("late", "late", "a")
    watch = pages.join(late, None)
    assert (first.has_ended, [each for each in others if each.has_ended], watch.has_ended) == (True, [], False)
    assert (len(pages), watch in list(pages), first in list(pages)) == (12, True, False)
    for session in (again, refused):
        with pytest.raises(TooManyCalls, match="a console 12"):
            pages.join(session.model_copy(update={"nonce": "new"}), None)
    pages.leave(first)
    assert len(pages) == 12


def test_a_token_keeps_its_last_place() -> None:
    pages = Watches(most=4)
    held = [pages.join(session, None) for session in sessions_of(*"abcd")]
    with pytest.raises(TooManyCalls, match="a console 4"):
        pages.join(sessions_of("late")[0], None)
    assert not any(watch.has_ended for watch in held)


def test_a_burst_of_streams_takes_no_more_than_the_places_that_there_are() -> None:
    """Each has its place before the next one is looked at, though no events were asked for yet."""
    live = Live(Watches(most=8), Mock(), SystemClock(), SELDOM)
    taken = [live.open(session, None) for session in sessions_of("t", "t")]
    with pytest.raises(TooManyCalls, match="a token 2"):
        live.open(sessions_of("t")[0], None)
    for watch in taken:
        live.close(watch)
        live.close(watch)
    assert len(live.watches) == 0


def test_a_stream_that_never_begins_gives_its_place_back() -> None:
    """The browser is gone before the response begins."""

    async def gone(_: Message) -> None:
        raise OSError("gone")

    async def nothing() -> Message:
        return {"type": "http.disconnect"}

    live = Live(Watches(), Mock(), SystemClock(), SELDOM)
    followed = Followed(live, live.open(sessions_of("t")[0], None), comes_again=False)
    scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
    with suppress(OSError, ClientDisconnect):
        asyncio.run(followed(scope, nothing, gone))
    assert len(live.watches) == 0


def test_a_browser_has_few_streams(watches: tuple[User, Watches]) -> None:
    user, open_pages = watches
    with opened(user), opened(user), opened(user), opened(user):
        wait_until(lambda: len(open_pages) == 4, 10, "four pages")
        assert user.http.get("/live").status_code == 429
    wait_until(lambda: len(open_pages) == 0, 10, "the pages to be left")
    with opened(user):
        assert len(open_pages) == 1


def test_a_stream_ends_and_its_browser_comes_again(
    watches: tuple[User, Watches], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is then told at once, as it may have missed something."""
    user, _ = watches
    monkeypatch.setattr(stream, "LONGEST_SECONDS", 0.0)
    assert user.http.get("/live").text == "id: 0\nretry: 1000\n\n"
    again = user.http.get("/live", headers={"Last-Event-ID": "0"})
    assert again.text == "id: 0\nevent: changed\ndata: now\n\n"


def test_without_the_job_service_pages_are_refreshed_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is heard at an address that nobody serves; the page is told all the same, by time."""
    monkeypatch.setattr(stream, "SLOW_SECONDS", 0.0)
    settings = ConsoleSettings(job_service_url="http://127.0.0.1:9", console_refresh_seconds=1.0)
    app = create_console(settings, SystemClock())
    parts = app.state.parts
    session = Session(nonce="n", token="t", name="ann", role="reader", layers=())
    cookie = {parts.cookie: parts.seal.close(session, parts.clock.now())}
    with serving(app) as url, httpx.stream("GET", f"{url}/live", cookies=cookie, trust_env=False, timeout=30) as told:
        lines = told.iter_lines()
        assert "event: changed" in [next(lines) for _ in range(8)]
