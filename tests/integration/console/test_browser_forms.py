"""Each form in a real browser: bad input is told beside its field and changes nothing, good input does what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from penstock.wire.job_client import JobClient
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


class Form(NamedTuple):
    """`form`: its selector on the page. `bad`: fields that are refused, `error`: where that is said. `good`: fields
    that are not; `has_worked`: whether they did what the form says. `confirmed`: what the form of its plan is
    sent with; None: it shows none."""

    name: str
    page: str
    form: str
    bad: Mapping[str, str]
    error: str
    good: Mapping[str, str]
    has_worked: Callable[[JobClient], bool]
    confirmed: Mapping[str, str] | None = None


def planned(what: str) -> str:
    """The form of a change that shows its plan."""
    return f"form:has([name=what][value={what}])"


def posted(path: str) -> str:
    """The form that is sent to a path with this end."""
    return f"form[action$='{path}']"


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
    Form(
        "container",
        "/containers/container-03",
        posted("/containers/container-03"),
        {"action": "drain", "reason": " "},
        "#container-reason-error",
        {"action": "drain", "reason": "new disk"},
        lambda client: client.container("container-03").availability == "draining",
    ),
    Form(
        "acknowledge",
        "/alerts?kind=job_lagging",
        posted("/acknowledge"),
        {"reason": " "},
        "[id$=-reason-error]",
        {"reason": "mine"},
        lambda client: client.alerts(kind="job_lagging").alerts[0].acknowledged_by == "admin",
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
        "drop",
        f"/jobs/{JOB}/configuration",
        posted("/layers/oncall/drop"),
        {"reason": " "},
        REFUSED,
        {"reason": "over"},
        lambda client: client.get_layer(JOB, "oncall").config is None,
    ),
)


def works(browser: Browser, url: str, form: Form, client: JobClient) -> bool:
    """1. The bad input is told, what was typed stays, nothing changes. 2. Whether the good one works."""
    browser.open(f"{url}{form.page}")
    browser.send(form.form, form.bad)
    browser.wait_for(f'document.querySelector("{form.error}")')
    if form.error != REFUSED:
        assert browser.run(f'document.querySelector("{form.error}").textContent.length') > 5
        kept = f"Object.fromEntries(new FormData(document.querySelector('{form.error}').closest('form')))"
        assert form.bad.items() <= browser.run(kept).items()
    assert not form.has_worked(client)
    browser.open(f"{url}{form.page}")
    browser.send(form.form, form.good)
    if form.confirmed is not None:
        browser.wait_for("document.getElementById('plan-title')")
        assert not form.has_worked(client), "a plan writes nothing"
        browser.send(posted("/confirm"), form.confirmed)
    browser.wait_for("document.querySelector('.notice.is-good')")
    return form.has_worked(client)


@pytest.mark.parametrize(
    "form",
    [pytest.param(each, marks=[pytest.mark.long] * (each.name != "override")) for each in FORMS],
    ids=lambda form: form.name,
)
def test_a_form_refuses_and_works(browser: Browser, console_url: str, client: JobClient, form: Form) -> None:
    browser.resize(390)
    assert works(browser, console_url, form, client)


@pytest.mark.long
def test_a_job_is_started_again(browser: Browser, console_url: str, client: JobClient) -> None:
    """One that a user has stopped."""
    client.put_layer(JOB, "oncall", {"desired_state": "stopped"}, if_match=1, reason="a test", verify=False)
    form = Form(
        "start",
        CHANGE,
        planned("start"),
        {"reason": " "},
        "#start-reason-error",
        {"reason": "a test"},
        lambda client: client.get_job(JOB).config["desired_state"] == "running",
        confirmed={},
    )
    assert works(browser, console_url, form, client)


@pytest.mark.long
def test_a_job_is_released(browser: Browser, console_url: str, client: JobClient, service: RunningJobService) -> None:
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
    assert works(browser, console_url, form, client)


@pytest.mark.long
def test_a_layer_goes_back_to_a_version(browser: Browser, console_url: str, client: JobClient) -> None:
    client.put_layer(JOB, "oncall", {"priority": 8}, if_match=1, reason="a test", verify=False)
    form = Form(
        "revert",
        f"/jobs/{JOB}/history",
        posted("/layers/oncall/revert"),
        {"ends": "soon", "reason": "a test"},
        REFUSED,
        {"reason": "5 was right"},
        lambda client: client.get_job(JOB).config["priority"] == 5,
    )
    assert works(browser, console_url, form, client)


@pytest.mark.long
def test_a_rollout_is_paused_resumed_and_aborted(
    signed_in_browser: Browser, console_url: str, rollout: RolloutCell
) -> None:
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
