"""How a client reaches the Job Service with the settings of this shell, and what it says when nobody answers."""

from __future__ import annotations

from typing import Any, TypeVar

import httpx

from penstock.cli.settings import CliSettings
from penstock.control.errors import Unavailable, UserError
from penstock.wire.http import HttpClient

_WHERE = (
    "is `penstock up` running? It is looked for in .penstock of this folder; PENSTOCK_DATA_DIR names another folder, "
    "PENSTOCK_URL another address; `penstock doctor` looks"
)
Client = TypeVar("Client", bound=HttpClient)


class Explaining(HttpClient):
    """A client that says what to look at when nobody answers."""

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """As `HttpClient.send`."""
        try:
            return super().send(method, path, **options)
        except Unavailable as error:
            if isinstance(error.__cause__, httpx.TransportError):
                raise Unavailable(f"{error.detail}: {_WHERE}") from error.__cause__
            raise


def connected(kind: type[Client]) -> Client:
    """A client with the settings of this shell. Raises UserError when the address or the token is missing."""
    settings = CliSettings.read()
    url = settings.service_url()
    try:
        return kind(url, settings.bearer_token(), authority=settings.authority_file)
    except httpx.InvalidURL as error:
        raise UserError(f"{url} is not a URL: {error}", field="PENSTOCK_URL", rule="url") from error
