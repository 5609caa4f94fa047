"""What is told when a job is deleted whose output others read."""

from __future__ import annotations

from typing import Any

from penstock.model.jobs import JobState
from penstock.wire.job_client import JobClient
from tests.support.cli.shell import Shell
from tests.support.job_service.service import CONFIG


def test_who_reads_what_a_deleted_job_wrote_is_told(client: JobClient, shell: Shell) -> None:
    """1. The command refuses while a job reads there, and names it. 2. With --yes it deletes; the answer names it, too.
    3. A reader that is being deleted does not count."""
    after: dict[str, Any] = {"output": {"type": "kafka", "topic": "after"}}
    reads = {"inputs": {"flights": {**CONFIG["inputs"]["flights"], "topic": CONFIG["output"]["topic"]}}}
    client.put_job("etl", CONFIG)
    client.put_job("counts", {**CONFIG, **reads, **after})
    refused = shell("jobs", "delete", "etl").refusal()
    assert "counts reads what etl writes" in refused
    assert "(field yes, rule confirmed)" in refused
    assert client.get_job("etl").state is not JobState.DELETING
    deleted = shell("jobs", "delete", "etl", "--yes").ok()
    assert "NOTE counts reads what etl wrote: no new row comes there" in deleted
    assert "NOTE" not in shell("jobs", "delete", "counts").ok(), "nobody reads its output"
    assert client.delete_job("etl").notes == []
