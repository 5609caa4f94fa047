"""Open pages in a real browser: they follow what happens, and leave alone what somebody reads or types in."""

from __future__ import annotations

import pytest

from penstock.control.process import wait_until
from penstock.wire.job_client import JobClient
from tests.support.console.browser import Browser
from tests.support.job_service.service import RunningJobService
from tests.support.job_service.stored import execute

pytestmark = pytest.mark.long
JOB = "clicks-hourly"
REFRESHED = """new Promise((told) => {
  addEventListener('htmx:oobBeforeSwap', () => told(true), { once: true });
  htmx.trigger('#live', 'sse:changed');
})"""
ASKED = "new Promise((told) => addEventListener('htmx:afterOnLoad', () => told(true), { once: true }))"
STREAMS = """
window.streams = [];
window.EventSource = class extends window.EventSource { constructor(...all) { super(...all); streams.push(this); } };
"""


def until(browser: Browser, condition: str) -> None:
    wait_until(lambda: browser.run(f"Boolean({condition})"), 60, condition, poll_s=0.1)


def revision_of(client: JobClient, job: str, priority: int) -> int:
    version = client.get_layer(job, "oncall").version
    return client.put_layer(job, "oncall", {"priority": priority}, if_match=version, verify=False).revision


def test_an_open_page_follows_what_happens_without_being_loaded_again(
    browser: Browser, console_url: str, client: JobClient
) -> None:
    """The focus stays on its link."""
    browser.complaints()
    browser.open(f"{console_url}/jobs/orders-clean")
    browser.run("document.querySelector('#measured').dataset.mark = 'same page'")
    browser.run("document.querySelector('#tasks a').focus()")
    for priority in (3, 4):
        revision = revision_of(client, "orders-clean", priority)
        until(browser, f"document.getElementById('facts').textContent.includes('revision {revision}')")
    assert browser.run("document.querySelector('#measured').dataset.mark") == "same page"
    assert browser.run("document.activeElement.closest('#tasks') !== null")
    assert browser.complaints() == []


def test_what_somebody_types_in_or_reads_stays(browser: Browser, console_url: str, client: JobClient) -> None:
    """1. The text stays while the alert of another job comes. 2. Once the part is closed the alert is shown."""
    browser.open(f"{console_url}/alerts")
    (alert,) = client.alerts(kind="job_lagging").alerts
    field = f"document.getElementById('ack-{alert.id}-reason')"
    browser.run(f"{field}.closest('details').open = true; {field}.focus(); {field}.value = 'half a sen'")
    client.acknowledge(client.alerts(kind="task_crashing").alerts[0].id, reason="mine")
    for _ in range(2):
        assert browser.run(REFRESHED) is True
    assert browser.run(f"{field}.value") == "half a sen"
    assert browser.run(f"document.activeElement === {field}")
    assert "is on it" not in browser.run("document.getElementById('alerts').textContent")
    browser.run(f"{field}.blur(); {field}.closest('details').open = false")
    until(browser, "document.getElementById('alerts').textContent.includes('is on it')")


def test_what_is_the_same_is_not_replaced(browser: Browser, console_url: str) -> None:
    browser.open(f"{console_url}/jobs/parked-report/savepoints")
    browser.run("document.getElementById('savepoints').dataset.mark = 'same'")
    for _ in range(2):
        assert browser.run(REFRESHED) is True
    assert browser.run("document.getElementById('savepoints').dataset.mark") == "same"


def test_a_page_without_an_answer_says_so_until_there_is_one(browser: Browser, console_url: str) -> None:
    browser.open(f"{console_url}/jobs/orders-clean")
    browser.call("Network.setBlockedURLs", urls=["*/jobs/*"])
    browser.run("htmx.trigger('#live', 'sse:changed')")
    until(browser, "document.querySelector('#freshness.is-old')?.textContent.includes('figures are old')")
    browser.call("Network.setBlockedURLs", urls=[])
    browser.run("htmx.trigger('#live', 'sse:changed')")
    until(browser, "document.querySelector('#freshness:not(.is-old)') !== null")
    assert browser.run("document.getElementById('freshness').textContent") == ""


def test_a_page_that_nobody_sees_has_no_connection(browser: Browser, console_url: str) -> None:
    """1. It is closed when the page is hidden. 2. A new one is opened when it is seen again, and the page asked for."""
    with browser.before_scripts(STREAMS):
        browser.open(f"{console_url}/jobs/orders-clean")
    until(browser, "streams.length === 1 && streams[0].readyState === 1")
    hide = "Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }})"
    tell = "document.dispatchEvent(new Event('visibilitychange'))"
    browser.run(f"{hide.format(hidden='true')}; {tell}")
    assert browser.run("streams[0].readyState") == 2
    browser.run(f"window.asked = {ASKED}; 0")
    browser.run(f"{hide.format(hidden='false')}; {tell}")
    assert browser.run("window.asked") is True
    until(browser, "streams.length === 2 && streams[1].readyState === 1")


