"""The cell's schema registry, by the REST that Confluent documents: what a plan asks, and how an output's schema gets
its id. Readers of records ask for writers' schemas in the JVM (`io.penstock.sources.Registry`).

An answer that says nothing of the schema is Unavailable: nobody answers, the login is refused, something else answers.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from penstock.control.errors import Unavailable

_TIMEOUT_SECONDS = 10.0
_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND, _SCHEMA_NOT_FOUND = 40401, 40402, 40403
_NOT_FOUND = (_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND, _SCHEMA_NOT_FOUND)
_INCOMPATIBLE, _INVALID_SCHEMA = 409, 42201
# No httpx: each Spark host imports this, and most never ask. Proxies of the environment are not for the cell's parts.
_OPENER = build_opener(ProxyHandler({}))


class IncompatibleSchema(Exception):
    """The registry takes no such schema for a subject. The text says why, as the registry tells it."""


class _Answer(NamedTuple):
    status: int
    body: Any

    @property
    def code(self) -> int | None:
        code = self.body.get("error_code") if isinstance(self.body, dict) else None
        return code if isinstance(code, int) else None

    @property
    def message(self) -> str:
        return str(self.body.get("message", "")) if isinstance(self.body, dict) else ""


class Reference(NamedTuple):
    """Another schema that one needs: its name in the schema, and where the registry has it."""

    name: str
    subject: str
    version: int


class Schema(NamedTuple):
    """A schema as a registry has it. `text`: of Protobuf also the base64 of a file's descriptor."""

    text: str
    kind: str = "AVRO"
    references: tuple[Reference, ...] = ()

    def body(self) -> dict[str, Any]:
        """What is sent. Avro is what a registry takes a schema for that does not say."""
        kind = {} if self.kind == "AVRO" else {"schemaType": self.kind}
        references = [each._asdict() for each in self.references]
        return {"schema": self.text, **kind, **({"references": references} if references else {})}


class Known(NamedTuple):
    """What a registry calls a schema of a subject."""

    id: int
    version: int


@dataclass(frozen=True)
class Registry:
    """Where the registry is, and who asks; without `username` nobody logs in."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def newest(self, subject: str, *, as_descriptor: bool = False) -> Schema | None:
        """The newest schema of a subject, without references; None when the registry has no such subject.

        `as_descriptor`: one of Protobuf as the base64 of its file's descriptor, where the registry knows how. Raises
        Unavailable.
        """
        form = "?format=serialized" if as_descriptor else ""
        answer = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest{form}")
        if answer.code in _NOT_FOUND:
            return None
        return Schema(str(self._found(answer, "schema")), str(answer.body.get("schemaType", "AVRO")))

    def known(self, subject: str, schema: Schema) -> Known | None:
        """What the registry calls a schema of a subject; None when it is not there.

        Raises IncompatibleSchema when it is none for the registry, Unavailable.
        """
        answer = self._sent(f"/subjects/{quote(subject, safe='')}", schema)
        if answer.code in _NOT_FOUND:
            return None
        return Known(int(self._found(answer, "id")), int(self._found(answer, "version")))

    def registered(self, subject: str, schema: Schema) -> int:
        """The id of a schema, which becomes the newest of its subject unless it is there. Safe to repeat.

        Raises IncompatibleSchema, Unavailable.
        """
        known = self.known(subject, schema)
        if known is not None:
            return known.id
        answer = self._sent(f"/subjects/{quote(subject, safe='')}/versions", schema)
        return int(self._found(answer, "id"))

    def require_compatible(self, subject: str, schema: Schema) -> None:
        """Raises IncompatibleSchema when the registry would not take the schema, Unavailable. Registers nothing."""
        if self.known(subject, schema) is not None:
            return
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        answer = self._sent(path, schema)
        if answer.code in _NOT_FOUND:
            return
        if not self._found(answer, "is_compatible"):
            raise IncompatibleSchema("; ".join(map(str, answer.body.get("messages") or ["it does not say why"])))

    def _sent(self, path: str, schema: Schema) -> _Answer:
        """Raises IncompatibleSchema where the registry refuses the schema, also one that it cannot read, or of a kind
        that it does not have; Unavailable."""
        answer = self._ask("POST", path, schema.body())
        if answer.status == _INCOMPATIBLE or answer.code == _INVALID_SCHEMA:
            raise IncompatibleSchema(answer.message)
        return answer

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> _Answer:
        """Raises Unavailable where nobody answers, or the login is refused."""
        status, content = self._answered(method, path, body)
        if status in (401, 403):
            who = "a client without a login" if self.username is None else f"the user {self.username}"
            raise Unavailable(
                f"the schema registry {self.url} refuses {who} ({status}): check "
                "PENSTOCK_SCHEMA_REGISTRY_USERNAME and its password file"
            )
        try:
            return _Answer(status, json.loads(content))
        except ValueError as error:
            told = f"{self.url} does not answer as a schema registry (status {status})"
            raise Unavailable(told) from error

    def _answered(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        if self.username is not None:
            login = f"{self.username}:{self.password or ''}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        content = None if body is None else json.dumps(body).encode()
        request = Request(self.url.rstrip("/") + path, content, headers, method=method)
        try:
            with _OPENER.open(request, timeout=_TIMEOUT_SECONDS) as found:
                return found.status, found.read()
        except HTTPError as error:
            return error.code, error.read()
        except (OSError, HTTPException) as error:
            raise Unavailable(f"the schema registry {self.url} does not answer: {error}") from error

    def _found(self, answer: _Answer, name: str) -> Any:
        if answer.status == 200 and isinstance(answer.body, dict) and name in answer.body:
            return answer.body[name]
        why = f"{answer.code}: {answer.message}" if answer.code is not None else f"status {answer.status}"
        raise Unavailable(f"the schema registry {self.url} gives no {name}: {why}")


def subject_of(topic: str) -> str:
    """The subject of a topic's values (TopicNameStrategy)."""
    return f"{topic}-value"
