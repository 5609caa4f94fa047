"""The stream of writes: complete and in order, whatever commits late, breaks or comes again."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice

import httpx
import pytest
from sqlalchemy import text

from penstock.control.clock import SystemClock
from penstock.control.errors import Conflict, InvalidConfig, Unauthenticated
from penstock.control.process import wait_until
from penstock.store.engine import next_number, transaction
from penstock.store.running import RUNNING_COMMIT
from penstock.wire.job_client import JobClient
from services.job_service.events import reader as feed
from services.job_service.events import stream as streams
from services.job_service.events.reader import EventReader, Page, Wanted
from services.job_service.store import history
from tests.support.job_service.service import CONFIG, RunningJobService, job_service

PATIENCE_S = 60.0
ALL = Wanted()
LATE = text("INSERT INTO history (job, revision, action, author) VALUES ('late', 1, 'forget', 'syncer') RETURNING id")


def write(client: JobClient, count: int, job: str = "etl") -> None:
    for number in range(count):
        client.put_job(job, {**CONFIG, "max_records_per_trigger": 100 + number})


def reader(service: RunningJobService) -> EventReader:
    return EventReader(service.engine, SystemClock(), 60.0)


def read(service: RunningJobService, *asked: tuple[int, Wanted]) -> list[Page]:
    """Pages of a reader that has looked at the store."""

    async def pages() -> list[Page]:
        events = reader(service)
        await events.begin(None)
        return await asyncio.gather(*(events.next(*each) for each in asked))

    return asyncio.run(pages())


def ids(page: Page) -> list[int]:
    return [int(number) for number in re.findall(rb"^id: (\d+)$", page.data, re.M)]


def test_each_write_comes_once_and_in_order(client: JobClient) -> None:
    """1. From the beginning. 2. From any event on. 3. Of one job, or of one layer. 4. From now: what comes later."""
    write(client, 3)
    write(client, 1, "other")
    client.patch_layer("etl", "oncall", {"priority": 4}, if_match=0, reason="look")
    seen = list(islice(client.events(after=0), 5))
    assert [(each.job, each.action, each.layer) for each in seen] == [
        ("etl", "create", "base"),
        ("etl", "put", "base"),
        ("etl", "put", "base"),
        ("other", "create", "base"),
        ("etl", "patch", "oncall"),
    ]
    assert seen == sorted(client.history("etl").entries + client.history("other").entries, key=lambda each: each.id)
    assert list(islice(client.events(after=seen[2].id), 2)) == seen[3:]
    assert list(islice(client.events(after=0, job="other"), 1)) == [seen[3]]
    assert list(islice(client.events(after=0, layer="oncall"), 1)) == [seen[4]]
    follower = client.events()
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(next(follower).reason))
    thread.start()
    version = 1

    def came() -> bool:
        nonlocal version
        client.patch_layer("etl", "oncall", {"priority": version % 9}, if_match=version, reason="from now")
        version += 1
        return bool(found)

    wait_until(came, PATIENCE_S, "a write to come", poll_s=0.3)
    thread.join()
    assert found == ["from now"]


def test_a_client_goes_on_after_a_revision_of_a_job(service: RunningJobService, client: JobClient) -> None:
    """1. After each write, the next one of the job comes first. 2. A revision of another job, in between: the same.
    3. After the newest: what comes later."""
    write(client, 3)
    first, second, third = reversed(client.history("etl").entries)
    write(client, 1, "other")
    other = client.history("other").entries[0]
    write(client, 4)
    fourth = client.history("etl").entries[0]
    for known, next_ in ((0, first), (first.revision, second), (second.revision, third)):
        assert next(client.events(after_revision=known, job="etl")) == next_
    assert next(client.events(after_revision=other.revision, job="etl")).id > other.id
    with _raw(service) as http, http.stream("GET", f"/v1/events?job=etl&after_revision={fourth.revision}") as got:
        lines = got.iter_lines()
        assert next(lines) == f"id: {fourth.id}"


def test_a_revision_that_cannot_be_gone_on_from_is_refused(service: RunningJobService, client: JobClient) -> None:
    """1. One that there never was. 2. One of no job. 3. Beside an id. 4. Where the next entry was archived."""
    write(client, 3)
    newest, second, oldest = client.history("etl").entries
    with pytest.raises(Conflict, match=f"no revision {newest.revision + 1}: the newest is {newest.revision}"):
        next(client.events(after_revision=newest.revision + 1, job="etl"))
    with pytest.raises(InvalidConfig, match="name it") as refused:
        next(client.events(after_revision=1))
    assert (refused.value.field, refused.value.rule) == ("job", "required")
    with pytest.raises(InvalidConfig, match="not both"):
        next(client.events(after=1, after_revision=1, job="etl"))
    _archive(service, second.id)
    with pytest.raises(Conflict, match="were archived"):
        next(client.events(after_revision=oldest.revision, job="etl"))
    assert next(client.events(after_revision=second.revision, job="etl")) == newest


def test_a_position_is_found_among_gaps_and_other_jobs(service: RunningJobService) -> None:
    """Revisions 10, 20, 30 ... each twice (as a removal and its end), with entries of another job between them."""
    rows = text(
        "INSERT INTO history (job, revision, action, author) SELECT CASE g % 3 WHEN 0 THEN 'other' ELSE 'gaps' END,"
        " 10 * (1 + g / 3), 'forget', 'syncer' FROM generate_series(0, 59) g RETURNING id, job, revision"
    )
    with transaction(service.engine) as connection:
        entries = [row for row in connection.execute(rows) if row.job == "gaps"]
        for revision in range(205):
            first = next((row for row in entries if row.revision >= revision), None)
            expected = None if first is None else first.id - (first.revision != revision)
            assert feed.events.position_of(connection, "gaps", revision) == expected


def test_a_search_for_a_revision_reads_few_of_the_entries_of_a_job(service: RunningJobService) -> None:
    rows = text(
        "INSERT INTO history (job, revision, action, author)"
        " SELECT 'long', g, 'forget', 'syncer' FROM generate_series(1, 5000) g"
    )
    read_rows = text(
        "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE relname = 'history'"
    )
    with transaction(service.engine) as connection:
        connection.execute(rows)
    with transaction(service.engine) as connection:
        before = connection.execute(read_rows).scalar_one()
        assert feed.events.position_of(connection, "long", 1) is not None
        assert connection.execute(read_rows).scalar_one() - before < 100


def test_pages_do_not_wait_for_the_search_for_a_revision(
    service: RunningJobService, client: JobClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(client, 2)
    begun, may_end = threading.Event(), threading.Event()
    monkeypatch.setattr(feed.events, "position_of", lambda *_: (begun.set(), may_end.wait(PATIENCE_S), 0)[2])

    async def pages() -> Page:
        of_all = reader(service)
        await of_all.begin(None)
        search = asyncio.create_task(of_all.begin_after("etl", 1))
        await asyncio.to_thread(begun.wait, PATIENCE_S)
        try:
            async with asyncio.timeout(PATIENCE_S / 4):
                return await of_all.next(0, ALL)
        finally:
            may_end.set()
            await search

    assert len(ids(asyncio.run(pages()))) == 2


def test_nothing_is_told_past_a_write_that_commits_late(service: RunningJobService, client: JobClient) -> None:
    """1. A State Syncer has its number of the history, and has not committed. 2. A later write has. 3. It is not told
    before the one that commits late, which is told first."""
    told = list[int]()
    with transaction(service.engine) as connection:
        next_number(connection, RUNNING_COMMIT)
        late = connection.execute(LATE).scalar_one()
        write(client, 1)
        thread = threading.Thread(target=lambda: told.extend(ids(read(service, (0, ALL))[0])))
        thread.start()
        wait_until(lambda: _waits_for_a_lock(service), PATIENCE_S, "the reader to wait")
        assert told == []
    thread.join()
    assert (len(told), told[0]) == (2, late)


def _waits_for_a_lock(service: RunningJobService) -> bool:
    with transaction(service.engine) as connection:
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%counters%'"
        return bool(connection.execute(text(waits)).scalar_one())


def test_many_streams_share_one_look(service: RunningJobService, client: JobClient, monkeypatch) -> None:
    write(client, 3)
    looks, newest = [], feed.events.newest
    monkeypatch.setattr(feed.events, "newest", lambda connection: looks.append(1) or newest(connection))
    pages = read(service, *[(0, ALL)] * 20)
    assert len(ids(pages[0])) == 3
    assert all(page is pages[0] for page in pages)
    assert len(looks) == 1


def test_streams_that_wait_for_a_write_keep_no_other_call_waiting(database_url: str) -> None:
    """There are more of them than the process has threads for calls. With a service of its own: the others know what
    tests before wrote."""
    with job_service(database_url) as service, service.client() as client:
        _check_that_calls_are_answered(service, client)


def _check_that_calls_are_answered(service: RunningJobService, client: JobClient) -> None:
    with transaction(service.engine) as connection, ExitStack() as streams:
        next_number(connection, RUNNING_COMMIT)
        write(client, 1)
        http = streams.enter_context(_raw(service))
        for _ in range(45):
            stream = streams.enter_context(http.stream("GET", "/v1/events?after=0"))
            assert next(stream.iter_lines()) == "id: 0"
        wait_until(lambda: _waits_for_a_lock(service), PATIENCE_S, "a stream to wait")
        assert client.get_job("etl").job == "etl"


def test_a_client_goes_on_after_its_connection_broke(client: JobClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stream ends at once, so that every event comes by a connection of its own."""
    monkeypatch.setattr(streams, "LONGEST_SECONDS", 0.4)
    write(client, 4)
    seen = [entry.id for entry in islice(client.events(after=0), 4)]
    write(client, 1, "other")
    more = next(client.events(after=seen[-1]))
    assert (sorted(set(seen)), more.job) == (seen, "other")


