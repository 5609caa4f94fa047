"""The health check of containers: 0 for 200 alone."""

from __future__ import annotations

import pytest
from fastapi import FastAPI

from penstock.control.errors import Unavailable
from penstock.local.ports import free_port
from penstock.wire.app import create_app
from penstock.wire.probe import main, refusal
from tests.support.control.serving import serving


def _app(*, ready: bool) -> FastAPI:
    def status() -> dict[str, str]:
        if not ready:
            raise Unavailable("Postgres does not answer")
        return {}

    return create_app("some", ready=status, documents=False)


def test_a_service_that_is_ready_is_well() -> None:
    with serving(_app(ready=True)) as url:
        assert refusal(f"{url}/readyz") is None
        with pytest.raises(SystemExit) as ended:
            main([f"{url}/readyz"])
    assert ended.value.code is None


def test_a_service_that_is_not_ready_says_why() -> None:
    with serving(_app(ready=False)) as url:
        assert refusal(f"{url}/healthz") is None
        said = refusal(f"{url}/readyz")
    assert said is not None
    assert said.startswith("503 ")
    assert "Postgres does not answer" in said


def test_a_port_where_nobody_listens_does_not_answer() -> None:
    with pytest.raises(SystemExit) as ended:
        main([f"https://127.0.0.1:{free_port()}/readyz"])
    assert str(ended.value.code).startswith("no answer: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [([], "usage: "), (["a", "b"], "usage: "), (["127.0.0.1:7070"], "'127.0.0.1:7070': write it as https://")],
)
def test_what_is_no_url_is_refused(arguments: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert str(ended.value.code).startswith(said)
