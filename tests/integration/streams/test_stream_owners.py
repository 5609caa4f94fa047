"""The task of a stream goes from one process to another: after a kill, and while its old owner goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from penstock.control.process import wait_until
from penstock.spark.checkpoint import last_commit
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import Runtime
from tests.integration.streams.test_streams import answer, append, make_job
from tests.support.spark.hosts import REPLY_SECONDS, Supervisor, quick_start, running_host
from tests.support.spark.streams import StreamJob

FILES = 8
"""A batch each."""
BATCHES_SECONDS = 90.0


@pytest.mark.long
@pytest.mark.parametrize(("end", "kind"), [("killed", "delta"), ("replaced", "json")])
def test_a_stream_is_read_exactly_once_by_two_owners(runtime: Runtime, tmp_path: Path, end: str, kind: str) -> None:
    """1. A host is in the middle of the rows. 2. It is killed; or this process takes the task over, comes to the end,
    and the host ends with the next rows, as it may not read them. 3. The sums are those of all rows."""
    path = tmp_path / "in"
    for batch in range(FILES):
        append(runtime, kind, path, batch)
    job = make_job(runtime, kind, tmp_path)
    own = {"spark_local_dir": tmp_path / "spark", "heap_bytes": 600 * 2**20, "spark_conf": quick_start()}
    (spec,) = task_specs(job.name, job.layout)
    with running_host(end, runtime.settings.model_copy(update=own), tmp_path) as host:
        assert host.start(spec).ok
        wait_until(lambda: (last_commit(str(job.checkpoint)) or 0) >= 1, BATCHES_SECONDS, "two batches")
        if end == "killed":
            os.kill(host.host.pid, signal.SIGKILL)
            host.exit.result(REPLY_SECONDS)
        else:
            job.run(FILES - 1)
        append(runtime, kind, path, FILES)
        if end == "replaced":
            _require_fenced(host, job)
    job.run(FILES)
    assert job.rows() == answer(runtime, kind, path)


def _require_fenced(host: Supervisor, job: StreamJob) -> None:
    ended = host.next_ended()
    assert (ended.task_id, ended.error_kind) == (f"{job.name}/0", "fenced")