def test_a_stream_ends_where_the_next_entries_were_archived(service: RunningJobService, client: JobClient) -> None:
    """They are not left out without a word: the client that comes again is refused."""
    write(client, 3)
    ids = [entry.id for entry in reversed(client.history("etl").entries)]
    _archive(service, ids[1])
    with pytest.raises(Conflict, match=f"entries after {ids[0]} were archived"):
        asyncio.run(_next(EventReader(service.engine, SystemClock(), 0.0), ids[0]))
    with pytest.raises(Conflict, match=f"entries after {ids[0]} were archived"):
        next(client.events(after=ids[0]))


async def _next(reader: EventReader, position: int) -> Page:
    """The page of a stream that has begun, for which another process archives."""
    await reader.begin(None)
    return await reader.next(position, Wanted())


def _archive(service: RunningJobService, number: int) -> None:
    with transaction(service.engine) as connection:
        for moved in (
            "INSERT INTO history_archive SELECT * FROM history WHERE id = :id",
            "DELETE FROM history WHERE id = :id",
        ):
            connection.execute(text(moved), {"id": number})


def test_what_is_refused(service: RunningJobService, client: JobClient) -> None:
    """1. Entries that were archived. 2. An entry that there never was. 3. No token. 4. No number."""
    write(client, 2)
    first = client.history("etl").entries[-1].id
    _archive(service, first)
    with pytest.raises(Conflict, match=f"entries after {first - 1} were archived"):
        next(client.events(after=first - 1))
    assert next(client.events(after=first)).action == "put"
    with pytest.raises(Conflict, match=f"there is no entry {first + 2}: the newest is {first + 1}"):
        next(client.events(after=first + 2))
    with pytest.raises(Unauthenticated), service.client("pst_nobody") as nobody:
        next(nobody.events())
    with _raw(service) as http:
        assert http.get("/v1/events", headers={"Last-Event-ID": "x"}).status_code == 422


