"""What a JVM holds, read from outside with `jcmd`: heap after a collection, metaspace, threads, classes, JIT time."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from typing import NamedTuple

from penstock.local.jars import java_home

_MB = 1e6
_JCMD_S = 120.0


class JvmState(NamedTuple):
    """`heap_mb` and `metaspace_mb` are in use after a full collection. `jit_s` is of all compiler threads so far."""

    heap_mb: float
    metaspace_mb: float
    threads: int
    classes: int
    classes_loaded: int
    jit_s: float

    def __str__(self) -> str:
        return (
            f"heap {self.heap_mb:.0f} MB, metaspace {self.metaspace_mb:.0f} MB, {self.threads} threads, "
            f"{self.classes} classes ({self.classes_loaded} ever loaded), {self.jit_s:.0f} s of compilation"
        )


def jvm_state(pid: int) -> JvmState:
    """Collects garbage first, twice: what a cleaner thread frees after the first goes with the second."""
    for _ in range(2):
        _jcmd(pid, "GC.run")
    counters = dict(line.split("=", 1) for line in _jcmd(pid, "PerfCounter.print").splitlines() if "=" in line)
    spaces = [name for name in counters if name.startswith("sun.gc.generation.") and name.endswith(".used")]
    loaded = int(counters["java.cls.loadedClasses"]) + int(counters["java.cls.sharedLoadedClasses"])
    gone = int(counters["java.cls.unloadedClasses"]) + int(counters["java.cls.sharedUnloadedClasses"])
    return JvmState(
        heap_mb=sum(int(counters[name]) for name in spaces) / _MB,
        metaspace_mb=int(counters["sun.gc.metaspace.used"]) / _MB,
        threads=int(counters["java.threads.live"]),
        classes=loaded - gone,
        classes_loaded=loaded,
        jit_s=int(counters["java.ci.totalTime"]) / int(counters["sun.os.hrt.frequency"]),
    )


def instances(pid: int, class_names: Collection[str]) -> dict[str, int]:
    """Living objects by simple class name; a collection comes first."""
    found = dict.fromkeys(class_names, 0)
    for line in _jcmd(pid, "GC.class_histogram").splitlines():
        _, count, _, name, *_ = [*line.split(), "", "", "", ""]
        simple = name.rpartition(".")[2]
        if simple in found:
            found[simple] += int(count)
    return found


def _jcmd(pid: int, *words: str) -> str:
    command = [str(java_home() / "bin" / "jcmd"), str(pid), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=_JCMD_S).stdout
