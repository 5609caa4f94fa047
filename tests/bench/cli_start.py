"""How long `penstock jobs list` and `penstock jobs --help` take, against importing the CLI's libraries in a bare
interpreter.

`python -m tests.bench.cli_start` prints one JSON object last. The commands run in turns, and medians are compared, so
load from elsewhere meets all of them. `list_s` is the whole of `penstock jobs list` from its start to its end; a server
of this process answers with 100 jobs at once. `list_cpu_s` is its processor time, which other load changes less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median
from typing import NamedTuple

from tests.bench.report import finish, say

_BARE = ("-c", "import typer, httpx, rich")
_PENSTOCK = ("-m", "penstock.cli")
_COMMANDS = {
    "bare": _BARE,
    "jobs_help": (*_PENSTOCK, "jobs", "--help"),
    "jobs_list": (*_PENSTOCK, "jobs", "list"),
}
_JOBS = 100


class Took(NamedTuple):
    """Seconds of a command: from start to end, and of the processor."""

    wall: float
    cpu: float


def measure(rounds: int, url: str) -> dict[str, float]:
    """The median seconds of each command, and their ratios. One round before the first fills the caches of files."""
    took: dict[str, list[Took]] = {name: [] for name in _COMMANDS}
    for number in range(rounds + 1):
        for name, words in _COMMANDS.items():
            seconds = _seconds(words, url)
            if number:
                took[name].append(seconds)
    bare, jobs_help, listed = (median(each.wall for each in took[name]) for name in ("bare", "jobs_help", "jobs_list"))
    return {
        "jobs_help_s": jobs_help,
        "bare_s": bare,
        "ratio": jobs_help / bare,
        "list_s": listed,
        "list_cpu_s": median(each.cpu for each in took["jobs_list"]),
        "list_ratio": listed / bare,
    }


def _seconds(words: tuple[str, ...], url: str) -> Took:
    environment = {**os.environ, "PENSTOCK_URL": url, "PENSTOCK_TOKEN": "pst_bench"}
    before, began = os.times(), time.perf_counter()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True, timeout=120, env=environment)
    wall, after = time.perf_counter() - began, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Took(wall, cpu)


class _JobService(BaseHTTPRequestHandler):
    """Answers every call with one page of jobs."""

    def do_GET(self) -> None:
        """The page."""
        facts = {"owner": "me", "state": "synced", "revision": 1, "running_revision": 1, "generation": 1}
        jobs = [{"job": f"job-{n}", "restarts": 0, "converged": True, **facts} for n in range(_JOBS)]
        body = json.dumps({"jobs": jobs, "next": None}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the output is the bench's."""


@contextmanager
def serving() -> Iterator[str]:
    """The address of a server that answers as a Job Service with jobs does."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _JobService)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    say(f"{rounds} rounds of {len(_COMMANDS)} commands in turns")
    with serving() as url:
        figures = measure(rounds, url)
    finish(figures)


if __name__ == "__main__":
    main()
