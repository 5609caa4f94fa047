"""A small schema registry: the part of Confluent's REST that Penstock uses, with basic authentication.

It takes a schema for a subject when it has all fields of the newest one (`is_compatible` of a test is as simple).
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from penstock.kafka.registry import Registry
from penstock.local.ports import LOOPBACK

USERNAME, PASSWORD = "penstock", "registry-password"


class SmallRegistry:
    """Subjects and their schemas. `asked`: the paths of all calls; `broken`: answers 500 to everything."""

    def __init__(self) -> None:
        self.schemas: dict[int, str] = {}
        self.kinds: dict[int, str] = {}
        self.subjects: defaultdict[str, list[int]] = defaultdict(list)
        self.asked: list[str] = []
        self.broken = False
        self.url = ""

    @property
    def access(self) -> Registry:
        return Registry(self.url, USERNAME, PASSWORD)

    def add(self, subject: str, schema: str, kind: str = "AVRO") -> int:
        """The id of a schema, new or not."""
        number = next((each for each, text in self.schemas.items() if text == schema), len(self.schemas) + 1)
        self.schemas[number], self.kinds[number] = schema, kind
        if number not in self.subjects[subject]:
            self.subjects[subject].append(number)
        return number

    def answer(self, method: str, path: str, body: dict[str, str]) -> tuple[int, dict[str, Any]]:
        self.asked.append(f"{method} {path}")
        if self.broken:
            return 500, {"error_code": 50001, "message": "the store is away"}
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            return self._by_id(int(found[1]))
        if found := re.fullmatch(r"/subjects/([^/]+)/versions/latest", path):
            return self._newest(unquote(found[1]))
        if found := re.fullmatch(r"/subjects/([^/]+)", path):
            return self._look_up(unquote(found[1]), body["schema"])
        if found := re.fullmatch(r"/subjects/([^/]+)/versions", path):
            subject = unquote(found[1])
            if not self._is_compatible(subject, body["schema"]):
                return 409, {"error_code": 409, "message": "a field is missing"}
            return 200, {"id": self.add(subject, body["schema"])}
        if found := re.fullmatch(r"/compatibility/subjects/([^/]+)/versions/latest\?verbose=true", path):
            subject = unquote(found[1])
            if subject not in self.subjects:
                return 404, {"error_code": 40401, "message": "no subject"}
            fits = self._is_compatible(subject, body["schema"])
            return 200, {"is_compatible": fits, "messages": [] if fits else ["a field is missing"]}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _by_id(self, number: int) -> tuple[int, dict[str, Any]]:
        if number not in self.schemas:
            return 404, {"error_code": 40403, "message": "no schema"}
        kind = {} if self.kinds[number] == "AVRO" else {"schemaType": self.kinds[number]}
        return 200, {"schema": self.schemas[number], **kind}

    def _newest(self, subject: str) -> tuple[int, dict[str, Any]]:
        if subject not in self.subjects:
            return 404, {"error_code": 40401, "message": "no subject"}
        number = self.subjects[subject][-1]
        return 200, {"subject": subject, "id": number, "schema": self.schemas[number]}

    def _look_up(self, subject: str, schema: str) -> tuple[int, dict[str, Any]]:
        if subject not in self.subjects:
            return 404, {"error_code": 40401, "message": "no subject"}
        number = next((each for each in self.subjects[subject] if self.schemas[each] == schema), None)
        return (404, {"error_code": 40403, "message": "no schema"}) if number is None else (200, {"id": number})

    def _is_compatible(self, subject: str, schema: str) -> bool:
        if subject not in self.subjects:
            return True
        before = json.loads(self.schemas[self.subjects[subject][-1]])
        return {field["name"] for field in before["fields"]} <= {
            field["name"] for field in json.loads(schema)["fields"]
        }


@contextmanager
def small_registry() -> Iterator[SmallRegistry]:
    """A registry on loopback, for the user of `USERNAME` only."""
    registry = SmallRegistry()
    expected = "Basic " + base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def _answer(self, method: str) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            if self.headers.get("Authorization") == expected:
                status, told = registry.answer(method, self.path, body)
            else:
                status, told = 401, {"error_code": 40101, "message": "Unauthorized"}
            text = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    registry.url = f"http://{LOOPBACK}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
