"""The jars of GCS and ABFS are whole: each connector is loaded in a JVM, logs in and asks a server of the test for a
path. No store answers here: ABFS is told that the path is not there, and GCS, which takes no other address than its
own, comes as far as the proxy.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from penstock.local.jars import fetch_store_jars, java_home, pyspark_home, share_dir
from penstock.local.ports import LOOPBACK
from penstock.spark.stores import jar_folders

SECONDS = 120.0


class Nowhere(BaseHTTPRequestHandler):
    """Gives a token to who asks for one, and says of all else that it is not there."""

    asked: list[str]

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.asked.append(f"{self.command} {self.path.partition('?')[0]}")
        token = json.dumps({"access_token": "t", "expires_in": 3600, "token_type": "Bearer"}).encode()
        body = token if self.path == "/token" else b"{}"
        self.send_response(200 if self.path == "/token" else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_POST = do_HEAD = do_CONNECT = _answer

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def nowhere() -> Iterator[tuple[int, list[str]]]:
    """Its port, and what it was asked for."""
    asked: list[str] = []
    server = ThreadingHTTPServer((LOOPBACK, 0), type("Asked", (Nowhere,), {"asked": asked}))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def key_file(folder: Path, port: int) -> Path:
    """That of a service account, whose tokens are had from the server."""
    key = rsa.generate_private_key(65_537, 2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    account = {
        "type": "service_account",
        "client_id": "1",
        "client_email": "penstock@example.org",
        "private_key_id": "k",
        "private_key": pem.decode(),
        "token_uri": f"http://{LOOPBACK}:{port}/token",
        "project_id": "p",
    }
    path = folder / "key.json"
    path.write_text(json.dumps(account))
    return path


def listed(path: str, settings: Mapping[str, str], folder: Path, port: int) -> str:
    """What Hadoop's shell says of a path, with the class path of a host. The server is its proxy, too."""
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    (folder / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")
    jars = share_dir() / "jars"
    (store,) = jar_folders([path], jars)
    entries = [folder, pyspark_home() / "jars" / "*", jars / "spark" / "*", store / "*"]
    proxy = [f"-Dhttps.proxyHost={LOOPBACK}", f"-Dhttps.proxyPort={port}"]
    java = [java_home() / "bin" / "java", *proxy]
    command = [*java, "-cp", ":".join(map(str, entries)), "org.apache.hadoop.fs.FsShell", "-ls"]
    done = subprocess.run([*command, path], capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.stdout + done.stderr


@pytest.mark.long
def test_the_connector_of_gcs_logs_in_and_asks(tmp_path: Path) -> None:
    fetch_store_jars(["gcs"])
    with nowhere() as (port, asked):
        settings = {
            "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
            "fs.gs.auth.service.account.json.keyfile": str(key_file(tmp_path, port)),
            "fs.gs.project.id": "p",
        }
        said = listed("gs://bucket/folder", settings, tmp_path, port)
    assert "POST /token" in asked
    assert "CONNECT storage.googleapis.com:443" in asked
    assert "NoClassDefFoundError" not in said


@pytest.mark.long
def test_the_connector_of_abfs_asks_with_the_key_of_an_account(tmp_path: Path) -> None:
    fetch_store_jars(["abfs"])
    with nowhere() as (port, asked):
        account = f"{LOOPBACK}:{port}"
        settings = {
            f"fs.azure.account.key.{account}": "aGVsbG8=",
            "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
            "fs.azure.always.use.https": "false",
            "fs.azure.io.retry.max.retries": "0",
        }
        said = listed(f"abfs://files@{account}/folder", settings, tmp_path, port)
    print(said[:3000], asked)
    assert "No such file or directory" in said
    assert [path for path in asked if path.startswith("HEAD /files")] != []
