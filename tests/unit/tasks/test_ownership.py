"""Who may take whose place."""

from __future__ import annotations

import pytest

from penstock.tasks.ownership import Member, Membership, membership


@pytest.mark.parametrize(
    ("life", "live", "incarnation", "empty", "expected"),
    [
        pytest.param(None, True, "1", True, Membership.NEW, id="never seen"),
        pytest.param(None, True, "1", False, Membership.REFUSED, id="never seen, yet holds shards"),
        pytest.param("1", True, "1", False, Membership.UNCHANGED, id="itself"),
        pytest.param("1", True, "2", True, Membership.RESTARTED, id="a later life"),
        pytest.param("2", True, "1", False, Membership.REFUSED, id="a former life that was only paused"),
        pytest.param("1", False, "1", True, Membership.REFUSED, id="a lost life"),
        pytest.param("1", False, "2", True, Membership.NEW, id="a new life after a lost one"),
        pytest.param("1", False, "2", False, Membership.REFUSED, id="holds shards though it was lost"),
    ],
)
def test_membership(life, live, incarnation, empty, expected):
    row = None if life is None else Member("a", life, "http://a", "local", 1.0, 1, 1, live)
    assert membership(row, incarnation, empty=empty) is expected
