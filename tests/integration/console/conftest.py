"""One running Job Service and one console for all tests of the folder; each finds its database as if new."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from penstock.model.jobs import Role
from penstock.wire.job_client import JobClient
from tests.support.console.browser import Browser
from tests.support.console.fleet import fill
from tests.support.console.service import User, console
from tests.support.job_service.service import RunningJobService, standing_job_service
from tests.support.state_syncer.rollouts import RolloutCell

SignedIn = Callable[[Role], User]


@pytest.fixture(scope="package")
def standing(postgres_url: str, template_database: str) -> Iterator[RunningJobService]:
    with standing_job_service(postgres_url, template_database) as running:
        yield running


@pytest.fixture(scope="package")
def console_url(standing: RunningJobService) -> Iterator[str]:
    with console(standing.url, console_key="a key of the tests, long enough for them") as url:
        yield url


@pytest.fixture
def user(service: RunningJobService, console_url: str) -> Iterator[User]:
    """Somebody who is signed in as an admin."""
    with User(console_url) as admin:
        admin.sign_in(service.admin)
        yield admin


@pytest.fixture
def signed_in(client: JobClient, console_url: str) -> Iterator[SignedIn]:
    """Signs somebody in with a role, who is called after it."""
    users: list[User] = []

    def sign_in(role: Role) -> User:
        users.append(User(console_url))
        users[-1].sign_in(client.create_token(f"{role}-user", role, expires_in_seconds=3600))
        return users[-1]

    yield sign_in
    for each in users:
        each.http.close()


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """One browser for all tests; use `browser`."""
    with Browser() as found:
        yield found


@pytest.fixture
def signed_in_browser(chromium: Browser, service: RunningJobService, console_url: str) -> Iterator[Browser]:
    """As if new, signed in as an admin."""
    chromium.call("Network.clearBrowserCookies")
    chromium.resize(1280)
    chromium.open(f"{console_url}/sign-in")
    chromium.send("main form", {"token": service.admin})
    chromium.wait_for("document.title.startsWith('Fleet')")
    chromium.complaints()
    yield chromium
    chromium.open("about:blank")


@pytest.fixture
def browser(service: RunningJobService, console_url: str, signed_in_browser: Browser) -> Browser:
    """The same, on a fleet."""
    fill(service)
    signed_in_browser.open(f"{console_url}/")
    return signed_in_browser


@pytest.fixture
def rollout(service: RunningJobService) -> Iterator[RolloutCell]:
    """Version 2 of the package of j goes out to three tasks; the first wave is on its way."""
    with service.client() as client, service.client(client.create_token("syncer", "scaler", ["rollback"])) as writer:
        cell = RolloutCell(service.engine, client=client, writer=writer)
        cell.release("1")
        cell.rounds(2)
        cell.release("2")
        cell.rounds(1)
        yield cell
