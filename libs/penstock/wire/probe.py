"""Whether the service on this machine answers, for health checks of containers: `python -m penstock.wire.probe URL`.

It imports the standard library only, since an orchestrator starts it every few seconds. It sends nothing but the
request, and so accepts any certificate.
"""

from __future__ import annotations

import http.client
import ssl
import sys
from urllib.parse import urlsplit

_WAIT_SECONDS = 4.0


def refusal(url: str) -> str | None:
    """Why the service at the URL is not well; None when it answers 200. Raises ValueError for what is no URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        raise ValueError(f"{url!r}: write it as https://127.0.0.1:7070/readyz")
    connection = _connection(parts.scheme, parts.hostname, parts.port)
    try:
        connection.request("GET", parts.path or "/")
        answer = connection.getresponse()
        return None if answer.status == 200 else f"{answer.status} {answer.read(500).decode(errors='replace')}"
    except (OSError, http.client.HTTPException) as error:
        return f"no answer: {error}"
    finally:
        connection.close()


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=_WAIT_SECONDS)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=_WAIT_SECONDS, context=context)


def main(arguments: list[str]) -> None:
    """Ends with 0 when the service is well, else with 1 and its answer."""
    if len(arguments) != 1:
        raise SystemExit("usage: python -m penstock.wire.probe URL")
    try:
        raise SystemExit(refusal(arguments[0]))
    except ValueError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main(sys.argv[1:])
