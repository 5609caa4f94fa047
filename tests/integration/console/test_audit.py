"""From which address somebody used the console, in the audit log of the Job Service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
from structlog.testing import capture_logs

from penstock.control.clock import SystemClock
from penstock.identity.process import ProcessIdentity
from penstock.identity.roles import Caller, Role
from penstock.identity.vouching import HEADER
from services.console.api import create_console
from services.console.settings import ConsoleSettings
from services.job_service.api import create_api
from services.job_service.settings import JobServiceSettings
from tests.support.console.service import User
from tests.support.control.serving import serving
from tests.support.identity import make_cell
from tests.support.job_service.service import RunningJobService

SILENCE = {"kind": "quarantined", "reason": "known", "ends": "1h"}
BROWSER = "127.0.0.7"


@contextmanager
def cell(service: RunningJobService, folder: Path) -> Iterator[tuple[str, str]]:
    """A Job Service and a console with certificates of one cell; their addresses."""
    made = make_cell(folder)
    made.issue(Caller(Role.CONSOLE), ["localhost"], datetime.now(UTC))
    known = ProcessIdentity(folder, Caller(Role.JOB_SERVICE), tls=True).vouched
    settings = JobServiceSettings(database_url=service.database_url)
    with serving(create_api(service.engine, SystemClock(), settings, vouched=known)) as url:
        identity = ProcessIdentity(folder, Caller(Role.CONSOLE), tls=True)
        pages = create_console(ConsoleSettings(job_service_url=url), SystemClock(), identity)
        with serving(pages) as console_url:
            yield url, console_url


def test_the_audit_log_has_the_address_of_the_browser(service: RunningJobService, tmp_path: Path) -> None:
    """1. A form of the console: the browser's address, and the console's beside it. 2. Who calls the Job Service and
    only says so is logged with the address that it has."""
    with cell(service, tmp_path / "cell") as (url, console_url), capture_logs() as logged, User(console_url) as user:
        user.http = httpx.Client(
            base_url=console_url, timeout=30, transport=httpx.HTTPTransport(local_address=BROWSER), trust_env=False
        )
        user.sign_in(service.admin)
        assert user.post("/silences", SILENCE, of="/alerts").status_code == 303
        headers = {"Authorization": f"Bearer {service.admin}", HEADER: f"{BROWSER} 1 x x"}
        assert httpx.delete(f"{url}/v1/silences/1", headers=headers).is_success
    lines = [line for line in logged if line["event"] == "call that writes"]
    assert [(line["method"], line["address"], line.get("via")) for line in lines] == [
        ("POST", BROWSER, "127.0.0.1"),
        ("DELETE", "127.0.0.1", None),
    ]
    assert [line["error"] for line in logged if line["event"] == "address of a browser not taken"] == [
        "the address of the browser is malformed"
    ]
