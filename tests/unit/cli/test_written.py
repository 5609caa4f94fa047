"""The lines about a write that was done."""

from __future__ import annotations

import pytest

from penstock.cli.connection import say_written
from penstock.wire.jobs import Written

_KEEPS = "a job that runs keeps its query until a host has checked the new one"
_NEW = (
    "the job is new: its tasks check the query when they start, and do not run if it is wrong; what only records show "
    "(keys, times, a schema that does not fit) is told by alerts"
)


@pytest.mark.parametrize(("action", "told"), [("create", _NEW), ("put", _KEEPS), ("patch", _KEEPS)])
def test_what_happens_until_a_host_has_checked_a_write_fits_the_job(
    action: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    written = Written(job="etl", action=action, revision=3, layer="base", version=1, verified=False, why="no host")
    say_written(written)
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == f"{action} etl base: revision 3, version 1"
    assert second == "accepted, not verified: no host; `penstock plan etl` checks it"
    assert third == f"  {told}; see `penstock why etl`"


def test_a_write_that_was_checked_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say_written(Written(job="etl", action="create", revision=3, layer="base", version=1, verified=True))
    assert capsys.readouterr().out == "create etl base: revision 3, version 1\n"
