"""What the console refuses at its start, and when its cookie is secure."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from services.console.settings import LEAST_KEY, ConsoleSettings


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"console_key": "short"}, "PENSTOCK_CONSOLE_KEY"),
        ({"console_url": "penstock.example"}, "PENSTOCK_CONSOLE_URL"),
        ({"console_url": "https://penstock.example/console"}, "PENSTOCK_CONSOLE_URL"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(settings: dict[str, str], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        ConsoleSettings(**settings)


def test_no_key_and_a_long_one_are_good() -> None:
    assert ConsoleSettings().console_key.get_secret_value() == ""
    assert ConsoleSettings(console_key="k" * LEAST_KEY).console_url == ""


@pytest.mark.parametrize(
    ("host", "tls", "url", "secure", "serves_tls"),
    [
        ("127.0.0.1", True, "", False, False),
        ("0.0.0.0", True, "", True, True),
        ("0.0.0.0", False, "", True, False),
        ("127.0.0.1", True, "https://penstock.example/", True, False),
        ("0.0.0.0", False, "http://penstock.example", False, False),
    ],
)
def test_the_cookie_is_secure_where_browsers_come_by_tls(
    host: str, tls: bool, url: str, secure: bool, serves_tls: bool
) -> None:
    """Also where a proxy speaks TLS, which a process behind it does not see."""
    settings = ConsoleSettings(host=host, console_tls=tls, console_url=url)
    assert (settings.is_secure(), settings.serves_tls()) == (secure, serves_tls)
