"""Each form in a real browser, on a telephone and on a desk: bad input is told beside its field and changes nothing,
good input does what it says, and its button can be pressed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import product
from typing import NamedTuple

import pytest

from penstock.wire.alerts import SilenceWrite
from penstock.wire.job_client import JobClient
from penstock.wire.overview import AlertView
from tests.support.console.browser import Browser
from tests.support.job_service.service import RunningJobService
from tests.support.job_service.stored import execute
from tests.support.state_syncer.rollouts import RolloutCell

JOB = "clicks-hourly"
CHANGE = f"/jobs/{JOB}/change"
WHOLE = {"whole_layer": "yes"}
"""The end is given to all fields of the layer, of which one has an end already."""
REFUSED = "[role=alert]"
"""A page that says what was refused, of a form without a field for it."""
FORGED = {"form_token": "of another session"}
"""The bad input of a form that has no field to type in."""
TELEPHONE, DESK = 390, 1280
WIDTHS = pytest.mark.parametrize("width", [TELEPHONE, DESK])
_PRESSED = """(selector) => {
  const form = document.querySelector(selector), button = form.querySelector('[type=submit]');
  form.closest('details')?.setAttribute('open', '');
  button.scrollIntoView({ block: 'center' });
  const box = button.getBoundingClientRect();
  const at = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  return button.contains(at) && box.left >= 0 && box.right <= document.documentElement.clientWidth;
}"""


def nothing(_: JobClient) -> None:
    """What most forms need first."""


class Form(NamedTuple):
    """`form`: its selector on the page. `bad`: fields that are refused, `error`: where that is said. `good`: fields
    that are not; `has_worked`: whether they did what the form says. `confirmed`: what the form of its plan is
    sent with; None: it shows none. `first`: what must be so before the page has the form."""

    name: str
    page: str
    form: str
    bad: Mapping[str, str]
    error: str
    good: Mapping[str, str]
    has_worked: Callable[[JobClient], bool]
    confirmed: Mapping[str, str] | None = None
    first: Callable[[JobClient], object] = nothing


def planned(what: str) -> str:
    """The form of a change that shows its plan."""
    return f"form:has([name=what][value={what}])"


def posted(path: str) -> str:
    """The form that is sent to a path with this end."""
    return f"form[action$='{path}']"


def overridden(config: Mapping[str, object]) -> Callable[[JobClient], object]:
    """The job has this override."""
    return lambda client: client.put_layer(JOB, "oncall", config, if_match=1, reason="a test", verify=False)


def lagging(client: JobClient) -> AlertView:
    """The alert of the job."""
    return client.alerts(kind="job_lagging").alerts[0]


def silenced(client: JobClient) -> object:
    """Alerts of the job are left out."""
    return client.silence(SilenceWrite(subject=JOB, reason="a release", expires_in_seconds=3600))


FORMS = (
    Form(
        "override",
        CHANGE,
        planned("override"),
        {"changes": "priority = nine", "reason": "a test"},
        "#override-changes-error",
        {"changes": "priority = 9", "ends": "30m", "reason": "a test"},
        lambda client: client.get_job(JOB).config["priority"] == 9,
        confirmed=WHOLE,
    ),
    Form(
        "rescale",
        CHANGE,
        planned("rescale"),
        {"task_count": "many", "reason": "a test"},
        "#rescale-task_count-error",
        {"task_count": "2", "reason": "a test"},
        lambda client: client.get_job(JOB).config["task_count"] == 2,
        confirmed=WHOLE,
    ),
    Form(
        "stop",
        CHANGE,
        planned("stop"),
        {"ends": "soon", "reason": "a test"},
        "#stop-ends-error",
        {"reason": "a test"},
        lambda client: client.get_job(JOB).config["desired_state"] == "stopped",
        confirmed=WHOLE,
    ),
    Form(
        "restart",
        CHANGE,
        posted("/restart"),
        {"reason": " "},
        "#restart-reason-error",
        {"reason": "stuck"},
        lambda client: client.get_job(JOB).restarts == 1,
    ),
    Form(
        "savepoint",
        CHANGE,
        posted("/savepoint"),
        {"name": "Not A Name", "reason": "a test"},
        "#savepoint-name-error",
        {"name": "by-hand", "reason": "a test"},
        lambda client: ("by-hand", "asked") in {(each.name, each.state) for each in client.savepoints(JOB).savepoints},
    ),
    *(
        Form(
            action,
            "/containers/container-03",
            posted("/containers/container-03"),
            {"action": action, "reason": " "},
            "#container-reason-error",
            {"action": action, "reason": "new disk"},
            lambda client, state=state: client.container("container-03").availability == state,  # type: ignore[misc]
            first=first,
        )
        for action, state, first in (
            ("cordon", "cordoned", nothing),
            ("drain", "draining", nothing),
            ("uncordon", "open", lambda client: client.cordon("container-03", reason="a test")),
        )
    ),
    Form(
        "acknowledge",
        "/alerts?kind=job_lagging",
        posted("/acknowledge"),
        {"reason": " "},
        "[id$=-reason-error]",
        {"reason": "mine"},
        lambda client: lagging(client).acknowledged_by == "admin",
    ),
    Form(
        "leave",
        "/alerts?kind=job_lagging",
        posted("/leave"),
        FORGED,
        REFUSED,
        {},
        lambda client: lagging(client).acknowledged_by is None,
        first=lambda client: client.acknowledge(lagging(client).id, reason="mine"),
    ),
    Form(
        "silence",
        "/alerts",
        posted("/silences"),
        {"kind": "job_lagging", "subject": JOB, "ends": "soon", "reason": "a release"},
        "#silence-ends-error",
        {"kind": "job_lagging", "subject": JOB, "ends": "1h", "reason": "a release"},
        lambda client: [each.subject for each in client.silences().silences] == [JOB],
    ),
    Form(
        "end",
        "/alerts",
        posted("/end"),
        FORGED,
        REFUSED,
        {},
        lambda client: not client.silences().silences,
        first=silenced,
    ),
    Form(
        "start",
        CHANGE,
        planned("start"),
        {"reason": " "},
        "#start-reason-error",
        {"reason": "a test"},
        lambda client: client.get_job(JOB).config["desired_state"] == "running",
        confirmed={},
        first=overridden({"desired_state": "stopped"}),
    ),
    Form(
        "revert",
        f"/jobs/{JOB}/history",
        posted("/layers/oncall/revert"),
        {"ends": "soon", "reason": "a test"},
        REFUSED,
        {"reason": "5 was right"},
        lambda client: client.get_job(JOB).config["priority"] == 5,
        first=overridden({"priority": 8}),
    ),
    Form(
        "drop",
        f"/jobs/{JOB}/configuration",
        posted("/layers/oncall/drop"),
        {"reason": " "},
        REFUSED,
        {"reason": "over"},
        lambda client: client.get_layer(JOB, "oncall").config is None,
    ),
)


def press(browser: Browser, form: str, fields: Mapping[str, str]) -> None:
    """Sends a form whose button nothing covers, and that is within the window."""
    assert browser.run(f"({_PRESSED})({json.dumps(form)})") is True, form
    browser.send(form, fields)


def refuses(browser: Browser, url: str, form: Form, client: JobClient) -> None:
    """The bad input is told, what was typed stays, nothing changes."""
    browser.open(f"{url}{form.page}")
    press(browser, form.form, form.bad)
    browser.wait_for(f'document.querySelector("{form.error}")')
    if form.error != REFUSED:
        assert browser.run(f'document.querySelector("{form.error}").textContent.length') > 5
        kept = f"Object.fromEntries(new FormData(document.querySelector('{form.error}').closest('form')))"
        assert form.bad.items() <= browser.run(kept).items()
    assert not form.has_worked(client)


def works(browser: Browser, url: str, form: Form, client: JobClient) -> bool:
    """1. It refuses the bad input. 2. Whether the good one works."""
    refuses(browser, url, form, client)
    browser.open(f"{url}{form.page}")
    press(browser, form.form, form.good)
    if form.confirmed is not None:
        browser.wait_for("document.getElementById('plan-title')")
        assert not form.has_worked(client), "a plan writes nothing"
        press(browser, posted("/confirm"), form.confirmed)
    browser.wait_for("document.querySelector('.notice.is-good')")
    return form.has_worked(client)


@pytest.mark.parametrize(
    ("form", "width"),
    [
        pytest.param(form, width, id=f"{form.name}-{width}", marks=() if number == 0 else pytest.mark.long)
        for number, (width, form) in enumerate(product((TELEPHONE, DESK), FORMS))
    ],
)
def test_a_form_refuses_and_works(
    browser: Browser, console_url: str, client: JobClient, form: Form, width: int
) -> None:
    form.first(client)
    browser.resize(width)
    assert works(browser, console_url, form, client)


@pytest.mark.long
@WIDTHS
def test_a_plan_that_would_end_other_fields_too_is_confirmed_with_that_or_not_at_all(
    browser: Browser, console_url: str, client: JobClient, width: int
) -> None:
    browser.resize(width)
    browser.open(f"{console_url}{CHANGE}")
    press(browser, planned("rescale"), {"task_count": "2", "reason": "a test"})
    browser.wait_for("document.getElementById('plan-title')")
    press(browser, posted("/confirm"), {})
    browser.wait_for("document.getElementById('rescale-ends-error')?.textContent.includes('whole_layer')")
    assert browser.run("document.getElementById('rescale-task_count').value") == "2"
    assert client.get_job(JOB).config["task_count"] == 4


@pytest.mark.long
@pytest.mark.parametrize(("page", "way"), [("configuration", "drop"), ("history", "revert")])
@WIDTHS
def test_a_layer_whose_end_may_repeat_rows_is_ended_with_that_choice(
    browser: Browser, console_url: str, client: JobClient, page: str, way: str, width: int
) -> None:
    """1. The override has moved the output, and another job makes the same rows at the old place: refused, with a
    choice and what was typed. 2. With the choice it ends."""
    base = client.get_layer(JOB, "base").config or {}
    before = client.get_job(JOB).config["output"]["topic"]
    overridden({"output": {"topic": "moved"}})(client)
    client.put_job("heir", {**base, "output": {"type": "kafka", "topic": before}}, verify=False, allow_repeats=True)
    form = posted(f"/layers/oncall/{way}")
    browser.resize(width)
    browser.open(f"{console_url}/jobs/{JOB}/{page}")
    press(browser, form, {"reason": "it is over"})
    browser.wait_for("document.querySelector('[name=allow_repeats]')")
    assert browser.run("document.querySelector('[name=allow_repeats]').checked") is False
    assert browser.run(f"document.querySelector({json.dumps(form)}).elements.reason.value") == "it is over"
    assert client.get_job(JOB).config["output"]["topic"] == "moved"
    press(browser, form, {"allow_repeats": "yes"})
    browser.wait_for("document.querySelector('.notice.is-good')")
    assert client.get_job(JOB).config["output"]["topic"] == before


@pytest.mark.long
@WIDTHS
def test_a_job_is_released(
    browser: Browser, console_url: str, client: JobClient, service: RunningJobService, width: int
) -> None:
    execute(service, "UPDATE sync_state SET state = 'quarantined' WHERE job = :job", job=JOB)
    form = Form(
        "release",
        CHANGE,
        posted("/release"),
        {"reason": " "},
        "#release-reason-error",
        {"reason": "mended"},
        lambda client: client.history(JOB).entries[0].action == "release",
    )
    browser.resize(width)
    assert works(browser, console_url, form, client)


@pytest.mark.long
@WIDTHS
def test_a_rollout_is_paused_resumed_and_aborted(
    signed_in_browser: Browser, console_url: str, rollout: RolloutCell, width: int
) -> None:
    signed_in_browser.resize(width)
    for order in ("pause", "resume", "abort"):
        form = Form(
            order,
            "/jobs/j/change",
            posted(f"/rollout/{order}"),
            {"reason": " "},
            f"#{order}-reason-error",
            {"reason": f"to {order} it"},
            lambda client, order=order: client.history("j").entries[0].reason == f"to {order} it",  # type: ignore[misc]
        )
        assert works(signed_in_browser, console_url, form, rollout.client)


@pytest.mark.long
@WIDTHS
def test_somebody_signs_out_by_the_form_of_the_own_session_only(
    signed_in_browser: Browser, console_url: str, width: int
) -> None:
    """1. A form of another session signs nobody out. 2. The own one does."""
    signed_in_browser.resize(width)
    signed_in_browser.open(f"{console_url}/containers")
    press(signed_in_browser, posted("/sign-out"), FORGED)
    signed_in_browser.wait_for(f'document.querySelector("{REFUSED}")')
    signed_in_browser.open(f"{console_url}/containers")
    assert signed_in_browser.run("location.pathname") == "/containers"
    press(signed_in_browser, posted("/sign-out"), {})
    signed_in_browser.wait_for("location.pathname === '/sign-in' && location.search === ''")
    signed_in_browser.call("Page.navigate", url=f"{console_url}/containers")
    signed_in_browser.wait_for("location.pathname + location.search === '/sign-in?next=/containers'")
    assert signed_in_browser.run("document.querySelector('.who')") is None


@pytest.mark.long
@WIDTHS
def test_a_token_that_nobody_has_is_told_beside_its_field(
    chromium: Browser, console_url: str, service: RunningJobService, width: int
) -> None:
    chromium.call("Network.clearBrowserCookies")
    chromium.resize(width)
    chromium.open(f"{console_url}/sign-in")
    press(chromium, "main form", {"token": "nonsense"})
    chromium.wait_for("document.getElementById('token-error')")
    assert chromium.run("document.getElementById('token').getAttribute('aria-describedby')") == "token-error"
    press(chromium, "main form", {"token": service.admin})
    chromium.wait_for("document.title.startsWith('Fleet')")


@pytest.mark.long
@WIDTHS
def test_filters_show_what_is_asked_for(browser: Browser, console_url: str, width: int) -> None:
    """1. Of alerts: a kind, and cleared ones too. 2. Of jobs: a lag that is none is told and what was typed stays."""
    browser.resize(width)
    browser.open(f"{console_url}/alerts")
    press(browser, "form.filters", {"kind": "job_lagging", "cleared": "1"})
    browser.wait_for("location.search === '?kind=job_lagging&cleared=1'")
    assert browser.run("[...document.querySelectorAll('.alert h2 a')].map((each) => each.textContent)") == [JOB]
    assert browser.run("document.querySelector('[name=cleared]').checked")
    browser.open(f"{console_url}/")
    press(browser, "#filters", {"lag": "soon"})
    browser.wait_for("document.querySelector('#table [role=alert]')?.textContent.startsWith('lag: ')")
    assert browser.run("document.getElementById('lag').value") == "soon"
