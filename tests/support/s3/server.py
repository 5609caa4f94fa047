"""A small S3 server in memory, for S3A: whole objects, lists, deletions, copies, and puts with `If-None-Match: *`.

It knows no signatures and no uploads in parts. `before` is told of each request before it is served, so that a test can
hold one up or cut it off. A put is atomic: of several with the condition one is taken.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest

from penstock.local.ports import LOOPBACK

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
LOGIN = {"AWS_ACCESS_KEY_ID": "id-of-the-store", "AWS_SECRET_ACCESS_KEY": "key-of-the-store"}


def conf_of(port: int) -> dict[str, str]:
    """Settings of a host that uses a server on a port of this machine."""
    return {
        "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.attempts.maximum": "2",
        "spark.hadoop.fs.s3a.retry.limit": "1",
    }


class CutOff(Exception):
    """Raised by `before`: the connection ends without an answer."""


@dataclass
class Store:
    """The objects by bucket and key, and the requests so far as (method, key)."""

    buckets: dict[str, dict[str, bytes]]
    conditional: bool = True
    denied: bool = False
    requests: list[tuple[str, str]] = field(default_factory=list)
    before: Callable[[str, str], None] = lambda method, key: None
    after: Callable[[str, str], None] = lambda method, key: None
    lock: threading.Lock = field(default_factory=threading.Lock)
    port: int = 0

    def spark_conf(self) -> dict[str, str]:
        """Settings of a host that uses this server."""
        return conf_of(self.port)

    def objects(self, bucket: str) -> dict[str, bytes]:
        """The objects of a bucket by key."""
        with self.lock:
            return dict(self.buckets[bucket])

    def names(self, bucket: str, prefix: str) -> list[str]:
        """The keys below a prefix, without it, in order."""
        return [key.removeprefix(prefix) for key in sorted(self.objects(bucket)) if key.startswith(prefix)]


@contextmanager
def s3_server(*buckets: str, **more: Any) -> Iterator[Store]:
    """A server on a free port of this machine, until the block ends."""
    assert all(map(_BUCKET.fullmatch, buckets)), f"S3 takes no bucket of such a name: {buckets}"
    store = Store({name: {} for name in buckets}, **more)
    handler = type("Handler", (_Handler,), {"store": store})
    with served(handler) as store.port:
        yield store


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """The port of this machine at which requests are handled, until the block ends."""
    server = ThreadingHTTPServer((LOOPBACK, 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def s3_server_and_login(patch: pytest.MonkeyPatch, bucket: str) -> Iterator[Store]:
    """A server with one bucket, while the environment of hosts has `LOGIN`."""
    for name, value in LOGIN.items():
        patch.setenv(name, value)
    with s3_server(bucket) as server:
        yield server


class _Handler(BaseHTTPRequestHandler):
    store: Store
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        self._serve("GET")

    def do_HEAD(self) -> None:
        self._serve("HEAD")

    def do_PUT(self) -> None:
        self._serve("PUT")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str) -> None:
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        body = self._body()
        self.store.requests.append((method, key))
        try:
            self.store.before(method, key)
            with self.store.lock:
                answer = self._answer(method, bucket, key, parse_qs(parts.query, keep_blank_values=True), body)
            self.store.after(method, key)
        except CutOff:
            self.close_connection = True
            return
        self._send(*answer)

    def _answer(
        self, method: str, bucket: str, key: str, query: dict[str, list[str]], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        if self.store.denied:
            return _error(403, "AccessDenied")
        objects = self.store.buckets.get(bucket)
        if objects is None:
            return _error(404, "NoSuchBucket")
        if method == "POST":
            for each in ElementTree.fromstring(body).iter():
                if each.tag.endswith("Key"):
                    objects.pop(str(each.text), None)
            return 200, {}, b"<DeleteResult/>"
        if method == "PUT":
            return self._put(objects, key, body)
        if method == "DELETE":
            objects.pop(key, None)
            return 204, {}, b""
        if not key:
            return 200, {}, _list(bucket, objects, query)
        if key not in objects:
            return _error(404, "NoSuchKey")
        return self._get(objects[key])

    def _put(self, objects: dict[str, bytes], key: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if self.headers.get("If-None-Match") == "*" and self.store.conditional and key in objects:
            return _error(412, "PreconditionFailed")
        source = self.headers.get("x-amz-copy-source")
        if source is not None:
            from_bucket, _, from_key = unquote(source).lstrip("/").partition("/")
            objects[key] = self.store.buckets[from_bucket][from_key]
            return 200, {}, f"<CopyObjectResult><ETag>{_etag(objects[key])}</ETag></CopyObjectResult>".encode()
        objects[key] = body
        return 200, {"ETag": _etag(body)}, b""

    def _get(self, content: bytes) -> tuple[int, dict[str, str], bytes]:
        headers = {"ETag": _etag(content), "Last-Modified": formatdate(usegmt=True), "Accept-Ranges": "bytes"}
        asked = self.headers.get("Range")
        if asked is None:
            return 200, headers, content
        first, _, last = asked.removeprefix("bytes=").partition("-")
        begin = int(first) if first else max(0, len(content) - int(last))
        part = content[begin : int(last) + 1 if first and last else None]
        headers["Content-Range"] = f"bytes {begin}-{begin + len(part) - 1}/{len(content)}"
        return 206, headers, part

    def _body(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return body
        found, rest = b"", body
        while rest:
            head, _, rest = rest.partition(b"\r\n")
            size = int(head.partition(b";")[0], 16)
            if not size:
                break
            found, rest = found + rest[:size], rest[size + 2 :]
        return found

    def _send(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(content)


def _list(bucket: str, objects: dict[str, bytes], query: dict[str, list[str]]) -> bytes:
    prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
    after, most = query.get("start-after", [""])[0], int(query.get("max-keys", ["1000"])[0])
    found, folders = [], set()
    for key in sorted(objects):
        rest = key.removeprefix(prefix)
        if not key.startswith(prefix) or key <= after:
            continue
        if delimiter and delimiter in rest:
            folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
        else:
            found.append(key)
    assert len(found) + len(folders) <= 1000, "no pages here"
    contents = "".join(_listed(key, objects[key]) for key in found[:most])
    common = "".join(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(folders))
    return (
        f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><IsTruncated>false</IsTruncated>"
        f"<KeyCount>{len(found) + len(folders)}</KeyCount><MaxKeys>{most}</MaxKeys>{contents}{common}"
        "</ListBucketResult>"
    ).encode()


def _listed(key: str, content: bytes) -> str:
    at = "2026-01-01T00:00:00.000Z"
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{at}</LastModified><ETag>{escape(_etag(content))}</ETag>"
        f"<Size>{len(content)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )


def _etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def _error(status: int, code: str) -> tuple[int, dict[str, str], bytes]:
    return status, {"Content-Type": "application/xml"}, f"<Error><Code>{code}</Code></Error>".encode()
