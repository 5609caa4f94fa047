"""What somebody can try who wants to break the console, or to use it against its users."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from penstock.control.clock import SystemClock
from penstock.control.process import wait_until
from penstock.wire.job_client import JobClient
from services.console.api import HEADERS, create_console
from services.console.settings import ConsoleSettings
from tests.support.console.service import User, console, token_of
from tests.support.control.serving import serving
from tests.support.job_service.service import CONFIG, RunningJobService


class Hanging:
    """A server that takes connections and never answers. `calls`: how many there were."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._take, daemon=True).start()

    @property
    def calls(self) -> int:
        return len(self._open)

    def _take(self) -> None:
        while True:
            try:
                self._open.append(self._listening.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        for each in (self._listening, *self._open):
            each.close()


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    server = Hanging()
    yield server
    server.close()


def test_a_job_service_that_hangs_keeps_no_other_page_waiting(hanging: Hanging) -> None:
    with console(hanging.url) as url, User(url) as user, ThreadPoolExecutor(1) as other:
        signing_in = other.submit(user.sign_in, "a-token")
        wait_until(lambda: hanging.calls, 20, "the sign-in to ask")
        assert httpx.get(f"{url}/sign-in", timeout=4).status_code == 200
        assert not signing_in.done()
        hanging.close()
        assert signing_in.result(20).status_code == 503


def test_probes_of_everybody_do_not_add_up(hanging: Hanging) -> None:
    with console(hanging.url) as url, ThreadPoolExecutor(8) as many:
        probes = [many.submit(httpx.get, f"{url}/readyz", timeout=20) for _ in range(8)]
        answers = [probe.result(30) for probe in probes]
    assert {answer.status_code for answer in answers} == {503}
    assert hanging.calls <= 2
    assert all("127.0.0.1" not in answer.text for answer in answers)
    assert answers[0].headers["content-type"] == "application/problem+json"


def test_nobody_learns_an_inner_address() -> None:
    with console("http://127.0.0.1:9") as url, User(url) as user:
        assert "127.0.0.1:9" not in user.sign_in("a-token").text


def test_a_page_of_a_bug_has_the_same_policy() -> None:
    app = create_console(ConsoleSettings(), SystemClock())

    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("secret of the code")

    with serving(app) as url:
        answer = httpx.get(f"{url}/broken")
    assert answer.status_code == 500
    assert HEADERS.items() <= {name.title(): value for name, value in answer.headers.items()}.items()
    assert "secret of the code" not in answer.text


@pytest.fixture
def etl(client: JobClient) -> str:
    client.put_job("etl", CONFIG, verify=False)
    return "/jobs/etl"


@pytest.mark.parametrize("origin", ["http://[bad", "null", "http://127.0.0.1", "https://evil", ""])
def test_an_origin_that_is_none_of_its_own_is_refused(user: User, etl: str, origin: str) -> None:
    form = {"form_token": token_of(user.get("/")), "reason": "x"}
    assert user.http.post(f"{etl}/restart", data=form, headers={"Origin": origin}).status_code == 403


@pytest.mark.parametrize("path", ["/?page=" + "9" * 5000, "/?prefix=%ED%A0%80", "/?after=%00", "/?owner=" + "x" * 3000])
def test_a_query_that_makes_no_sense_is_no_bug(user: User, path: str) -> None:
    assert user.http.get(path).status_code in (200, 422)


@pytest.mark.parametrize("name", ["%2E%2E", "." * 3000, "%ED%A0%80", "a" * 200, "A%0D%0AB"])
def test_a_name_that_is_none_is_no_bug(user: User, name: str) -> None:
    for path in (f"/jobs/{name}/change", f"/containers/{name}"):
        assert user.http.get(path).status_code in (303, 404)


@pytest.mark.parametrize(
    "form",
    [
        {"ends": "9" * 5000},
        {"changes": "priority = 1e999"},
        {"changes": '{"owner": "\\ud800"}'},
        {"layer": "\udcff"},
        {"layer": "x" * 3000},
        {"task_count": "9" * 5000, "what": "rescale"},
    ],
)
def test_a_field_that_makes_no_sense_is_no_bug(user: User, etl: str, form: dict[str, str]) -> None:
    filled = {"what": "override", "changes": "priority = 1", "reason": "x", "layer": "oncall", "ends": "1h", **form}
    body = {"form_token": token_of(user.get("/")), **filled}
    sent = "&".join(f"{name}={_quoted(value)}" for name, value in body.items())
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = user.http.post(f"{etl}/plan", content=sent, headers=headers)
    assert 400 <= answer.status_code < 500, answer.text[-500:]


def _quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogateescape"))


def test_a_key_that_no_header_can_carry_is_left_out(user: User, client: JobClient, etl: str) -> None:
    for key in ("ü", "a\r\nX-Evil: 1", "x" * 300):
        assert user.post(f"{etl}/restart", {"reason": "x", "idempotency_key": key}).status_code == 303
    assert client.get_job("etl").restarts == 3


def test_words_in_a_link_are_not_shown_as_what_was_done(user: User, console_url: str, etl: str) -> None:
    words = "your+token+has+expired"
    for query in (f"done={words}", f"done={words}&signed={token_of(user.get('/'))}"):
        assert "has expired" not in user.get(f"/?{query}")
    with User(console_url) as nobody:
        assert "has expired" not in nobody.get(f"/sign-in?done={words}")
    done = user.post(f"{etl}/restart", {"reason": "x"}).headers["location"]
    assert "restart is revision" in user.get(done)
    assert "restart is revision" not in user.get(done.replace("signed=", "signed=0"))


def test_a_form_of_another_site_signs_nobody_out(user: User) -> None:
    """The browser sends it without the cookie."""
    answer = httpx.post(f"{user.url}/sign-out", data={}, headers={"Sec-Fetch-Site": "cross-site"})
    assert "set-cookie" not in answer.headers
    user.get("/")


def test_a_file_is_kept_by_browsers_under_its_own_address_only(user: User) -> None:
    for query in ("?x", "?", ""):
        assert user.http.get(f"/static/style.css{query}").headers["cache-control"] == "no-store"
    assert user.http.get("/static/../api.py").status_code in (303, 404)


def test_with_an_address_of_its_own_it_goes_by_no_other_name(service: RunningJobService) -> None:
    with console(service.url, console_url="https://penstock.example") as url, User(url) as user:
        assert user.http.get("/sign-in").status_code == 421
        assert user.http.get("/readyz").status_code == 200
        host = {"Host": "penstock.example"}
        page = user.http.get("/sign-in", headers=host)
        assert page.headers["strict-transport-security"]
        assert "Secure" in page.headers["set-cookie"]
        cookie = {"Cookie": page.headers["set-cookie"].partition(";")[0]}
        form = {"token": service.admin, "next": "/", "form_token": token_of(page.text)}
        for origin, status in (("http://penstock.example", 403), ("https://penstock.example", 303)):
            answer = user.http.post("/sign-in", data=form, headers={**host, **cookie, "Origin": origin})
            assert answer.status_code == status
