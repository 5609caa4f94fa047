"""The client of the Job Service, for the CLI, the Auto Scaler, the provisioner and tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from penstock.model.jobs import JobState, Role
from penstock.wire import jobs, overview
from penstock.wire.balance import BalanceView, Rebalanced
from penstock.wire.calls import write_headers
from penstock.wire.container_calls import ContainerCalls
from penstock.wire.savepoints import SavepointPage, SavepointView

# Seconds until the layer is dropped; None: never; "default": as the layer's row says.
Expires = int | Literal["default"] | None


class JobClient(ContainerCalls):
    """All calls of the Job Service. Methods raise the errors of `penstock.control.errors`.

    `if_match` is the version of the layer that was read, 0 when it was never written: VersionConflict carries the
    current one. `idempotency_key` makes a write safe to send again. Use as a context manager, or call `close`.
    """

    def put_job(
        self,
        job: str,
        config: Mapping[str, Any],
        *,
        reason: str = "",
        if_match: int | None = None,
        create_only: bool = False,
        idempotency_key: str | None = None,
    ) -> jobs.Written:
        """Creates a job, or replaces its base layer."""
        headers = write_headers(if_match, idempotency_key) | ({"If-None-Match": "*"} if create_only else {})
        return self._write("PUT", _job(job), jobs.Written, {"config": config, "reason": reason}, headers=headers)

    def get_job(self, job: str) -> jobs.JobView:
        """A job with its merged configuration."""
        return self._read(jobs.JobView, _job(job))

    def list_jobs(
        self,
        *,
        prefix: str | None = None,
        owner: str | None = None,
        state: JobState | None = None,
        page_size: int = 500,
    ) -> Iterator[jobs.JobSummary]:
        """All jobs by name that match the filters, read page by page."""
        cursor: str | None = None
        while True:
            page = self._read(
                jobs.JobPage, "/v1/jobs", prefix=prefix, owner=owner, state=state, cursor=cursor, limit=page_size
            )
            yield from page.jobs
            cursor = page.next
            if cursor is None:
                return

    def delete_job(self, job: str, *, reason: str = "", idempotency_key: str | None = None) -> jobs.Written:
        """Stops the job's tasks, then forgets it."""
        headers = write_headers(None, idempotency_key)
        return self._write("DELETE", _job(job), jobs.Written, headers=headers, params={"reason": reason})

    def restart(self, job: str, *, reason: str = "", idempotency_key: str | None = None) -> jobs.Written:
        """Restarts all tasks of the job."""
        headers = write_headers(None, idempotency_key)
        return self._write("POST", f"{_job(job)}/restart", jobs.Written, {"reason": reason}, headers=headers)

    def release(self, job: str, *, reason: str = "", idempotency_key: str | None = None) -> jobs.Written:
        """Lets a quarantined or failed job be tried again."""
        headers = write_headers(None, idempotency_key)
        return self._write("POST", f"{_job(job)}/release", jobs.Written, {"reason": reason}, headers=headers)

    def rescale(
        self,
        job: str,
        task_count: int,
        *,
        balance: bool = False,
        reason: str = "",
        expires_in_seconds: Expires = "default",
        idempotency_key: str | None = None,
    ) -> jobs.Written:
        """Asks for another number of tasks, in the highest layer that the token may write; by default it stays.

        With `balance` their ranges follow the measured traffic; raises Conflict when too little of it is known.
        Raises Conflict when the layer ends by itself already and `expires_in_seconds` is not given.
        """
        body = {"task_count": task_count, "balance": balance, "reason": reason} | _expiry(expires_in_seconds)
        headers = write_headers(None, idempotency_key)
        return self._write("POST", f"{_job(job)}/rescale", jobs.Written, body, headers=headers)

    def balance(self, job: str, *, min_measured_seconds: int = 60) -> BalanceView:
        """The job's traffic by key group, and the ranges that would share it evenly; writes nothing."""
        return self._read(BalanceView, f"{_job(job)}/rebalance", min_measured_seconds=min_measured_seconds)

    def rebalance(
        self,
        job: str,
        *,
        min_gain: float = 0.1,
        min_measured_seconds: int = 60,
        reason: str = "",
        expires_in_seconds: Expires = "default",
        idempotency_key: str | None = None,
    ) -> Rebalanced:
        """Asks for ranges of key groups that share the measured traffic evenly, as `rescale` asks for tasks.

        Raises Conflict when too little is measured or gained, and as `rescale` does.
        """
        body = {"min_gain": min_gain, "min_measured_seconds": min_measured_seconds, "reason": reason}
        headers = write_headers(None, idempotency_key)
        path = f"{_job(job)}/rebalance"
        return self._write("POST", path, Rebalanced, body | _expiry(expires_in_seconds), headers=headers)

    def create_savepoint(
        self, job: str, name: str | None = None, *, reason: str = "", idempotency_key: str | None = None
    ) -> SavepointView:
        """Asks for a savepoint; its `state` tells later when it is ready."""
        body = {"name": name, "reason": reason}
        headers = write_headers(None, idempotency_key)
        return self._write("POST", f"{_job(job)}/savepoints", SavepointView, body, headers=headers)

    def savepoints(self, job: str, *, cursor: str | None = None, limit: int | None = None) -> SavepointPage:
        """A page of a job's savepoints, newest first."""
        return self._read(SavepointPage, f"{_job(job)}/savepoints", cursor=cursor, limit=limit)

    def savepoint(self, job: str, name: str) -> SavepointView:
        """One savepoint."""
        return self._read(SavepointView, _savepoint(job, name))

    def delete_savepoint(self, job: str, name: str) -> SavepointView:
        """Its files go, then itself."""
        return self._write("DELETE", _savepoint(job, name), SavepointView)

    def restore(
        self,
        job: str,
        savepoint: str,
        *,
        of: str | None = None,
        task_count: int | None = None,
        with_package: bool = False,
        reason: str = "",
        idempotency_key: str | None = None,
    ) -> jobs.Written:
        """Rolls a job back to a savepoint, or starts it from one of the job `of`; with the package of then if asked."""
        body = {
            "savepoint": savepoint,
            "of": of,
            "task_count": task_count,
            "with_package": with_package,
            "reason": reason,
        }
        headers = write_headers(None, idempotency_key)
        return self._write("POST", f"{_job(job)}/restore", jobs.Written, body, headers=headers)

    def get_layer(self, job: str, layer: str, *, revision: int | None = None) -> jobs.LayerView:
        """A layer with its version; as it was at `revision` when that is given."""
        return self._read(jobs.LayerView, _layer(job, layer), revision=revision)

    def put_layer(
        self,
        job: str,
        layer: str,
        config: Mapping[str, Any],
        *,
        if_match: int,
        reason: str = "",
        expires_in_seconds: Expires = "default",
        idempotency_key: str | None = None,
    ) -> jobs.Written:
        """Replaces a layer."""
        body = {"config": config, "reason": reason} | _expiry(expires_in_seconds)
        headers = write_headers(if_match, idempotency_key)
        return self._write("PUT", _layer(job, layer), jobs.Written, body, headers=headers)

    def patch_layer(
        self,
        job: str,
        layer: str,
        patch: Mapping[str, Any],
        *,
        if_match: int,
        reason: str = "",
        expires_in_seconds: Expires = "default",
        idempotency_key: str | None = None,
    ) -> jobs.Written:
        """Changes a layer by a merge patch: None drops a key."""
        body = {"config": patch, "reason": reason} | _expiry(expires_in_seconds)
        headers = write_headers(if_match, idempotency_key)
        return self._write("PATCH", _layer(job, layer), jobs.Written, body, headers=headers)

    def drop_layer(
        self, job: str, layer: str, *, if_match: int, reason: str = "", idempotency_key: str | None = None
    ) -> jobs.Written:
        """Drops a layer, which brings the values below it back."""
        headers = write_headers(if_match, idempotency_key)
        return self._write("DELETE", _layer(job, layer), jobs.Written, headers=headers, params={"reason": reason})

    def revert_layer(
        self,
        job: str,
        layer: str,
        version: int,
        *,
        if_match: int,
        reason: str = "",
        expires_in_seconds: Expires = "default",
        idempotency_key: str | None = None,
    ) -> jobs.Written:
        """Makes a layer again what it was at `version`."""
        body = {"version": version, "reason": reason} | _expiry(expires_in_seconds)
        headers = write_headers(if_match, idempotency_key)
        return self._write("POST", f"{_layer(job, layer)}/revert", jobs.Written, body, headers=headers)

    def batch(self, writes: Sequence[jobs.BatchWrite], *, idempotency_key: str | None = None) -> list[jobs.BatchResult]:
        """Many writes at once, at most `jobs.LARGEST_BATCH`; each has its own result."""
        body = jobs.Batch(writes=list(writes)).model_dump(mode="json", exclude_unset=True)
        headers = write_headers(None, idempotency_key)
        return self._write("POST", "/v1/batches", jobs.BatchResults, body, headers=headers).results

    def explain(self, job: str) -> jobs.Explanation:
        """Where each leaf of the configuration comes from."""
        return self._read(jobs.Explanation, f"{_job(job)}/explain")

    def plan(
        self,
        job: str,
        config: Mapping[str, Any],
        *,
        layer: str = "oncall",
        action: Literal["put", "patch", "drop"] = "patch",
    ) -> jobs.PlanView:
        """What a layer write would do; writes nothing."""
        body = {"config": config, "layer": layer, "action": action}
        return self._write("POST", f"{_job(job)}/plans", jobs.PlanView, body)

    def history(
        self, job: str, *, layer: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> jobs.HistoryPage:
        """A page of the job's history, newest first."""
        return self._read(jobs.HistoryPage, f"{_job(job)}/history", layer=layer, cursor=cursor, limit=limit)

    def tasks(self, job: str) -> overview.Tasks:
        """The tasks of a job and where they run."""
        return self._read(overview.Tasks, f"{_job(job)}/tasks")

    def sync(self, job: str) -> overview.SyncView:
        """How far a job is on its way from running to expected."""
        return self._read(overview.SyncView, f"{_job(job)}/sync")

    def decisions(self, job: str, *, cursor: str | None = None, limit: int = 100) -> overview.DecisionPage:
        """A page of the job's scaling decisions, newest first."""
        return self._read(overview.DecisionPage, f"{_job(job)}/decisions", cursor=cursor, limit=limit)

    def metrics(self, job: str, *, minutes: int = 60) -> overview.Series:
        """Measurements of the job's tasks."""
        return self._read(overview.Series, f"{_job(job)}/metrics", minutes=minutes)

    def fields(self) -> list[jobs.FieldView]:
        """The field table."""
        return self._read(jobs.Fields, "/v1/fields").fields

    def layers(self) -> list[jobs.LayerRowView]:
        """The layers of the cell, lowest first."""
        return self._read(jobs.Layers, "/v1/layers").layers

    def add_layer(self, layer: jobs.LayerAdd) -> jobs.LayerRowView:
        """Adds a layer; for admins."""
        return self._write("POST", "/v1/layers", jobs.LayerRowView, layer.model_dump(mode="json"))

    def shards(
        self, *, container: str | None = None, cursor: str | None = None, limit: int = 1000
    ) -> overview.ShardPage:
        """A page of shards by number."""
        return self._read(overview.ShardPage, "/v1/shards", container=container, cursor=cursor, limit=limit)

    def ask_for_shards(self, count: int) -> overview.ShardCount:
        """Asks for another number of shards; for admins. Raises Conflict unless it is a multiple or a divisor."""
        return self._write("PUT", "/v1/shards", overview.ShardCount, {"shard_count": count})

    def alerts(
        self,
        *,
        kind: str | None = None,
        subject: str | None = None,
        include_cleared: bool = False,
        cursor: str | None = None,
        limit: int = 100,
    ) -> overview.AlertPage:
        """A page of alerts, newest first."""
        filters = {"kind": kind, "subject": subject, "include_cleared": include_cleared}
        return self._read(overview.AlertPage, "/v1/alerts", cursor=cursor, limit=limit, **filters)

    def create_token(self, name: str, role: Role, layers: Sequence[str] | None = None) -> str:
        """A new token, seen only now; for admins."""
        body = jobs.TokenWrite(name=name, role=role, layers=None if layers is None else list(layers))
        created = self._write("POST", "/v1/tokens", jobs.TokenCreated, body.model_dump(mode="json"))
        return str(created.token)

    def tokens(self) -> list[jobs.TokenView]:
        """All tokens without their secrets; for admins."""
        return self._read(jobs.Tokens, "/v1/tokens").tokens

    def revoke_token(self, name: str) -> None:
        """Ends a token; for admins."""
        self._http.send("DELETE", f"/v1/tokens/{quote(name, safe='')}")


def _job(job: str) -> str:
    return f"/v1/jobs/{quote(job, safe='')}"


def _savepoint(job: str, name: str) -> str:
    return f"{_job(job)}/savepoints/{quote(name, safe='')}"


def _layer(job: str, layer: str) -> str:
    return f"{_job(job)}/layers/{quote(layer, safe='')}"


def _expiry(expires_in_seconds: Expires) -> dict[str, int | None]:
    return {} if expires_in_seconds == "default" else {"expires_in_seconds": expires_in_seconds}
