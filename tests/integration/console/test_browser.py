"""The pages in a real browser: nothing is refused or broken, nothing is wider than a telephone, forms can be sent."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from penstock.wire.job_client import JobClient
from tests.support.console.browser import Browser

pytestmark = pytest.mark.long
AXE = files("axe_core_python").joinpath("axe.min.js").read_text()
PAGES = (
    "/",
    "/?sort=lag&health=lagging",
    "/jobs/clicks-hourly",
    "/jobs/payments-enrich",
    "/jobs/clicks-hourly/lineage",
    "/jobs/orders-joined/lineage?depth=1",
    "/jobs/clicks-hourly/configuration",
    "/jobs/clicks-hourly/configuration?all=1",
    "/jobs/clicks-hourly/history",
    "/jobs/clicks-hourly/decisions",
    "/jobs/clicks-hourly/savepoints",
    "/jobs/clicks-hourly/change",
    "/containers",
    "/containers/container-02",
    "/containers/container-03",
    "/alerts",
    "/no/such/page",
)
# What is wrong with a page for somebody with a screen reader, a keyboard or weak eyes.
RUN_AXE = """axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations.flatMap((fault) =>
  fault.nodes.map((node) => fault.impact + ' ' + fault.id + ': ' + node.html.slice(0, 120))))"""
TOO_WIDE = "Math.max(0, document.documentElement.scrollWidth - innerWidth)"


@pytest.mark.parametrize("width", [1280, 390])
def test_each_page_is_whole(browser: Browser, console_url: str, width: int) -> None:
    browser.complaints()
    for path in PAGES:
        for dark in (False, True):
            browser.resize(width, dark=dark)
            browser.open(f"{console_url}{path}")
            assert _faults(browser) == [], (path, dark)
            complaints = [each for each in browser.complaints() if "404" not in each]
            assert complaints == [], (path, dark)


def test_a_field_without_a_label_is_a_fault(browser: Browser) -> None:
    browser.run("document.querySelector('label[for=prefix]').remove()")
    assert [fault.partition(":")[0] for fault in _faults(browser)] == ["critical label"]


@pytest.mark.parametrize("width", [1280, 390])
def test_an_override_is_typed_planned_and_confirmed(
    browser: Browser, console_url: str, client: JobClient, tmp_path: Path, width: int
) -> None:
    browser.resize(width)
    browser.open(f"{console_url}/jobs/clicks-hourly/change")
    _send(browser, {"override-changes": "priority = nine", "override-reason": "a test"}, "override")
    browser.wait_for("document.getElementById('override-changes-error')")
    assert browser.run("document.getElementById('override-changes').value") == "priority = nine"
    assert _faults(browser) == []

    _send(browser, {"override-changes": "priority = 9", "override-ends": "30m"}, "override")
    browser.wait_for("document.getElementById('plan-title')")
    assert _faults(browser) == []
    browser.picture(tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 10_000
    assert client.get_job("clicks-hourly").config["priority"] == 5
    browser.run("document.querySelector('[name=whole_layer]').click()")
    browser.run("document.querySelector('form[action$=confirm] button').click()")
    browser.wait_for("document.querySelector('.notice.is-good')")
    assert client.get_job("clicks-hourly").config["priority"] == 9


def test_a_graph_that_is_wider_than_a_telephone_begins_at_its_own_job(browser: Browser, console_url: str) -> None:
    browser.resize(390)
    browser.open(f"{console_url}/jobs/orders-joined/lineage")
    browser.wait_for("document.querySelector('.graph').scrollLeft > 0")
    box = browser.run("document.querySelector('.graph .is-this .box').getBoundingClientRect().toJSON()")
    assert 0 < box["left"] < box["right"] < 390
    browser.run("document.querySelector('.graph .is-this + a').focus()")
    assert browser.run("document.activeElement.getAttribute('href')") == "/jobs/fraud-scores"


def test_keys_lead_to_pages_and_to_the_search(browser: Browser, console_url: str) -> None:
    browser.open(f"{console_url}/alerts")
    _press(browser, "g", "c")
    browser.wait_for("document.title.startsWith('Containers')")
    _press(browser, "g", "f")
    browser.wait_for("document.title.startsWith('Fleet')")
    _press(browser, "/")
    assert browser.run("document.activeElement.id") == "prefix"
    _press(browser, "x")
    assert browser.run("document.activeElement.value") == "x"


def _faults(browser: Browser) -> list[str]:
    """What axe-core finds, and whether the page is wider than its window."""
    if not browser.run("'axe' in window"):
        browser.run(f"{AXE}; 0")
    wide = browser.run(TOO_WIDE)
    return [*browser.run(RUN_AXE), *([f"wider than the window by {wide}"] if wide else [])]


def _send(browser: Browser, fields: dict[str, str], form: str) -> None:
    for field, text in fields.items():
        browser.run(f"document.getElementById('{field}').value = '{text}'")
    browser.run(f"document.querySelector('[aria-labelledby={form}-title] form button[type=submit]').click()")


def _press(browser: Browser, *keys: str) -> None:
    for key in keys:
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "")
