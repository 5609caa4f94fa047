"""Who gets in, what a browser may do with the pages, and what a form of somebody else can do: nothing."""

from __future__ import annotations

import re

import httpx
import pytest

from penstock.wire.job_client import JobClient
from tests.integration.console.conftest import SignedIn
from tests.support.console.service import User, console, token_of
from tests.support.job_service.service import CONFIG, RunningJobService

PAGES = ("/", "/containers", "/alerts", "/jobs/etl", "/jobs/etl/change")


@pytest.fixture(autouse=True)
def _job(client: JobClient) -> None:
    client.put_job("etl", CONFIG, verify=False)


@pytest.mark.parametrize("path", PAGES)
def test_without_a_session_a_page_leads_to_the_sign_in(console_url: str, path: str) -> None:
    with User(console_url) as nobody:
        answer = nobody.http.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"] == ("/sign-in" if path == "/" else f"/sign-in?next={path}")
        assert "etl" not in answer.text
        posted = nobody.http.post("/jobs/etl/restart", data={"reason": "x"})
        assert (posted.status_code, posted.headers["location"]) == (303, "/sign-in")


def test_a_token_signs_in_and_is_in_no_page_and_readable_by_no_script(
    service: RunningJobService, console_url: str
) -> None:
    with User(console_url) as user:
        answer = user.sign_in(service.admin, "/alerts")
        assert (answer.status_code, answer.headers["location"]) == (303, "/alerts")
        cookie = answer.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/"))
        assert "Secure" not in cookie
        assert service.admin not in cookie
        assert all(service.admin not in user.get(path) for path in PAGES)


def test_a_wrong_token_is_refused_beside_the_field_and_not_shown_again(console_url: str) -> None:
    with User(console_url) as user:
        for token in ("wrong-token", "", "x" * 2000, "mü"):
            answer = user.sign_in(token)
            assert answer.status_code == 422
            assert 'id="token-error"' in answer.text
            assert not token or token not in answer.text
        assert user.http.get("/").status_code == 303


@pytest.mark.parametrize("following", ["//evil", "https://evil/", "/\\evil", "x"])
def test_a_sign_in_leads_to_no_other_site(service: RunningJobService, console_url: str, following: str) -> None:
    with User(console_url) as user:
        assert user.sign_in(service.admin, following).headers["location"] == "/"


def test_a_revoked_token_leads_to_the_sign_in(client: JobClient, signed_in: SignedIn) -> None:
    user = signed_in("reader")
    user.get("/")
    client.revoke_token("reader-user")
    assert user.http.get("/").headers["location"] == "/sign-in"


def test_signing_out_forgets_the_session(user: User) -> None:
    assert user.post("/sign-out", {}).headers["location"] == "/sign-in"
    assert user.http.get("/").status_code == 303


def test_a_page_may_load_only_what_the_console_serves(user: User) -> None:
    for path in (*PAGES, "/no/such/page", "/sign-in"):
        answer = user.http.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert " style=" not in answer.text
        assert "<style" not in answer.text
        assert " onclick" not in answer.text
        scripts = re.findall(r'<script src="(/(?:static|web)/[\w.]+\?[0-9a-f]{12})" defer></script>', answer.text)
        assert len(scripts) == answer.text.count("<script") == 5


