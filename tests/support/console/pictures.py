"""Pictures of all pages, for people to look at: `python -m tests.support.console.pictures FOLDER [--only NAME]`.

Each page of `PAGES` and those that a form leads to, at 1280 and at 390 pixels, in light and in dark, as
`FOLDER/<page>-<width>-<light or dark>.png`. The Job Service and the console are real servers in this process, on the
fleet of the tests. The picture of the console's README is `job-1280-light.png`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import text

from penstock.control import logs
from penstock.local.postgres import EmbeddedPostgres
from penstock.store.engine import transaction
from penstock.store.migrate import upgrade
from penstock.wire.alerts import SilenceWrite
from tests.support.console.browser import Browser
from tests.support.console.fleet import fill
from tests.support.console.service import console
from tests.support.job_service.service import RunningJobService, job_service

WIDTHS = (1280, 390)
PAGES: Mapping[str, str] = {
    "fleet": "/",
    "fleet-sorted": "/?sort=lag&health=lagging",
    "job": "/jobs/clicks-hourly",
    "job-crashing": "/jobs/payments-enrich",
    "lineage": "/jobs/clicks-hourly/lineage",
    "lineage-near": "/jobs/orders-joined/lineage?depth=1",
    "configuration": "/jobs/clicks-hourly/configuration",
    "configuration-all": "/jobs/clicks-hourly/configuration?all=1",
    "history": "/jobs/clicks-hourly/history",
    "decisions": "/jobs/clicks-hourly/decisions",
    "savepoints": "/jobs/clicks-hourly/savepoints",
    "change": "/jobs/clicks-hourly/change",
    "containers": "/containers",
    "container": "/containers/container-02",
    "container-3": "/containers/container-03",
    "container-lost": "/containers/container-09",
    "alerts": "/alerts",
    "missing": "/no/such/page",
}
"""Each page of somebody who is signed in, by name; some twice, with other content."""
_OPEN = "document.querySelectorAll('main details').forEach((each) => { each.open = true; })"


def _refused(browser: Browser, url: str) -> None:
    """A form with an error beside each field that has one."""
    browser.open(f"{url}/jobs/clicks-hourly/change")
    browser.send(
        "form:has([name=what][value=override])", {"changes": "priority nine", "ends": "soon", "reason": "a test"}
    )
    browser.wait_for("document.getElementById('override-changes-error')")


def _plan(browser: Browser, url: str) -> None:
    """What a change would do, before it is confirmed."""
    browser.open(f"{url}/jobs/clicks-hourly/change")
    browser.send("form:has([name=what][value=rescale])", {"task_count": "8", "reason": "the morning peak"})
    browser.wait_for("document.getElementById('plan-title')")


def _unfolded(browser: Browser, url: str) -> None:
    """Alerts with what to do about them, and their forms."""
    browser.open(f"{url}/alerts")
    browser.run(f"{_OPEN}; 0")


def _signed_out(browser: Browser, url: str) -> None:
    """A sign-in that is refused."""
    browser.open(f"{url}/sign-in")
    browser.send("main form", {"token": "nonsense"})
    browser.wait_for("document.getElementById('token-error')")


_STEPS: Mapping[str, Callable[[Browser, str], None]] = {
    "refused": _refused,
    "plan": _plan,
    "alerts-unfolded": _unfolded,
}
"""What forms lead to."""


@contextmanager
def serving() -> Iterator[tuple[RunningJobService, str]]:
    """A Job Service with a fleet, and the address of a console over it."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True))
        server = stack.enter_context(EmbeddedPostgres(Path(folder) / "postgres", durable=False))
        upgrade(server.url)
        service = stack.enter_context(job_service(server.url))
        fill(service)
        _look_after(service)
        yield service, stack.enter_context(console(service.url, console_key="a key of the pictures, long enough"))


def _report(service: RunningJobService) -> None:
    """As containers do again and again. The fleet of the tests reports from the future, which no page should show."""
    with transaction(service.engine) as connection:
        connection.exec_driver_sql("UPDATE reports SET reported_at = now() - interval '2 seconds'")


def _look_after(service: RunningJobService) -> None:
    """A silence, and somebody on an alert. What runs is what was asked for, and no hour is rolled yet."""
    with transaction(service.engine) as connection:
        connection.exec_driver_sql("UPDATE rolled SET hour = hour - interval '2 hours'")
    with service.client() as client, transaction(service.engine) as connection:
        config = json.dumps(client.get_job("clicks-hourly").config)
        connection.execute(
            text("UPDATE running SET config = CAST(:config AS jsonb) WHERE job = 'clicks-hourly'"), {"config": config}
        )
    with service.client() as client:
        client.acknowledge(client.alerts(kind="task_crashing").alerts[0].id, reason="the new producer sends n/a")
        wanted = SilenceWrite(subject="parked-*", reason="no reports until Monday", expires_in_seconds=86_400)
        client.silence(wanted)


def take(browser: Browser, url: str, folder: Path, only: str, report: Callable[[], None]) -> Iterator[Path]:
    """Writes the pictures whose name begins with `only`, and tells each. The browser is signed in. `report`: brings
    what containers have said up to date."""
    for name in (*PAGES, *_STEPS, "sign-in"):
        if not name.startswith(only):
            continue
        for width in WIDTHS:
            for dark in (False, True):
                report()
                browser.resize(width, dark=dark)
                _go(browser, url, name)
                path = folder / f"{name}-{width}-{'dark' if dark else 'light'}.png"
                browser.picture(path)
                yield path


def _go(browser: Browser, url: str, name: str) -> None:
    if name == "sign-in":
        browser.call("Network.clearBrowserCookies")
        _signed_out(browser, url)
    elif name in _STEPS:
        _STEPS[name](browser, url)
    else:
        browser.open(f"{url}{PAGES[name]}")
    browser.wait_for("[...document.querySelectorAll('.chart')].every((each) => each.querySelector('.uplot'))")


def main() -> None:
    """Writes them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="those whose name begins with this")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    logs.configure("pictures", level="ERROR")
    with serving() as (service, url), Browser() as browser:
        browser.resize(WIDTHS[0])
        browser.open(f"{url}/sign-in")
        browser.send("main form", {"token": service.admin})
        browser.wait_for("document.title.startsWith('Fleet')")
        for path in take(browser, url, chosen.folder, chosen.only, lambda: _report(service)):
            print(path, flush=True)


if __name__ == "__main__":
    main()
