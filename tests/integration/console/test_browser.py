"""The pages in a real browser: nothing is refused or broken, nothing is wider than a telephone, forms can be sent."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

import pytest

from tests.support.console.browser import Browser
from tests.support.console.pictures import PAGES
from tests.support.state_syncer.rollouts import RolloutCell

AXE = files("axe_core_python").joinpath("axe.min.js").read_text()
SHORT = (PAGES["fleet"], PAGES["job"])
# What is wrong with a page for somebody with a screen reader, a keyboard or weak eyes.
RUN_AXE = """axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations.flatMap((fault) =>
  fault.nodes.map((node) => fault.impact + ' ' + fault.id + ': ' + node.html.slice(0, 120))))"""
# A telephone shows a page that is too wide as a whole: its window grows with the page.
WIDTH_OF_PAGE = "document.documentElement.scrollWidth"


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 390])
def test_each_page_is_whole(browser: Browser, console_url: str, width: int) -> None:
    assert _found(browser, console_url, list(PAGES.values()), width, (False, True)) == []


def test_the_first_page_and_that_of_a_job_are_whole(browser: Browser, console_url: str) -> None:
    """The short form of the test above."""
    assert _found(browser, console_url, SHORT, 390, (False,)) == []


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 390])
def test_the_pages_of_a_job_with_a_rollout_are_whole(
    signed_in_browser: Browser, console_url: str, rollout: RolloutCell, width: int
) -> None:
    assert _found(signed_in_browser, console_url, ("/jobs/j", "/jobs/j/change"), width, (False, True)) == []
    assert rollout.client.rollout("j").state == "rolling"


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 390])
def test_the_sign_in_is_whole_also_when_it_refuses(chromium: Browser, console_url: str, width: int) -> None:
    chromium.call("Network.clearBrowserCookies")
    chromium.complaints()
    assert _found(chromium, console_url, ("/sign-in",), width, (False, True)) == []
    chromium.send("main form", {"token": "nonsense"})
    chromium.wait_for("document.getElementById('token-error')")
    assert _faults(chromium, width) == []


@pytest.mark.long
def test_a_field_without_a_label_is_a_fault(browser: Browser) -> None:
    browser.run("document.querySelector('label[for=prefix]').remove()")
    assert [fault.partition(":")[0] for fault in _faults(browser, 1280)] == ["critical label"]


@pytest.mark.long
def test_a_page_that_is_wider_than_a_telephone_is_a_fault(browser: Browser) -> None:
    browser.resize(390)
    browser.run("document.querySelector('h2').style.width = '393px'")
    assert [fault.partition(" by ")[0] for fault in _faults(browser, 390)] == ["wider than the window"]


@pytest.mark.long
def test_a_graph_that_is_wider_than_a_telephone_begins_at_its_own_job(browser: Browser, console_url: str) -> None:
    browser.resize(390)
    browser.open(f"{console_url}/jobs/orders-joined/lineage")
    browser.wait_for("document.querySelector('.graph').scrollLeft > 0")
    box = browser.run("document.querySelector('.graph .is-this .box').getBoundingClientRect().toJSON()")
    assert 0 < box["left"] < box["right"] < 390
    browser.run("document.querySelector('.graph .is-this + a').focus()")
    assert browser.run("document.activeElement.getAttribute('href')") == "/jobs/fraud-scores"


@pytest.mark.long
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


def _found(browser: Browser, console_url: str, paths: Sequence[str], width: int, schemes: Sequence[bool]) -> list[str]:
    """What is refused by the policy, broken, hard to use for somebody, or wider than the window."""
    found = []
    for path in paths:
        for dark in schemes:
            browser.resize(width, dark=dark)
            browser.open(f"{console_url}{path}")
            complaints = [each for each in browser.complaints() if "404" not in each and "recommendation" not in each]
            found += [f"{path}: {each}" for each in (*_faults(browser, width), *complaints)]
    return found


def _faults(browser: Browser, width: int) -> list[str]:
    """What axe-core finds, and whether the page is wider than its window of this width."""
    if not browser.run("'axe' in window"):
        browser.run(f"{AXE}; 0")
    wide = browser.run(WIDTH_OF_PAGE)
    return [*browser.run(RUN_AXE), *([f"wider than the window by {wide - width}"] if wide > width else [])]


def _press(browser: Browser, *keys: str) -> None:
    for key in keys:
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "")
