"""What libraries of a package's own cost: to pack them, to build their environment, and at the start of a host.

`python -m tests.bench.environments --folder EMPTY REQUIREMENT...` prints one JSON object last. A host without and one
with the environment start in turns, and medians are compared. `build_s` is paid by the first host of a package on each
container, `start_own_s` by each host of it; `start_plain_s` is what a host of a package without dependencies takes.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from penstock.spark.environments import Environments
from penstock.spark.settings import SparkSettings
from tests.bench.report import finish, say
from tests.support.spark.environments import packed_with
from tests.support.spark.hosts import running_host, settings_for

_NO_KAFKA = "127.0.0.1:9"
_CODE = "x = 1\n"


def measure(folder: Path, requirements: Sequence[str], rounds: int, wheels: Path | None = None) -> dict[str, float]:
    """Seconds and megabytes (10^6); `build_cpu_s` has that of child processes. `wheels`: instead of an index."""
    plain = settings_for(folder, _NO_KAFKA)
    begun = time.perf_counter()
    pip = {} if wheels is None else {"PIP_NO_INDEX": "1"}
    packed_with(folder, "bench", _CODE, requirements, wheels or folder, root=plain.packages_root, **pip)
    pack_s = time.perf_counter() - begun
    package = plain.packages_root / "bench-1.zip"
    begun, cpu = time.perf_counter(), _cpu_s()
    environment = Environments(folder / "environments", 2**36, for_all=False).take(package, "bench")
    build_s, build_cpu_s = time.perf_counter() - begun, _cpu_s() - cpu
    say(f"packed in {pack_s:.1f} s, built in {build_s:.1f} s")
    own = plain.model_copy(update={"package_environment": environment})
    took = [(_start_s(plain, f"plain{number}"), _start_s(own, f"own{number}")) for number in range(rounds)]
    return {
        "pack_s": pack_s,
        "archive_mb": package.stat().st_size / 1e6,
        "build_s": build_s,
        "build_cpu_s": build_cpu_s,
        "start_plain_s": median(one for one, _ in took),
        "start_own_s": median(other for _, other in took),
    }


def _start_s(settings: SparkSettings, name: str) -> float:
    begun = time.perf_counter()
    with running_host(name, settings, settings.packages_root):
        return time.perf_counter() - begun


def _cpu_s() -> float:
    return sum(os.times()[:4])


def main() -> None:
    """The whole bench."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="empty folder, for all files of the bench")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("requirements", nargs="+")
    arguments = parser.parse_args()
    finish(measure(arguments.folder, arguments.requirements, arguments.rounds))


if __name__ == "__main__":
    main()