def test_a_page_has_few_bytes_and_its_own_filter(service: RunningJobService, client: JobClient) -> None:
    """1. Large entries come a few at a time. 2. Who wants others is past them at once."""
    large = {"sql": "SELECT origin, '" + "x" * 40_000 + "' AS x FROM flights"}
    for number in range(9):
        client.put_job("etl", {**CONFIG, "query": large, "priority": number}, verify=False)
    position, pages = 0, list[Page]()
    while not pages or pages[-1].data:
        pages += read(service, (position, ALL))
        position = pages[-1].position
    assert [len(ids(page)) for page in pages] == [4, 4, 1, 0]
    assert max(len(page.data) for page in pages) < feed.PAGE_BYTES + 90_000
    assert read(service, (0, Wanted(job="other")), (0, Wanted(layer="base"))) == [Page(b"", position), pages[0]]


def test_pages_of_the_history_have_few_bytes(client: JobClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PAGE_BYTES", 8_000)
    large = {"sql": "SELECT origin, '" + "x" * 4_000 + "' AS x FROM flights"}
    for number in range(4):
        client.put_job("etl", {**CONFIG, "query": large, "priority": number}, verify=False)
    for page_of in (client.changes, partial(client.history, "etl")):
        pages = [page_of(limit=100)]
        while pages[-1].next is not None:
            pages.append(page_of(limit=100, cursor=pages[-1].next))
        assert [[entry.version for entry in page.entries] for page in pages] == [[4], [3], [2], [1]]


def test_a_stream_ends_with_its_token(service: RunningJobService, client: JobClient) -> None:
    """1. It waits for writes. 2. The token is revoked: nothing that is written later is told."""
    token = client.create_token("mal", "reader", expires_in_seconds=3600)
    with (
        httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S) as http,
        http.stream("GET", "/v1/events?after=0") as got,
    ):
        lines = got.iter_lines()
        assert next(lines) == "id: 0"
        client.revoke_token("mal")
        wait_until(lambda: _is_refused(http), PATIENCE_S, "the token to be forgotten")
        write(client, 1)
        assert [line for line in lines if line.startswith("data")] == []


