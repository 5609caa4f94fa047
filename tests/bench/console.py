"""Pages of the console among many jobs: `python -m tests.bench.console [--jobs 10000]`.

The Job Service and the console are real servers in this process, over the embedded Postgres; each job has four tasks
that containers report. As a signed-in user asks for them, over HTTP, the median of `ROUNDS`:

- `fleet_ms`: the first page; `sorted_ms`: the same, sorted by lag; `health_ms`: those of one health.
- `job_ms`: the page of a job with charts.
- `count_s`: from the first page to the first whole count of the jobs, which goes on behind the pages.
- `first_paint_ms`: of the first page in Chromium, from the navigation on; the median of `PAINTS`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from penstock.control import logs
from penstock.control.process import wait_until
from penstock.local.postgres import EmbeddedPostgres
from penstock.store.migrate import upgrade
from tests.bench.report import finish, say
from tests.support.console.browser import Browser
from tests.support.console.fleet import NAMES, fill
from tests.support.console.service import User, console
from tests.support.job_service.service import RunningJobService, job_service

ROUNDS = 15
PAINTS = 5
_MOST_SECONDS = 600.0


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    count = parser.parse_args().jobs
    logs.configure("bench", level="ERROR")
    with (
        tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as folder,
        EmbeddedPostgres(Path(folder) / "postgres", durable=False) as server,
    ):
        upgrade(server.url)
        with job_service(server.url) as service:
            fill(service, further=count - len(NAMES))
            with service.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.exec_driver_sql("VACUUM ANALYZE")
            say(f"{count} jobs")
            figures = measure(service)
    finish({"jobs": count, **figures}, places=1)


def measure(service: RunningJobService) -> dict[str, float]:
    """The figures among the jobs of the service."""
    with console(service.url, console_key="a key of the bench, long enough!") as url, User(url) as user:
        user.sign_in(service.admin)
        began = time.perf_counter()
        wait_until(lambda: "are being counted" not in user.get("/"), _MOST_SECONDS, "the count of the jobs", poll_s=0.5)
        count_s = time.perf_counter() - began
        pages = {
            "fleet_ms": "/",
            "sorted_ms": "/?sort=lag",
            "health_ms": "/?health=starting",
            "job_ms": "/jobs/clicks-hourly",
        }
        found = {
            name: statistics.median(_milliseconds(user, path) for _ in range(ROUNDS)) for name, path in pages.items()
        }
        return {**found, "count_s": count_s, "first_paint_ms": _first_paint(url, service.admin)}


def _milliseconds(user: User, path: str) -> float:
    began = time.perf_counter()
    user.get(path)
    return (time.perf_counter() - began) * 1000


def _first_paint(url: str, token: str) -> float:
    with Browser() as browser:
        browser.resize(1280)
        browser.open(f"{url}/sign-in")
        browser.run(f"document.getElementById('token').value = '{token}'")
        browser.run("document.querySelector('main form button').click()")
        browser.wait_for("document.title.startsWith('Fleet')")
        return statistics.median(_paint(browser, url) for _ in range(PAINTS))


def _paint(browser: Browser, url: str) -> float:
    browser.open(f"{url}/jobs/clicks-hourly")
    browser.open(f"{url}/")
    painted = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    browser.wait_for(painted)
    return float(browser.run(painted))


if __name__ == "__main__":
    main()
