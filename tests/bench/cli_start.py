"""How long `penstock jobs --help` takes, against importing the CLI's libraries in a bare interpreter.

`python -m tests.bench.cli_start` prints one JSON object last. The commands run in turns, and medians are compared, so
load from elsewhere meets all of them. `list_ratio` is for `penstock jobs list --help`, which imports what a call needs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from statistics import median

from tests.bench.report import finish, say

_BARE = ("-c", "import typer, httpx, rich")
_PENSTOCK = ("-m", "penstock.cli")
_COMMANDS = {
    "bare": _BARE,
    "jobs_help": (*_PENSTOCK, "jobs", "--help"),
    "jobs_list_help": (*_PENSTOCK, "jobs", "list", "--help"),
}


def measure(rounds: int) -> dict[str, float]:
    """The median seconds of each command, and their ratios. One round before the first fills the caches of files."""
    took: dict[str, list[float]] = {name: [] for name in _COMMANDS}
    for number in range(rounds + 1):
        for name, words in _COMMANDS.items():
            seconds = _seconds(words)
            if number:
                took[name].append(seconds)
    bare, jobs_help, list_help = (median(took[name]) for name in ("bare", "jobs_help", "jobs_list_help"))
    return {
        "jobs_help_s": jobs_help,
        "bare_s": bare,
        "ratio": jobs_help / bare,
        "list_help_s": list_help,
        "list_ratio": list_help / bare,
    }


def _seconds(words: tuple[str, ...]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True, timeout=120)
    return time.perf_counter() - began


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    say(f"{rounds} rounds of {len(_COMMANDS)} commands in turns")
    finish(measure(rounds))


if __name__ == "__main__":
    main()
