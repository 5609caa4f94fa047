"""Calls of the Job Service among many jobs: `python -m tests.bench.api [--jobs 100000] [--seconds 20]
[--clients 4]`.

A stack without Task Managers holds `--jobs` jobs, written through the Job Service in batches, all converged. Then
clients of this process call for `--seconds` each. First each kind of call alone:

- `writes_per_s`, `write_p99_ms`: another `priority` in the oncall layer of a job, by compare-and-swap, by `--clients`
  clients. The State Syncer takes them over meanwhile.
- `reads_per_s`, `read_p99_ms`: a job with its merged configuration, by as many clients.
- `list_p99_ms`: a page of 100 jobs of a prefix, by one client.

Then all three at once, by half as many clients for writes and reads, and one for pages: `together_writes_per_s`,
`together_reads_per_s`, and the p99 of the three.

`client_share` is what the clients themselves took of the processors while they wrote. `<process>_write_cpu_ms` is
what a process took of a write while nothing else was called, with its share of what it does anyway.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from penstock.local.stack import LocalStack
from penstock.wire.job_client import JobClient
from tests.bench.report import finish, percentile, say, temporary_stack
from tests.bench.submissions import BATCH, CLIENTS, config_of, submit_batch, wait_converged
from tests.support.bench.fleet import cpu_seconds

PREFIX = "api"
PAGE = 100
CPU_MS = "_write_cpu_ms"
_FILL_S = 1800.0
Call = Callable[[JobClient, int], object]


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    asked = parser.parse_args()
    with temporary_stack(task_managers=0) as stack:
        figures = measure(stack, asked.jobs, asked.seconds, asked.clients)
    finish(figures)


def measure(stack: LocalStack, jobs: int, seconds: float, clients: int = CLIENTS) -> dict[str, float]:
    """The figures among so many stopped jobs, which are there afterwards."""
    _fill(stack, jobs)
    write = _writes()
    client, before = time.process_time(), _processor_seconds(stack)
    writes = _called(stack, write, jobs, seconds, clients)
    client_share, after = (time.process_time() - client) / seconds, _processor_seconds(stack)
    reads = _called(stack, _read, jobs, seconds, clients)
    pages = _called(stack, _page, jobs, seconds, 1)
    say(f"{len(writes)} writes, {len(reads)} reads, {len(pages)} pages; a write: p50 {_ms(writes, 0.5):.1f} ms")
    return {
        "jobs": jobs,
        **_figures(writes, reads, pages, seconds),
        "client_share": client_share,
        **{f"{name}{CPU_MS}": 1000 * (after[name] - before[name]) / max(1, len(writes)) for name in after},
        **{f"together_{name}": value for name, value in _together(stack, write, jobs, seconds, clients).items()},
    }


def _processor_seconds(stack: LocalStack) -> dict[str, float]:
    """What each process of the stack has used so far, with its children; its Postgres, where it has one of its own."""
    pids = {process.name: stack.supervisor.pid(process.name) for process in stack.processes()}
    postmaster = stack.data_dir / "postgres" / "postmaster.pid"
    if postmaster.exists():
        pids["postgres"] = int(postmaster.read_text().split()[0])
    return {name: cpu_seconds(pid) for name, pid in pids.items()}


def _together(stack: LocalStack, write: Call, jobs: int, seconds: float, clients: int) -> dict[str, float]:
    with ThreadPoolExecutor(3) as pool:
        calls = ((write, (clients + 1) // 2), (_read, (clients + 1) // 2), (_page, 1))
        found = [pool.submit(_called, stack, call, jobs, seconds, clients) for call, clients in calls]
    writes, reads, pages = (each.result() for each in found)
    return _figures(writes, reads, pages, seconds)


def _figures(writes: list[float], reads: list[float], pages: list[float], seconds: float) -> dict[str, float]:
    return {
        "writes_per_s": len(writes) / seconds,
        "write_p99_ms": _ms(writes, 0.99),
        "reads_per_s": len(reads) / seconds,
        "read_p99_ms": _ms(reads, 0.99),
        "list_p99_ms": _ms(pages, 0.99),
    }


def _fill(stack: LocalStack, jobs: int) -> None:
    began = time.perf_counter()
    numbers = iter(range(jobs))
    with stack.client() as client:
        while batch := list(islice(numbers, BATCH)):
            submit_batch(client, {_name(n): config_of(_stopped(stack), n) for n in batch})
    wait_converged(stack, PREFIX, jobs, within_s=_FILL_S)
    say(f"{jobs} jobs written and converged in {time.perf_counter() - began:.0f} s")


def _stopped(stack: LocalStack) -> dict[str, object]:
    return {"tables": {"planes": {"path": f"{stack.data_dir}/outputs/planes"}}, "desired_state": "stopped"}


def _called(stack: LocalStack, call: Call, jobs: int, seconds: float, clients: int) -> list[float]:
    """The seconds of each call that ended in time."""
    ends_at = time.perf_counter() + seconds

    def timed(number: int) -> list[float]:
        with stack.client() as client:
            return list(_until(ends_at, lambda job: call(client, job), _share(jobs, number, clients)))

    with ThreadPoolExecutor(clients) as pool:
        return [each for took in pool.map(timed, range(clients)) for each in took]


def _share(jobs: int, number: int, clients: int) -> list[int]:
    """The jobs of one client, in an order of chance: no two clients write the same."""
    mine = list(range(number, jobs, clients)) or [0]
    random.Random(number).shuffle(mine)
    return mine


def _until(ends_at: float, call: Callable[[int], object], jobs: list[int]) -> Iterator[float]:
    turn = 0
    while (began := time.perf_counter()) < ends_at:
        call(jobs[turn % len(jobs)])
        turn += 1
        if (now := time.perf_counter()) <= ends_at:
            yield now - began


def _writes() -> Call:
    """Writes of a job one after the other; each names the version that the one before it has made."""
    versions: dict[int, int] = {}

    def write(client: JobClient, job: int) -> None:
        version = versions.get(job, 0)
        noted = client.patch_layer(
            _name(job), "oncall", {"priority": version % 100 + 1}, if_match=version, reason="bench"
        )
        assert noted.version is not None
        versions[job] = noted.version

    return write


def _read(client: JobClient, job: int) -> None:
    client.get_job(_name(job))


def _page(client: JobClient, job: int) -> None:
    client.jobs_page(limit=PAGE, prefix=_name(job)[:-2])


def _name(number: int) -> str:
    return f"{PREFIX}-{number:07}"


def _ms(seconds: list[float], share: float) -> float:
    return 1000 * percentile(seconds, share)


if __name__ == "__main__":
    main()
