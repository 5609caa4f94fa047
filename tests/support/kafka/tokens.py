"""Tokens of OAuth: who signs them, and a server that gives them to one client."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from penstock.local.ports import LOOPBACK

_KEY = "key-1"


class Signer:
    """Signs tokens (RS256)."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, 2048)

    def keys(self) -> str:
        """The JSON Web Key Set by which a broker checks them."""
        public = self._key.public_key().public_numbers()
        parts = {"n": public.n, "e": public.e}
        numbers = {name: _text(value.to_bytes((value.bit_length() + 7) // 8)) for name, value in parts.items()}
        return json.dumps({"keys": [{"kty": "RSA", "kid": _KEY, "use": "sig", "alg": "RS256", **numbers}]})

    def token(self, subject: str) -> str:
        """A token that is good for an hour."""
        now = int(time.time())
        claims = {"sub": subject, "iat": now, "exp": now + 3600, "scope": "kafka"}
        signed = ".".join(_text(json.dumps(each).encode()) for each in ({"alg": "RS256", "kid": _KEY}, claims))
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_text(signature)}"


@contextmanager
def token_server(signer: Signer, client: str, secret: str) -> Iterator[str]:
    """The URL at which the client gets tokens for its secret. Other secrets get 401."""
    expected = "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            is_right = self.headers.get("Authorization") == expected
            answer = {"access_token": signer.token(client)} if is_right else {"error": "invalid_client"}
            body = json.dumps({**answer, "token_type": "Bearer", "expires_in": 3600}).encode()
            self.send_response(200 if is_right else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://{LOOPBACK}:{server.server_port}/token"
        finally:
            server.shutdown()


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