def test_a_session_that_is_over_leads_to_the_sign_in(browser: Browser, console_url: str) -> None:
    browser.open(f"{console_url}/jobs/orders-clean")
    browser.call("Network.clearBrowserCookies")
    browser.run("htmx.trigger('#live', 'sse:changed')")
    browser.wait_for("location.pathname === '/sign-in'")
    assert browser.run("location.search") == "?next=/jobs/orders-clean"


def test_the_table_of_jobs_is_filtered_and_sorted_in_its_place(browser: Browser, console_url: str) -> None:
    """1. By typing: the page is not loaded again, the text and the focus stay, the address says what is shown. 2. By a
    column, and the other way round, with the filter kept. 3. Back leads to the order before."""
    names = "[...document.querySelectorAll('#table tbody th a')].map((link) => link.textContent).join(' ')"
    browser.run("document.querySelector('h1').dataset.mark = 'same page'")
    browser.run("document.getElementById('prefix').focus()")
    browser.call("Input.insertText", text="orders-")
    until(browser, f"{names} === 'orders-clean orders-joined'")
    assert browser.run("document.activeElement.value") == "orders-"
    assert browser.run("location.search") == "?prefix=orders-&owner=&health=&state=&lag=&topic="
    for ends, first in (("reverse=1", "orders-joined"), ("prefix=orders-", "orders-clean")):
        browser.run("document.querySelector('#table thead a').click()")
        until(browser, f"{names}.startsWith('{first}') && location.search.endsWith('{ends}')")
    assert browser.run("document.querySelector('h1').dataset.mark") == "same page"
    browser.run("history.back()")
    browser.wait_for(f"{names}.startsWith('orders-joined')")
    assert browser.run("document.getElementById('prefix').value") == "orders-"


def test_a_filter_that_makes_no_sense_is_told(browser: Browser, console_url: str) -> None:
    browser.run("document.getElementById('lag').focus()")
    browser.call("Input.insertText", text="soon")
    until(browser, "document.querySelector('#table [role=alert]')?.textContent.startsWith('lag: ')")
    assert browser.run("document.activeElement.value") == "soon"


def test_a_chart_tells_its_figures_at_the_pointer_and_is_zoomed(browser: Browser, console_url: str) -> None:
    """1. All charts tell those of one minute. 2. Away from them the newest. 3. A drag zooms, and a refresh leaves it
    alone. 4. A double click goes back."""
    browser.open(f"{console_url}/jobs/{JOB}/decisions")
    until(browser, "document.querySelectorAll('.chart .uplot').length === 3")
    box = browser.run("document.querySelector('.u-over').getBoundingClientRect().toJSON()")
    captions = "[...document.querySelectorAll('.chart figcaption')].map((each) => each.textContent)"
    newest = browser.run(captions)
    y, middle = box["top"] + box["height"] / 2, box["left"] + box["width"] / 2
    _move(browser, "mouseMoved", middle, y)
    until(browser, "[...document.querySelectorAll('.when')].every((each) => each.textContent.endsWith('UTC'))")
    assert browser.run("new Set([...document.querySelectorAll('.when')].map((each) => each.textContent)).size") == 1
    assert browser.run(captions) != newest
    _move(browser, "mousePressed", middle, y)
    _move(browser, "mouseMoved", middle + 60, y)
    _move(browser, "mouseReleased", middle + 60, y)
    until(browser, "document.querySelector('.chart.is-zoomed')")
    _move(browser, "mouseMoved", 5, 5)
    until(browser, "[...document.querySelectorAll('.when')].filter((each) => each.offsetWidth === 0).length === 3")
    assert browser.run(captions) == newest
    assert browser.run(REFRESHED) is True
    assert browser.run("document.querySelectorAll('.chart.is-zoomed').length") > 0
    browser.run("document.querySelector('.u-over').dispatchEvent(new MouseEvent('dblclick', { bubbles: true }))")
    until(browser, "!document.querySelector('.chart.is-zoomed')")
    assert browser.complaints() == []


def test_charts_are_drawn_again_when_they_are_new_or_the_colours_change(
    browser: Browser, console_url: str, service: RunningJobService
) -> None:
    browser.open(f"{console_url}/jobs/{JOB}")
    until(browser, "document.querySelectorAll('.chart .uplot').length === 8")
    browser.run("document.querySelector('.uplot').dataset.mark = 'old'")
    execute(service, "UPDATE task_metrics SET lag_seconds = lag_seconds + 60")
    browser.run("htmx.trigger('#live', 'sse:changed')")
    until(browser, "!document.querySelector('[data-mark=old]') && document.querySelectorAll('.uplot').length === 8")
    browser.run("document.querySelector('.uplot').dataset.mark = 'light'")
    browser.resize(1280, dark=True)
    until(browser, "!document.querySelector('[data-mark=light]')")
    assert browser.run("document.querySelectorAll('.chart .uplot').length") == 8


def _move(browser: Browser, kind: str, x: float, y: float) -> None:
    pressed = {} if kind == "mouseMoved" else {"clickCount": 1}
    buttons = {} if x < 10 else {"button": "left"}
    browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed, **buttons)
