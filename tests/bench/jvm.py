"""What a JVM holds, read from outside with `jcmd`: heap after a collection, metaspace, threads, classes, compiled code
and JIT time."""

from __future__ import annotations

import getpass
import re
import struct
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from penstock.local.jars import java_home
from tests.bench.report import let_pass

_MB = 1e6
_JCMD_S = 120.0
MOST_COLLECTIONS = 10
_CLEANERS_S = 0.2
_PROLOGUE_BYTES = 24


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


def jvm_state(pid: int, most_collections: int = MOST_COLLECTIONS) -> JvmState:
    """Collects garbage first, until nothing more goes, but not more often than said: Spark's cleaner and the JVM's
    cleaner threads free something after each collection."""
    counters = _collected(pid, most_collections) if most_collections else _counters(pid)
    loaded = counters["java.cls.loadedClasses"] + counters["java.cls.sharedLoadedClasses"]
    gone = counters["java.cls.unloadedClasses"] + counters["java.cls.sharedUnloadedClasses"]
    return JvmState(
        heap_mb=_heap(counters) / _MB,
        metaspace_mb=counters["sun.gc.metaspace.used"] / _MB,
        threads=counters["java.threads.live"],
        classes=loaded - gone,
        classes_loaded=loaded,
        jit_s=counters["java.ci.totalTime"] / counters["sun.os.hrt.frequency"],
    )


def _collected(pid: int, most_collections: int) -> dict[str, int]:
    """The performance counters once two collections in a row have freed less than a hundredth of the heap."""
    used = [float("inf")] * 2
    for number in range(most_collections):
        if number:
            let_pass(_CLEANERS_S)
        _jcmd(pid, "GC.run")
        counters = _counters(pid)
        used.append(_heap(counters))
        if min(used[-2:]) > 0.99 * min(used[:-2]):
            break
    return counters


def _counters(pid: int) -> dict[str, int]:
    """The performance counters that are whole numbers, from the file that the JVM maps (`jdk.internal.perf`): to ask
    `jcmd` for them would take a JVM of its own each time."""
    data = Path(f"/tmp/hsperfdata_{getpass.getuser()}/{pid}").read_bytes()
    at, entries = struct.unpack_from("<ii", data, _PROLOGUE_BYTES)
    counters: dict[str, int] = {}
    for _ in range(entries):
        length, name_at, elements, kind, value_at = struct.unpack_from("<iiicxxxi", data, at)
        if kind == b"J" and not elements:
            name = data[at + name_at : data.index(b"\0", at + name_at)]
            counters[name.decode()] = struct.unpack_from("<q", data, at + value_at)[0]
        at += length
    return counters


def _heap(counters: Mapping[str, int]) -> int:
    """The bytes in use, of all spaces."""
    spaces = [name for name in counters if name.startswith("sun.gc.generation.") and name.endswith(".used")]
    return sum(counters[name] for name in spaces)


def instances(pid: int, class_names: Collection[str]) -> dict[str, int]:
    """Living objects by simple class name; a collection comes first."""
    found = dict.fromkeys(class_names, 0)
    for line in _jcmd(pid, "GC.class_histogram").splitlines():
        _, count, _, name, *_ = [*line.split(), "", "", "", ""]
        simple = name.rpartition(".")[2]
        if simple in found:
            found[simple] += int(count)
    return found


def code_cache_mb(pid: int) -> float:
    """What compiled code takes, of all its kinds."""
    return sum(int(kib) for kib in re.findall(r"\bused=(\d+)Kb", _jcmd(pid, "Compiler.codecache"))) * 1024 / _MB


def _jcmd(pid: int, *words: str) -> str:
    command = [str(java_home() / "bin" / "jcmd"), str(pid), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=_JCMD_S).stdout
