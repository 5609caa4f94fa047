"""The port at which the JVM calls the host's Python (`foreachBatch`, listeners): it asks for the gateway's secret.

pyspark opens the port when it is first needed, for everybody who reaches it: the JVM forgets the secret when it is told
the port (py4j's `copyWith`).
"""

from __future__ import annotations

import threading
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import java_gateway

_lock = threading.Lock()
_open_as_pyspark = java_gateway.ensure_callback_server_started


def guard_callbacks(gateway: Any) -> None:
    """Lets the port of a gateway's callbacks, once pyspark opens it, ask for the secret of the gateway."""
    gateway.callback_server_parameters.auth_token = gateway.gateway_parameters.auth_token
    java_gateway.ensure_callback_server_started = _open


def _open(gateway: Any) -> None:
    with _lock:
        if gateway.__dict__.get("_callback_server") is None:
            _open_as_pyspark(gateway)  # type: ignore[no-untyped-call]
            client = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()
            token = client.getClass().getSuperclass().getDeclaredField("authToken")
            token.setAccessible(True)
            token.set(client, gateway.callback_server_parameters.auth_token)
