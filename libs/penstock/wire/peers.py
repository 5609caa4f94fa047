"""uvicorn's connections, with the certificate of the client, which uvicorn itself does not pass on."""

from __future__ import annotations

import asyncio
import ssl

from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.wire.gate import PEER, Peer


class PeerProtocol(H11Protocol):
    """Puts the `Peer` of a connection with a verified certificate into the state of its requests."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        if certificate:
            uris = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
            shown = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
            peer = Peer(uris, ssl.cert_time_to_seconds(certificate["notAfter"]), shown)
            self.app_state = {**self.app_state, PEER: peer}
