"""Free TCP ports on the loopback interface, for servers and tests of one machine.

Asking the kernel for "any" port gives one of the range from which outgoing connections take theirs, and another
process's connection may sit on it a moment later. So ports are drawn from below that range, and a process never hands
out the same port twice.
"""

from __future__ import annotations

import random
import socket
import threading

from penstock.control.errors import Conflict

LOOPBACK = "127.0.0.1"
_FIRST_PORT, _LAST_PORT = 20_000, 32_000
_ATTEMPTS = 200
_draw = random.SystemRandom()
_given: set[int] = set()
_lock = threading.Lock()


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nothing listens on. Raises `OSError` when none is found."""
    with _lock:
        for _ in range(_ATTEMPTS):
            port = _draw.randint(_FIRST_PORT, _LAST_PORT)
            if port not in _given and is_free(port):
                _given.add(port)
                return port
    raise OSError(f"no free port between {_FIRST_PORT} and {_LAST_PORT}")


def is_free(port: int) -> bool:
    """Whether `port` can be bound on 127.0.0.1 now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def require_free(name: str, port: int) -> None:
    """Raises Conflict when something else listens on the port of `name`."""
    if not is_free(port):
        raise Conflict(
            f"port {port} of {name} is in use, perhaps by another stack: stop that one, or start a second one beside "
            "it with `--port-base 8070 --data-dir FOLDER`",
            field="port_base",
            rule="free_ports",
        )


def accepts(port: int) -> bool:
    """Whether something on 127.0.0.1 accepts connections on `port` now."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True
