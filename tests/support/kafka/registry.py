"""A small schema registry: the part of Confluent's REST that Penstock uses, with basic authentication.

It takes a schema for a subject when it has all fields of the newest one, or of Protobuf all its messages
(`is_compatible` of a test is as simple). Of Protobuf it takes the base64 of a file's descriptor.
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

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from penstock.kafka.registry import Registry
from penstock.local.ports import LOOPBACK

USERNAME, PASSWORD = "penstock", "registry-password"
PROTOBUF_TEXT = 'syntax = "proto3";\nmessage A {}\n'


class SmallRegistry:
    """Subjects and their schemas. `asked`: the paths of all calls; `broken`: answers 500 to everything; `serializes`:
    gives the descriptor of a schema of Protobuf, where it is asked for that, and not the text; `takes`: kinds of
    schemas."""

    def __init__(self) -> None:
        self.schemas: dict[int, str] = {}
        self.kinds: dict[int, str] = {}
        self.subjects: defaultdict[str, list[int]] = defaultdict(list)
        self.asked: list[str] = []
        self.references: dict[int, list[dict[str, Any]]] = {}
        self.broken, self.serializes = False, True
        self.takes = ["AVRO", "PROTOBUF"]
        self.url = ""

    @property
    def access(self) -> Registry:
        return Registry(self.url, USERNAME, PASSWORD)

    def add(self, subject: str, schema: str, kind: str = "AVRO") -> int:
        """The id of a schema, new or not."""
        number = next((each for each, known in self.schemas.items() if known == schema), len(self.schemas) + 1)
        self.schemas[number], self.kinds[number] = schema, kind
        if number not in self.subjects[subject]:
            self.subjects[subject].append(number)
        return number

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.asked.append(f"{method} {path}")
        if self.broken:
            return 500, {"error_code": 50001, "message": "the store is away"}
        if found := re.fullmatch(r"/schemas/ids/(\d+)(\?format=serialized)?", path):
            return self._by_id(int(found[1]), found[2] is not None)
        if found := re.fullmatch(r"/subjects/([^/]+)/versions/latest(\?format=serialized)?", path):
            return self._newest(unquote(found[1]), found[2] is not None)
        if body.get("schemaType", "AVRO") not in self.takes:
            return 422, {"error_code": 42201, "message": f"Invalid schema: no type {body['schemaType']}"}
        if missing := [each for each in body.get("references", ()) if not self._has(each)]:
            return 422, {"error_code": 42201, "message": f"no schema for the reference {missing}"}
        if found := re.fullmatch(r"/subjects/([^/]+)", path):
            return self._look_up(unquote(found[1]), body["schema"])
        if found := re.fullmatch(r"/subjects/([^/]+)/versions", path):
            subject = unquote(found[1])
            if not self._is_compatible(subject, body["schema"]):
                return 409, {"error_code": 409, "message": "a field is missing"}
            number = self.add(subject, body["schema"], body.get("schemaType", "AVRO"))
            self.references[number] = body.get("references", [])
            return 200, {"id": number}
        if found := re.fullmatch(r"/compatibility/subjects/([^/]+)/versions/latest\?verbose=true", path):
            subject = unquote(found[1])
            if subject not in self.subjects:
                return 404, {"error_code": 40401, "message": "no subject"}
            fits = self._is_compatible(subject, body["schema"])
            return 200, {"is_compatible": fits, "messages": [] if fits else ["a field is missing"]}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _has(self, reference: dict[str, Any]) -> bool:
        return 0 < reference["version"] <= len(self.subjects.get(reference["subject"], ()))

    def _told(self, number: int, as_sent: bool) -> dict[str, Any]:
        if self.kinds[number] == "AVRO":
            return {"schema": self.schemas[number]}
        schema = self.schemas[number]
        if self.kinds[number] == "PROTOBUF":
            schema = _as_confluents(schema) if as_sent and self.serializes else PROTOBUF_TEXT
        return {"schema": schema, "schemaType": self.kinds[number]}

    def _by_id(self, number: int, as_sent: bool) -> tuple[int, dict[str, Any]]:
        if number not in self.schemas:
            return 404, {"error_code": 40403, "message": "no schema"}
        return 200, self._told(number, as_sent)

    def _newest(self, subject: str, as_sent: bool) -> tuple[int, dict[str, Any]]:
        if subject not in self.subjects:
            return 404, {"error_code": 40401, "message": "no subject"}
        number = self.subjects[subject][-1]
        return 200, {"subject": subject, "id": number, **self._told(number, as_sent)}

    def _look_up(self, subject: str, schema: str) -> tuple[int, dict[str, Any]]:
        if subject not in self.subjects:
            return 404, {"error_code": 40401, "message": "no subject"}
        number = next((each for each in self.subjects[subject] if self.schemas[each] == schema), None)
        if number is None:
            return 404, {"error_code": 40403, "message": "no schema"}
        return 200, {"id": number, "version": self.subjects[subject].index(number) + 1}

    def _is_compatible(self, subject: str, schema: str) -> bool:
        if subject not in self.subjects:
            return True
        newest = self.subjects[subject][-1]
        names = _messages if self.kinds[newest] == "PROTOBUF" else _fields
        return names(self.schemas[newest]) <= names(schema)


def _fields(schema: str) -> set[str]:
    return {field["name"] for field in json.loads(schema)["fields"]}


def _as_confluents(schema: str) -> str:
    """Without the types of fields that are messages or enums, as Confluent's registry gives a descriptor."""
    file = FileDescriptorProto.FromString(base64.b64decode(schema))
    for message in file.message_type:
        for field in message.field:
            if field.type_name:
                field.ClearField("type")
    return base64.b64encode(file.SerializeToString(deterministic=True)).decode()


def _messages(schema: str) -> set[str]:
    return {message.name for message in FileDescriptorProto.FromString(base64.b64decode(schema)).message_type}


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