def test_files_of_the_console_are_kept_by_browsers_until_they_change(user: User) -> None:
    page = user.get("/")
    for path in ("/static/style.css", "/web/htmx.min.js", "/web/sse.js"):
        versioned = page[page.index(f"{path}?") :].partition('"')[0]
        assert "immutable" in user.http.get(versioned).headers["cache-control"]
        assert user.http.get(path).headers["cache-control"] == "no-store"
        beyond = user.http.get(versioned, headers={"Range": "bytes=99999999-"})
        assert (beyond.status_code, beyond.headers["cache-control"]) == (416, "no-store")


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({}, "wrong"),
        ({}, ""),
        ({"Origin": "http://evil"}, None),
        ({"Origin": "null"}, None),
        ({"Sec-Fetch-Site": "cross-site"}, None),
        ({"Sec-Fetch-Site": "same-site"}, None),
        ({"Content-Type": "text/plain"}, None),
    ],
)
def test_a_form_of_somebody_else_changes_nothing(
    user: User, client: JobClient, headers: dict[str, str], token: str | None
) -> None:
    own = token_of(user.get("/")) if token is None else token
    form = {"form_token": own, "reason": "x"}
    before = client.get_job("etl").revision
    sent = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    answer = user.http.post("/jobs/etl/restart", content=str(httpx.QueryParams(form)), headers=sent)
    assert answer.status_code in (400, 403)
    assert client.get_job("etl").revision == before


def test_the_token_of_a_form_of_another_session_is_worth_nothing(user: User, signed_in: SignedIn) -> None:
    other = signed_in("oncall")
    stolen = token_of(other.get("/"))
    answer = user.http.post("/jobs/etl/restart", data={"form_token": stolen, "reason": "x"})
    assert answer.status_code == 403
    assert "own_form" in answer.text


def test_a_large_form_is_refused(user: User) -> None:
    answer = user.post("/jobs/etl/restart", {"reason": "x" * 300_000})
    assert answer.status_code == 400
    assert "most_bytes" in answer.text


def test_a_role_sees_the_forms_that_it_may_send_and_the_service_refuses_the_others(signed_in: SignedIn) -> None:
    reader, scaler, oncall = signed_in("reader"), signed_in("scaler"), signed_in("oncall")
    assert "/change" not in reader.get("/jobs/etl")
    assert "<textarea" not in reader.get("/jobs/etl/change")
    assert "Restart" not in scaler.get("/jobs/etl/change")
    assert "<option>scaler" in scaler.get("/jobs/etl/change")
    assert "Restart" in oncall.get("/jobs/etl/change")
    assert "<option>scaler" not in oncall.get("/jobs/etl/change")
    for rule, path, form in (
        ("role", "/jobs/etl/restart", {}),
        ("access", "/jobs/etl/plan", {"what": "override", "changes": "priority = 1", "layer": "oncall"}),
        ("access", "/jobs/etl/layers/oncall/drop", {"version": "0"}),
        ("role", "/silences", {"kind": "job_lagging", "ends": "1h"}),
    ):
        answer = reader.post(path, {"reason": "x", **form})
        assert answer.status_code == 403, path
        assert "the token reader-user" in answer.text, path
        assert f"Rule <code>{rule}</code>" in answer.text, path


def test_a_link_of_another_site_comes_back_with_the_cookie(console_url: str) -> None:
    """The browser keeps a strict cookie back at first: the page asks again, now from this site."""
    with User(console_url) as user:
        answer = user.http.get("/jobs/etl", headers={"Sec-Fetch-Site": "cross-site"})
        assert answer.status_code == 200
        assert 'http-equiv="refresh"' in answer.text


def test_by_tls_the_cookie_is_secure_and_of_this_host_only(service: RunningJobService) -> None:
    with console(service.url, host="0.0.0.0") as url, User(url) as user:
        cookies = user.http.get("/sign-in").headers["set-cookie"]
        assert cookies.startswith("__Host-penstock-form=")
        assert "Secure" in cookies


def test_probes_need_no_session(console_url: str) -> None:
    with User(console_url) as nobody:
        assert nobody.http.get("/healthz").json() == {"service": "console", "status": "alive"}
        assert nobody.http.get("/readyz").json() == {"service": "console", "job_service": "reachable"}
        assert "python_info" in nobody.http.get("/metrics").text
        assert nobody.http.get("/docs").status_code == 404


def test_without_a_job_service_it_is_not_ready_and_says_so() -> None:
    with console("http://127.0.0.1:9") as url, User(url) as user:
        assert user.http.get("/readyz").status_code == 503
        answer = user.sign_in("some-token")
        assert answer.status_code == 503
        assert "does not answer" in answer.text
