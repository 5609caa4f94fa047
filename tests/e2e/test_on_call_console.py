"""A night on call in a real browser, on real tasks: find, understand, override, watch, and what else its forms do.

`PENSTOCK_PICTURES` names a folder for pictures of each step, on a wide and on a narrow screen.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from penstock.control.process import wait_until
from penstock.wire.overview import TaskView
from tests.support.chaos.stack import ChaosStack
from tests.support.console.browser import Browser
from tests.support.console.service import console
from tests.support.stack.late import FIELD, SLOW, LateJob, late

pytestmark = pytest.mark.long
MORE, SHORTLY = 2_000, 5 * SLOW
LASTS_S = 45
SOON_S = 120.0
WIDE, NARROW = 1280, 390
NO_RELOAD = "document.body.dataset.mark"
TABS = ("", "/lineage", "/configuration", "/history", "/decisions", "/savepoints", "/change")
RUNS = "document.getElementById('way')?.textContent.endsWith(' runs')"
NOTHING_UNKNOWN = "![...document.querySelectorAll('main .badge')].some((each) => each.textContent.includes('unknown'))"
"""Also of the count of all jobs, which may be some seconds old."""
SAID = "document.querySelector('.notice.is-good')"


class Screen:
    """A browser that is signed in, on the pages of one job."""

    def __init__(self, browser: Browser, url: str, job: LateJob, stack: ChaosStack, folder: Path) -> None:
        self.browser = browser
        self.job = job
        self._url = url
        self.stack = stack
        self._folder = folder
        self._numbers = itertools.count(1)

    def open(self, path: str) -> None:
        """Goes to a page of the console."""
        self.browser.open(f"{self._url}{path}")
        self.browser.wait_for("document.querySelector('main')")

    def open_job(self, tab: str = "") -> None:
        """Goes to a page of the job."""
        self.open(f"/jobs/{self.job.name}{tab}")

    def until(self, condition: str, seconds: float = SOON_S) -> None:
        """Waits until an expression is true, of a page that may be replaced meanwhile."""
        wait_until(lambda: self.browser.run(f"Boolean({condition})"), seconds, condition, poll_s=0.2)

    def says(self, selector: str, text: str) -> bool:
        """Waits until a part of the page has a text. Raises TimeoutError."""
        self.until(f"document.querySelector({selector!r})?.textContent.includes({text!r})")
        return True

    def picture(self, name: str) -> None:
        """What the page looks like, wide and narrow. Nothing is beyond its edge."""
        number = next(self._numbers)
        for width in (NARROW, WIDE):
            self.browser.resize(width)
            assert self.browser.run("document.documentElement.scrollWidth <= innerWidth"), (name, width)
            self.browser.picture(self._folder / f"{number:02}-{name}-{width}.png")

    def send(self, form: str, fields: Mapping[str, str], tab: str = "/change") -> None:
        """Sends a form of a page of the job, and waits for the line that says what was done."""
        self.open_job(tab)
        self.browser.send(form, fields)
        self.browser.wait_for(SAID)

    def change(self, what: str, fields: Mapping[str, str], planned: str, whole: Mapping[str, str]) -> None:
        """A change whose plan is shown first, with these words in it, and then confirmed."""
        self.open_job("/change")
        self.browser.send(f"form:has([name=what][value={what}])", fields)
        self.browser.wait_for("document.getElementById('plan-title')")
        self.says("main", planned)
        self.picture(f"plan-{what}")
        self.browser.send("form[action$='/confirm']", whole)
        self.browser.wait_for(SAID)

    def wait_tasks(self, holds: Callable[[list[TaskView]], bool], what: str) -> list[TaskView]:
        """The tasks of the job that should run, once all run and it holds of them. Raises TimeoutError."""

        def found() -> list[TaskView]:
            tasks = [task for task in self.tasks() if task.expected]
            return tasks if all(task.state == "running" for task in tasks) and holds(tasks) else []

        return wait_until(found, SOON_S, what, poll_s=0.2)

    def tasks(self) -> list[TaskView]:
        """The tasks as they are."""
        with self.stack.client() as client:
            return client.tasks(self.job.name).tasks


@pytest.fixture(scope="module")
def screen(stack: ChaosStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screen]:
    """On the fleet, beside a job that lags. The stories follow one another in their order."""
    folder = Path(os.environ.get("PENSTOCK_PICTURES") or tmp_path_factory.mktemp("pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    with late(stack) as job, console(stack.url) as url, Browser() as browser:
        browser.resize(WIDE)
        browser.open(f"{url}/sign-in")
        browser.send("main form", {"token": stack.token})
        browser.wait_for("document.title.startsWith('Fleet')")
        browser.complaints()
        yield Screen(browser, url, job, stack, folder)
        assert browser.complaints() == []


def test_a_lagging_job_is_found_and_understood(screen: Screen) -> None:
    """1. The fleet is filtered by lag, and has it. 2. The page of the job says why, with evidence and what to do."""
    screen.open("/")
    screen.says("#attention", screen.job.name)
    screen.picture("fleet")
    screen.browser.send("#filters", {"lag": "10s"})
    screen.says("#table tbody", screen.job.name)
    screen.picture("fleet-by-lag")
    screen.browser.run(f"document.querySelector(\"#table a[href$='{screen.job.name}']\").click()")
    screen.browser.wait_for("document.getElementById('why')")
    first = screen.browser.run("document.querySelector('.causes li').textContent")
    assert "a layer limits what tasks read" in first
    assert f"the layer base sets {FIELD} to {SLOW}" in first
    assert f"penstock override {screen.job.name}" in first
    screen.picture("job-that-lags")


def test_it_is_overridden_and_watched_until_it_runs(screen: Screen) -> None:
    """1. The plan. 2. Without a load of the page: each stage of the revision is done, the job is well, the override is
    shown with its end. 3. The task reads more."""
    fields = {"changes": f"{FIELD} = {MORE}", "ends": "30m", "reason": "rows wait"}
    screen.change("override", fields, "restart", {})
    screen.browser.run(f"{NO_RELOAD} = 'same'")
    screen.picture("written")
    screen.until(RUNS)
    screen.until("document.querySelectorAll('.stage').length === document.querySelectorAll('.stage.is-done').length")
    screen.says("#facts", "healthy")
    screen.says("#state", "“rows wait”")
    assert screen.browser.run(NO_RELOAD) == "same"
    screen.picture("overridden")
    wait_until(lambda: max(screen.job.batches()) > 10 * SLOW, SOON_S, "a large batch")


def test_an_override_ends_on_an_open_page(screen: Screen) -> None:
    """1. It runs. 2. Nobody loads the page again: the override is gone, and the revision of its end runs, on the task
    too."""
    fields = {"changes": f"{FIELD} = {SHORTLY}", "ends": f"{LASTS_S}s", "reason": "for a moment"}
    screen.change("override", fields, "restart", {"whole_layer": "yes"})
    screen.browser.run(f"{NO_RELOAD} = 'same'")
    screen.until(RUNS)
    screen.says("#state", "“for a moment”")
    screen.job.send(20 * SHORTLY)
    wait_until(lambda: screen.job.is_limited_to(SHORTLY), LASTS_S, f"batches of {SHORTLY} rows")
    screen.until("!document.querySelector('#state').textContent.includes('for a moment')")
    screen.until(RUNS)
    assert screen.browser.run(NO_RELOAD) == "same"
    screen.picture("expired")
    screen.open_job("/history")
    screen.says(".timeline li:first-child", "expire")
    screen.picture("history")
    screen.job.send(20 * SLOW)
    wait_until(lambda: screen.job.is_limited_to(SLOW), SOON_S, f"batches of {SLOW} rows")


def test_its_tasks_are_restarted(screen: Screen) -> None:
    [before] = screen.tasks()
    screen.send("form[action$='/restart']", {"reason": "to see it"})
    [after] = screen.wait_tasks(lambda tasks: tasks[0].restarts != before.restarts, "a restart")
    assert after.restarts == (before.restarts or 0) + 1
    assert after.generation == before.generation


def test_it_gets_another_task(screen: Screen) -> None:
    """Two tasks, of another generation, are on the page."""
    [before] = screen.tasks()
    screen.change("rescale", {"task_count": "2", "reason": "it is slow"}, "rescale", {})
    after = screen.wait_tasks(lambda tasks: len(tasks) == 2, "two tasks")
    assert all((task.generation or 0) > (before.generation or 0) for task in after)
    screen.until(RUNS)
    screen.until("document.querySelectorAll('#tasks tbody tr').length === 2")
    screen.picture("rescaled")


def test_a_savepoint_is_made(screen: Screen) -> None:
    """The page says when it is ready; the Job Service has it, with both tasks."""
    screen.send("form[action$='/savepoint']", {"name": "by-hand", "reason": "before the weekend"})
    screen.says("#savepoints", "ready")
    screen.picture("savepoint")
    with screen.stack.client() as client:
        saved = client.savepoint(screen.job.name, "by-hand")
    assert (saved.state, len(saved.tasks or ())) == ("ready", 2)


def test_a_container_is_drained(screen: Screen) -> None:
    """1. No task of the job is there any more, by the reports and by its page. 2. It takes shards again."""
    name = str(screen.tasks()[0].container)
    path = f"/containers/{name}"
    _act(screen, path, "drain")
    after = screen.wait_tasks(lambda tasks: all(task.container != name for task in tasks), f"{name} to be empty")
    assert len(after) == 2
    screen.says("#tasks", "It reports no task")
    screen.says("#load", "It is empty and may be taken down")
    screen.picture("drained")
    _act(screen, path, "uncordon")
    with screen.stack.client() as client:
        assert client.container(name).availability == "open"


def _act(screen: Screen, path: str, action: str) -> None:
    screen.open(path)
    screen.browser.send(f"form[action='{path}']", {"action": action, "reason": f"a test of {action}"})
    screen.browser.wait_for(SAID)


def test_every_page_of_a_running_job_is_whole(screen: Screen) -> None:
    """No error, and nothing unknown, once the job is well. The layer has a size that never ends: one end for both."""
    fields = {"changes": f"{FIELD} = {MORE}", "ends": "2h", "reason": "rows wait"}
    screen.change("override", fields, "restart", {"whole_layer": "yes"})
    screen.until(RUNS)
    screen.says("#facts", "healthy")
    container = screen.tasks()[0].container
    paths = [f"/jobs/{screen.job.name}{tab}" for tab in TABS]
    for path in [*paths, "/", "/alerts", "/containers", f"/containers/{container}"]:
        screen.open(path)
        assert not screen.browser.run("Boolean(document.querySelector('[role=alert]'))"), path
        screen.until(NOTHING_UNKNOWN)
        screen.picture(path.strip("/").replace("/", "-") or "fleet")
    assert screen.browser.complaints() == []


def test_every_row_is_there_once(screen: Screen) -> None:
    screen.job.dry_up()
    wait_until(lambda: len(screen.job.counts()) == screen.job.sent, SOON_S, "every row")
    screen.job.assert_exact()
