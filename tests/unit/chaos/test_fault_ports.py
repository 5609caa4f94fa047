"""The functions through which processes of the e2e stack die on order."""

from __future__ import annotations

import inspect

import pytest

from tests.support.faults.orders import Port
from tests.support.faults.points import VICTIMS


@pytest.mark.parametrize("port", [port for ports in VICTIMS.values() for port in ports], ids=lambda port: port.function)
def test_a_port_takes_what_its_function_takes(port: Port) -> None:
    """Else each call of a whole stack fails, minutes later."""
    wanted = inspect.signature(getattr(port.owner, port.function)).parameters.values()
    given = inspect.signature(port.name_of).parameters.values()
    if not any(each.kind is each.VAR_POSITIONAL for each in given):
        assert [each.kind for each in given] == [each.kind for each in wanted]
