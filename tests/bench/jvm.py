"""What a JVM holds, read from outside with `jcmd`: heap after a collection, metaspace, threads, classes, JIT time."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Mapping
from typing import NamedTuple

from penstock.local.jars import java_home
from tests.bench.report import let_pass

_MB = 1e6
_JCMD_S = 120.0
_MOST_COLLECTIONS = 10
_CLEANERS_S = 0.2


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
    """Collects garbage first, until nothing more goes: Spark's cleaner and the JVM's cleaner threads free something
    after each collection."""
    counters = _collected(pid)
    loaded = int(counters["java.cls.loadedClasses"]) + int(counters["java.cls.sharedLoadedClasses"])
    gone = int(counters["java.cls.unloadedClasses"]) + int(counters["java.cls.sharedUnloadedClasses"])
    return JvmState(
        heap_mb=_heap(counters) / _MB,
        metaspace_mb=int(counters["sun.gc.metaspace.used"]) / _MB,
        threads=int(counters["java.threads.live"]),
        classes=loaded - gone,
        classes_loaded=loaded,
        jit_s=int(counters["java.ci.totalTime"]) / int(counters["sun.os.hrt.frequency"]),
    )


def _collected(pid: int) -> dict[str, str]:
    """The performance counters once two collections in a row have freed less than a hundredth of the heap."""
    used = [float("inf")] * 2
    for _ in range(_MOST_COLLECTIONS):
        _jcmd(pid, "GC.run")
        counters = dict(line.split("=", 1) for line in _jcmd(pid, "PerfCounter.print").splitlines() if "=" in line)
        used.append(_heap(counters))
        if min(used[-2:]) > 0.99 * min(used[:-2]):
            break
        let_pass(_CLEANERS_S)
    return counters


def _heap(counters: Mapping[str, str]) -> int:
    """The bytes in use, of all spaces."""
    spaces = [name for name in counters if name.startswith("sun.gc.generation.") and name.endswith(".used")]
    return sum(int(counters[name]) for name in spaces)


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
