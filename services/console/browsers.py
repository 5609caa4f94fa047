"""Tells the Job Service from which address a browser sent a form, for its audit log."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from penstock.control.errors import TerminalError
from penstock.control.logs import logger
from penstock.identity.process import ProcessIdentity
from penstock.identity.vouching import HEADER, Call

log = logger(__name__)


def teller(identity: ProcessIdentity, address: str) -> Callable[[httpx.Request], None]:
    """Adds the address to each call that may write. Without a certificate the call goes without it."""

    def say_address(request: httpx.Request) -> None:
        if request.method == "GET":
            return
        target, authorization = request.url.raw_path.decode("ascii"), request.headers["authorization"]
        try:
            request.headers[HEADER] = identity.vouch(address, Call(request.method, target, authorization))
        except (TerminalError, OSError, ValueError) as error:
            log.warning("address of a browser not told", error=str(error))

    return say_address
