"""A real S3 server on this machine: versitygw, built from the Go module proxy at the pinned version, once.

It checks signatures, takes uploads in parts, and has an access log. Objects are files below a folder. Without Go or the
proxy there is no such server, and the tests that need one fail and say so: they are not skipped.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from penstock.control.process import kill_group, wait_until
from penstock.local.jars import share_dir
from penstock.local.ports import LOOPBACK, free_port
from tests.support.s3.server import LOGIN

MODULE, VERSION = "github.com/versity/versitygw/cmd/versitygw", "v1.8.0"
BUILD_SECONDS = 1500.0
_OPERATION = re.compile(r" s3_(\w+) ")
_START_SECONDS = 60.0
_ERROR_LENGTH = 1500


def versitygw() -> Path:
    """The program, built when it is not there. Raises AssertionError with the reason when that cannot be done."""
    program = share_dir() / f"versitygw-{VERSION}" / "versitygw"
    if program.exists():
        return program
    assert shutil.which("go"), f"there is no `go` on PATH: tests on a real S3 server build {MODULE}@{VERSION} with Go"
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        made = {"GOBIN": f"{folder}/bin", "GOPATH": f"{folder}/path"}
        command = ["go", "install", "-modcacherw", "-buildvcs=false", "-trimpath", f"{MODULE}@{VERSION}"]
        built = subprocess.run(
            command, env={**os.environ, **made}, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
        )
        said = built.stderr[-_ERROR_LENGTH:]
        assert built.returncode == 0, f"{MODULE}@{VERSION} could not be built; is the Go module proxy there?\n{said}"
        Path(folder, "bin", program.name).rename(program)
    return program


@dataclass(frozen=True)
class Gateway:
    """A server with buckets. `root`: the folder of all buckets. `port`: of this machine."""

    root: Path
    log: Path
    users: Path
    port: int

    def put(self, bucket: str, key: str, content: str) -> None:
        """An object, as the server itself would keep it."""
        file = self.root / bucket / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        digest = hashlib.md5(content.encode(), usedforsecurity=False).hexdigest()
        os.setxattr(file, "user.etag", f'"{digest}"'.encode())

    def add_user(self, login: Mapping[str, str], owns: str) -> None:
        """A user without rights but for a bucket that is the user's own."""
        user = ["--access", login["AWS_ACCESS_KEY_ID"], "--secret", login["AWS_SECRET_ACCESS_KEY"], "--role", "user"]
        self._admin("create-user", *user)
        self._admin("change-bucket-owner", "--bucket", owns, "--owner", login["AWS_ACCESS_KEY_ID"])

    def _admin(self, *words: str) -> None:
        login = ["--access", LOGIN["AWS_ACCESS_KEY_ID"], "--secret", LOGIN["AWS_SECRET_ACCESS_KEY"]]
        command = [str(versitygw()), "admin", *login, "--endpoint-url", f"http://{LOOPBACK}:{self.port}", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_START_SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def operations(self) -> Counter[str]:
        """How often each operation was asked for, such as `PutObject` or `UploadPart`, by the access log."""
        return Counter(_OPERATION.findall(self.log.read_text()))


@contextmanager
def gateway(folder: Path, *buckets: str) -> Iterator[Gateway]:
    """A server over `folder`, until the block ends. `LOGIN` is its administrator."""
    served = Gateway(folder / "buckets", folder / "access.log", folder / "users", free_port())
    for name in buckets:
        (served.root / name).mkdir(parents=True)
    served.users.mkdir()
    options = ["--port", f"{LOOPBACK}:{served.port}", "--access-log", str(served.log), "--iam-dir", str(served.users)]
    login = {"ROOT_ACCESS_KEY": LOGIN["AWS_ACCESS_KEY_ID"], "ROOT_SECRET_KEY": LOGIN["AWS_SECRET_ACCESS_KEY"]}
    command = [str(versitygw()), *options, "--health", "/healthy", "--quiet", "posix", str(served.root)]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, env={**os.environ, **login}, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
        )
        try:
            wait_until(lambda: _is_healthy(server, served.port), _START_SECONDS, "versitygw to serve")
            yield served
        finally:
            kill_group(server)


def _is_healthy(server: subprocess.Popen[bytes], port: int) -> bool:
    assert server.poll() is None, f"versitygw ended with {server.returncode}"
    try:
        return httpx.get(f"http://{LOOPBACK}:{port}/healthy").is_success
    except httpx.TransportError:
        return False
