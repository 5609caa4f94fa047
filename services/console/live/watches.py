"""Who looks at an open page, and is to be woken when something changes. For one event loop; no thread, no I/O."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping

from penstock.control.errors import TooManyCalls
from services.console.sealed import Session

MOST = 400
MOST_OF_SESSION = 4
"""A browser has six connections to a host: open pages must leave it some. Pages that nobody sees have none."""
SHARE_OF_TOKEN = 4
"""A token has at most one of so many parts of all places, however often it signs in."""
RETRY_SECONDS = 15
_NUMBERS = itertools.count()


class Watch:
    """One open page of a session. `job`: only this one concerns it; None: all.
    `number`: that of a later page is greater."""

    def __init__(self, session: Session, job: str | None) -> None:
        self.session = session
        self.job = job
        self.token_digest = hashlib.sha256(session.token.encode()).digest()
        self.number = next(_NUMBERS)
        self.has_ended = False
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Something changed, or the watch has ended."""
        self._woken.set()

    def end(self) -> None:
        """The page is told nothing more."""
        self.has_ended = True
        self.wake()

    async def wait(self, seconds: float) -> None:
        """Until it is woken, and for `seconds` at most. What wakes it several times before is one waking."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
        self._woken.clear()


class Watches:
    """All open pages of a process."""

    def __init__(self, most: int = MOST, most_of_session: int = MOST_OF_SESSION) -> None:
        self._most = most
        self._most_of_session = most_of_session
        self._most_of_token = max(1, most // SHARE_OF_TOKEN)
        self._all: list[Watch] = []

    def __iter__(self) -> Iterator[Watch]:
        return iter(tuple(self._all))

    def __len__(self) -> int:
        return len(self._all)

    def join(self, session: Session, job: str | None) -> Watch:
        """A further open page. Where all places are taken, a token that has none gets one of the token with most: that
        one's oldest page ends. Raises TooManyCalls where no further page of the session, or of its token, is followed.
        """
        watch = Watch(session, job)
        of_session = sum(each.session.nonce == session.nonce for each in self._all)
        of_token = Counter(each.token_digest for each in self._all)
        if of_session >= self._most_of_session or of_token[watch.token_digest] >= self._most_of_token:
            raise self._full()
        if len(self._all) >= self._most:
            self._make_room(watch.token_digest, of_token)
        self._all.append(watch)
        return watch

    def _make_room(self, newcomer: bytes, of_token: Mapping[bytes, int]) -> None:
        """A token keeps its last place."""
        greediest = max(of_token, key=lambda digest: of_token[digest])
        if of_token[newcomer] or of_token[greediest] < 2:
            raise self._full()
        oldest = min((each for each in self._all if each.token_digest == greediest), key=lambda each: each.number)
        self.leave(oldest)
        oldest.end()

    def _full(self) -> TooManyCalls:
        return TooManyCalls(
            f"a session follows {self._most_of_session} open pages, a token {self._most_of_token}, "
            f"a console {self._most}",
            field="live",
            rule="streams",
            retry_after_seconds=RETRY_SECONDS,
        )

    def leave(self, watch: Watch) -> None:
        """The page is closed, or its place is another's. Safe to repeat."""
        if watch in self._all:
            self._all.remove(watch)

    def put_last(self, watch: Watch) -> None:
        """All pages with the token of this one come after the others."""
        self._all.sort(key=lambda each: each.token_digest == watch.token_digest)

    def wake(self, job: str | None) -> None:
        """Something of this job changed; None: of any."""
        for watch in self._all:
            if job is None or watch.job in (None, job):
                watch.wake()

    def end(self, nonce: str | None = None) -> None:
        """Ends the pages of a session that signed out; None: all."""
        for watch in self._all:
            if nonce is None or watch.session.nonce == nonce:
                watch.end()