def _is_refused(http: httpx.Client) -> bool:
    return http.get("/v1/caller").status_code == 401


def test_a_client_that_goes_before_its_stream_begins_leaves_no_stream(database_url: str) -> None:
    """A token may have a quarter of 8 streams. Each client closes its connection at once, some before the answer."""
    with job_service(database_url, job_service_event_streams=8) as service, _raw(service) as http:
        for number in range(20):
            with socket.create_connection(("127.0.0.1", http.base_url.port or 0)) as gone:
                if number % 2:
                    gone.sendall(
                        f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.admin}\r\n\r\n".encode()
                    )

        def statuses_of_three() -> list[int]:
            with ExitStack() as open_streams:
                return [open_streams.enter_context(http.stream("GET", "/v1/events")).status_code for _ in range(3)]

        # The server sees a moment later that a client is gone, those of this test too.
        assert wait_until(lambda: statuses_of_three() == [200, 200, 429], PATIENCE_S, "room for two streams")


def test_the_form_of_a_stream(service: RunningJobService, client: JobClient) -> None:
    """As a browser sees it: the last id that it has goes before `after`."""
    write(client, 2)
    first, second = reversed(client.history("etl").entries)
    with (
        _raw(service) as http,
        http.stream("GET", "/v1/events?after=0", headers={"Last-Event-ID": str(first.id)}) as got,
    ):
        assert got.headers["content-type"].startswith("text/event-stream")
        lines = list(islice(got.iter_lines(), 5))
    assert lines[:4] == [f"id: {first.id}", "retry: 2000", "", f"id: {second.id}"]


@contextmanager
def _raw(service: RunningJobService) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {service.admin}"}, timeout=30) as http:
        yield http
