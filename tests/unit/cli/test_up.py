"""What `penstock up` refuses before it starts anything."""

from __future__ import annotations

import pytest

from penstock.cli.up import require_http
from penstock.control.errors import UserError
from penstock.control.settings import CommonSettings


def test_tls_on_loopback_is_refused_with_what_to_do() -> None:
    require_http(CommonSettings())
    with pytest.raises(UserError, match=r"CELL\.md") as refused:
        require_http(CommonSettings(internal_tls=True))
    assert refused.value.field == "PENSTOCK_INTERNAL_TLS"
