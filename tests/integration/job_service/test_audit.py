"""Who called, from where, and what became of it: of each call that writes."""

from __future__ import annotations

from structlog.testing import capture_logs

from tests.support import calls
from tests.support.job_service.service import CONFIG, RunningJobService


def test_each_call_that_writes_leaves_a_line_also_when_it_is_refused(service: RunningJobService) -> None:
    headers = {"Authorization": f"Bearer {service.admin}", "X-Forwarded-For": "203.0.113.5"}
    url = f"{service.url}/v1/jobs/j"
    with capture_logs() as logged:
        assert calls.put(url, headers=headers, json={"config": dict(CONFIG)}).status_code in (200, 201)
        assert calls.put(url, headers=headers, content=b"no JSON").status_code == 422
        assert calls.delete(f"{service.url}/v1/jobs/other", headers=headers).status_code == 404
        assert calls.get(url, headers=headers).status_code == 200
    lines = [line for line in logged if line["event"] == "call that writes"]
    assert [(line["method"], line["path"], line["status"] // 100) for line in lines] == [
        ("PUT", "/v1/jobs/j", 2),
        ("PUT", "/v1/jobs/j", 4),
        ("DELETE", "/v1/jobs/other", 4),
    ]
    assert {(line["author"], line["address"]) for line in lines} == {("admin", "127.0.0.1")}
