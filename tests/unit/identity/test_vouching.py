"""Who may tell the address of a browser, and of which call."""

from __future__ import annotations

from base64 import b64decode, b64encode
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.control.errors import Unauthenticated
from penstock.identity.process import ProcessIdentity
from penstock.identity.roles import Caller, Role
from penstock.identity.vouching import Call
from tests.support.identity import make_cell

CALL = Call("PUT", "/v1/jobs/a?verify=false", "Bearer pst_a")
NOW = datetime.now(UTC).timestamp()
ADDRESS = "2001:db8::7"

# In a certificate: X.509 version 5, a curve and an algorithm of keys that nobody knows.
_STRANGE = [
    ("a003020102", "a003020105"),
    ("2a8648ce3d030107", "2a8648ce3d030106"),
    ("2a8648ce3d0201", "2a8648ce3d0209"),
]


def process(folder: Path, role: Role, now: float = NOW) -> ProcessIdentity:
    """A process with a certificate of the cell in `folder`."""
    made = make_cell(folder) if not folder.exists() else None
    if made is not None:
        for each in (Role.CONSOLE, Role.AUTO_SCALER, Role.JOB_SERVICE):
            made.issue(Caller(each), ["localhost"], datetime.now(UTC))
    return ProcessIdentity(folder, Caller(role), tls=True, now=lambda: now)


def test_a_console_of_the_cell_tells_an_address(tmp_path: Path) -> None:
    text = process(tmp_path / "cell", Role.CONSOLE).vouch(ADDRESS, CALL)
    assert process(tmp_path / "cell", Role.JOB_SERVICE, NOW + 59).vouched(text, CALL) == ADDRESS


@pytest.mark.parametrize(
    "other",
    [
        CALL._replace(method="DELETE"),
        CALL._replace(target="/v1/jobs/b"),
        CALL._replace(authorization="Bearer pst_b"),
    ],
    ids=["method", "target", "user"],
)
def test_it_is_good_for_one_call_of_one_user(tmp_path: Path, other: Call) -> None:
    text = process(tmp_path / "cell", Role.CONSOLE).vouch(ADDRESS, CALL)
    with pytest.raises(Unauthenticated, match="not signed for this call"):
        process(tmp_path / "cell", Role.JOB_SERVICE).vouched(text, other)


def test_nobody_else_may_tell_one_and_it_grows_old(tmp_path: Path) -> None:
    """1. Another role of the cell. 2. A console of another cell. 3. Too late, too early, with another address, and what
    is no such header."""
    service = process(tmp_path / "cell", Role.JOB_SERVICE)
    foreign = process(tmp_path / "other", Role.CONSOLE).vouch(ADDRESS, CALL)
    for text in (process(tmp_path / "cell", Role.AUTO_SCALER).vouch(ADDRESS, CALL), foreign):
        with pytest.raises(Unauthenticated, match="of nobody who may tell it"):
            service.vouched(text, CALL)
    text = process(tmp_path / "cell", Role.CONSOLE).vouch(ADDRESS, CALL)
    for now in (NOW + 61, NOW - 6):
        with pytest.raises(Unauthenticated, match="not of the last 60 s"):
            process(tmp_path / "cell", Role.JOB_SERVICE, now).vouched(text, CALL)
    with pytest.raises(Unauthenticated, match="not signed"):
        service.vouched(text.replace(ADDRESS, "10.0.0.1"), CALL)
    strange = [_with_certificate(text, old, new) for old, new in _STRANGE]
    for broken in (*strange, "", "10.0.0.1", "a b c d", text.replace(ADDRESS, "no-address"), "x" * 9000):
        with pytest.raises(Unauthenticated, match="malformed"):
            service.vouched(broken, CALL)


def _with_certificate(text: str, old: str, new: str) -> str:
    address, at, shown, signature = text.split(" ")
    certificate = b64decode(shown)
    assert bytes.fromhex(old) in certificate
    changed = certificate.replace(bytes.fromhex(old), bytes.fromhex(new), 1)
    return " ".join((address, at, b64encode(changed).decode(), signature))
