"""The client of the Job Service, for the CLI, the Auto Scaler, the State Syncer, the provisioner and tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Unpack

from penstock.wire import jobs, overview, replays
from penstock.wire.balance import BalanceView, Rebalanced
from penstock.wire.causes import Causes
from penstock.wire.cell_client import CellClient
from penstock.wire.event_client import EventClient
from penstock.wire.job_lists import JobLists
from penstock.wire.lineage import DEFAULT_DEPTH, Lineage
from penstock.wire.moves import TaskMove
from penstock.wire.profiles import DEFAULT_SECONDS, ProfilePage, ProfileView
from penstock.wire.rollout_client import RolloutCalls
from penstock.wire.savepoints import SavepointPage, SavepointView
from penstock.wire.service_client import Noted, Paging, span
from penstock.wire.service_client import job_path as _job
from penstock.wire.task_logs import DEFAULT_PART_BYTES, TaskLog

_PLAN_SECONDS = 40.0
_REPLAY_SECONDS = replays.REPLAY_SECONDS + 15.0


class Expiring(Noted, total=False):
    """`expires_in_seconds`: until the layer is dropped; None: never; `default` or absent: as the layer's row has it.
    `whole_layer`: of a patch that may also end other fields of the layer earlier, or let them stay."""

    expires_in_seconds: int | Literal["default"] | None
    whole_layer: bool


class JobClient(CellClient, RolloutCalls, JobLists, EventClient):
    """All calls of the Job Service. Methods raise the errors of `penstock.control.errors`.

    `if_match` is the version of the layer that was read, 0 when it was never written: VersionConflict carries the
    current one. Use as a context manager, or call `close`.
    """

    def put_job(
        self,
        job: str,
        config: Mapping[str, Any],
        *,
        if_match: int | None = None,
        create_only: bool = False,
        verify: bool = True,
        allow_repeats: bool = False,
        **noted: Unpack[Noted],
    ) -> jobs.Written:
        """Creates a job, or replaces its base layer. Without `verify` Spark is not asked what is wrong with it. With
        `allow_repeats` it may write rows again that an earlier job has written, though other jobs read them."""
        headers = {"If-None-Match": "*"} if create_only else {}
        body = {"config": config, **noted}
        given = _chosen(verify=verify, allow_repeats=allow_repeats)
        return self._write("PUT", _job(job), jobs.Written, body, if_match=if_match, headers=headers, **given)

    def get_job(self, job: str) -> jobs.JobView:
        """A job with its merged configuration."""
        return self._read(jobs.JobView, _job(job))

    def delete_job(self, job: str, *, if_match: int | None = None, **noted: Unpack[Noted]) -> jobs.Written:
        """Stops the job's tasks, then forgets it. `if_match`: only while its base layer has this version."""
        return self._write("DELETE", _job(job), jobs.Written, noted, if_match=if_match)

    def restart(self, job: str, **noted: Unpack[Noted]) -> jobs.Written:
        """Restarts all tasks of the job."""
        return self._write("POST", _job(job, "restart"), jobs.Written, noted)

    def release(self, job: str, **noted: Unpack[Noted]) -> jobs.Written:
        """Lets a quarantined or failed job be tried again."""
        return self._write("POST", _job(job, "release"), jobs.Written, noted)

    def rescale(
        self,
        job: str,
        task_count: int,
        *,
        balance: bool = False,
        within_seconds: float | None = None,
        **given: Unpack[Expiring],
    ) -> jobs.Written:
        """Asks for another number of tasks, in the highest layer that the token may write; by default it stays.

        With `balance` their ranges follow the measured traffic; raises Conflict when too little of it is known.
        `within_seconds`: how long tasks may take to finish their batches and to catch up. If they need longer, or are
        expected to, nothing is stopped and the job runs on.
        Raises Conflict when the layer already expires and `expires_in_seconds` is not given.
        """
        limit = {} if within_seconds is None else {"within_seconds": within_seconds}
        body = {"task_count": task_count, "balance": balance, **limit, **given}
        return self._write("POST", _job(job, "rescale"), jobs.Written, body)

    def balance(self, job: str, *, min_measured_seconds: int = 60) -> BalanceView:
        """The job's traffic by key group, and the ranges that would share it evenly; writes nothing."""
        return self._read(BalanceView, _job(job, "rebalance"), min_measured_seconds=min_measured_seconds)

    def rebalance(
        self, job: str, *, min_gain: float = 0.1, min_measured_seconds: int = 60, **given: Unpack[Expiring]
    ) -> Rebalanced:
        """Asks for ranges of key groups that share the measured traffic evenly, as `rescale` asks for tasks.

        Raises Conflict when too little is measured or gained, and as `rescale` does.
        """
        body = {"min_gain": min_gain, "min_measured_seconds": min_measured_seconds, **given}
        return self._write("POST", _job(job, "rebalance"), Rebalanced, body)

    def move_task(
        self, job: str, index: int, *, container: str | None = None, for_seconds: int = 3600, **noted: Unpack[Noted]
    ) -> TaskMove:
        """The task's shard leaves its container, and stays away for so long; 0: no longer. Raises Conflict when it
        is not on the `container` given, and when no other one is open."""
        body = {"container": container, "for_seconds": for_seconds, **noted}
        return self._write("POST", _job(job, "tasks", str(index), "move"), TaskMove, body)

    def create_profile(self, job: str, seconds: int = DEFAULT_SECONDS, **noted: Unpack[Noted]) -> ProfileView:
        """Asks for a profile; its `state` shows later when it is done. Raises Conflict while one is under way."""
        return self._write("POST", _job(job, "profiles"), ProfileView, {"seconds": seconds, **noted})

    def profiles(self, job: str, **page: Unpack[Paging]) -> ProfilePage:
        """The newest profiles of a job, newest first."""
        return self._read(ProfilePage, _job(job, "profiles"), **page)

    def profile(self, job: str, number: int) -> ProfileView:
        """One profile."""
        return self._read(ProfileView, _job(job, "profiles", str(number)))

    def create_savepoint(
        self, job: str, name: str | None = None, *, checkpoint: str | None = None, **noted: Unpack[Noted]
    ) -> SavepointView:
        """Asks for a savepoint of the job, or of the checkpoint of another application; its `state` shows later when it
        is ready."""
        body = {"name": name, **({} if checkpoint is None else {"checkpoint": checkpoint}), **noted}
        return self._write("POST", _job(job, "savepoints"), SavepointView, body)

    def savepoints(self, job: str, **page: Unpack[Paging]) -> SavepointPage:
        """A page of a job's savepoints, newest first."""
        return self._read(SavepointPage, _job(job, "savepoints"), **page)

    def savepoint(self, job: str, name: str) -> SavepointView:
        """One savepoint."""
        return self._read(SavepointView, _job(job, "savepoints", name))

    def delete_savepoint(self, job: str, name: str) -> SavepointView:
        """Its files go, then itself."""
        return self._write("DELETE", _job(job, "savepoints", name), SavepointView, {})

    def restore(
        self,
        job: str,
        savepoint: str,
        *,
        of: str | None = None,
        task_count: int | None = None,
        with_package: bool = False,
        allow_repeats: bool = False,
        **noted: Unpack[Noted],
    ) -> jobs.Written:
        """Rolls a job back to a savepoint, or starts it from one of the job `of`; with the package of then if asked."""
        chosen = {"savepoint": savepoint, "of": of, "task_count": task_count, "with_package": with_package}
        # A service of the release before refuses the word.
        chosen |= {"allow_repeats": True} if allow_repeats else {}
        return self._write("POST", _job(job, "restore"), jobs.Written, {**chosen, **noted})

    def cancel_restore(self, job: str, **noted: Unpack[Noted]) -> jobs.Written:
        """Takes a restore back that was not committed yet: the job continues as it ran."""
        return self._write("DELETE", _job(job, "restore"), jobs.Written, noted)

    def get_layer(self, job: str, layer: str, *, revision: int | None = None) -> jobs.LayerView:
        """A layer with its version; as it was at `revision` when that is given."""
        return self._read(jobs.LayerView, _job(job, "layers", layer), revision=revision)

    def put_layer(
        self,
        job: str,
        layer: str,
        config: Mapping[str, Any],
        *,
        if_match: int,
        verify: bool = True,
        allow_repeats: bool = False,
        **given: Unpack[Expiring],
    ) -> jobs.Written:
        """Replaces a layer."""
        body = {"config": config, **given}
        where = _job(job, "layers", layer)
        chosen = _chosen(verify=verify, allow_repeats=allow_repeats)
        return self._write("PUT", where, jobs.Written, body, if_match=if_match, **chosen)

    def patch_layer(
        self,
        job: str,
        layer: str,
        patch: Mapping[str, Any],
        *,
        if_match: int,
        verify: bool = True,
        allow_repeats: bool = False,
        **given: Unpack[Expiring],
    ) -> jobs.Written:
        """Changes a layer by a merge patch: None drops a key."""
        body = {"config": patch, **given}
        where = _job(job, "layers", layer)
        chosen = _chosen(verify=verify, allow_repeats=allow_repeats)
        return self._write("PATCH", where, jobs.Written, body, if_match=if_match, **chosen)

    def drop_layer(
        self, job: str, layer: str, *, if_match: int, allow_repeats: bool = False, **noted: Unpack[Noted]
    ) -> jobs.Written:
        """Drops a layer, which brings the values below it back."""
        query = {**noted, **({"allow_repeats": "true"} if allow_repeats else {})}
        return self._write("DELETE", _job(job, "layers", layer), jobs.Written, query, if_match=if_match)

    def revert_layer(
        self,
        job: str,
        layer: str,
        version: int,
        *,
        if_match: int,
        allow_repeats: bool = False,
        **given: Unpack[Expiring],
    ) -> jobs.Written:
        """Makes a layer again what it was at `version`. Without `expires_in_seconds` it also ends as then; if that has
        passed, it lasts as long as then, from now on."""
        body, chosen = {"version": version, **given}, _chosen(allow_repeats=allow_repeats)
        where = _job(job, "layers", layer, "revert")
        return self._write("POST", where, jobs.Written, body, if_match=if_match, **chosen)

    def batch(self, writes: Sequence[jobs.BatchWrite], *, idempotency_key: str | None = None) -> list[jobs.BatchResult]:
        """Many writes at once, at most `jobs.LARGEST_BATCH`; each has its own result."""
        body = jobs.Batch(writes=list(writes)).model_dump(mode="json", exclude_unset=True)
        body["idempotency_key"] = idempotency_key
        return self._write("POST", "/v1/batches", jobs.BatchResults, body).results

    def explain(self, job: str) -> jobs.Explanation:
        """Where each leaf of the configuration comes from."""
        return self._read(jobs.Explanation, _job(job, "explain"))

    def plan(
        self,
        job: str,
        config: Mapping[str, Any],
        *,
        layer: str | None = None,
        action: Literal["put", "patch", "drop"] = "patch",
        verify: bool = True,
        allow_repeats: bool = False,
    ) -> jobs.PlanView:
        """What a layer write would do; writes nothing. The layer is `oncall`, and `base` of a job that does not exist.

        Spark is asked what is wrong with the job, which may take half a minute, unless `verify` is false.
        """
        body: dict[str, Any] = {"config": config, "action": action, "verify": verify, "layer": layer}
        body |= {"allow_repeats": True} if allow_repeats else {}
        return self._write("POST", _job(job, "plans"), jobs.PlanView, body, timeout=_PLAN_SECONDS)

    def history(self, job: str, *, layer: str | None = None, **page: Unpack[Paging]) -> jobs.HistoryPage:
        """A page of the job's history, newest first."""
        return self._read(jobs.HistoryPage, _job(job, "history"), layer=layer, **page)

    def layer_history(self, job: str, layer: str) -> Iterator[jobs.HistoryEntry]:
        """All writes of a layer, newest first, read page by page."""
        for page in self._pages(jobs.HistoryPage, _job(job, "history"), layer=layer):
            yield from page.entries

    def tasks(self, job: str) -> overview.Tasks:
        """The tasks of a job and where they run."""
        return self._read(overview.Tasks, _job(job, "tasks"))

    def task_log(
        self,
        job: str,
        index: int,
        *,
        host: str | None = None,
        offset: int | None = None,
        limit_bytes: int = DEFAULT_PART_BYTES,
    ) -> TaskLog:
        """A part of the log of a task's host: the newest, or from `offset` of `host` on. Needs the role `oncall`."""
        where = _job(job, "tasks", str(index), "log")
        return self._read(TaskLog, where, host=host, offset=offset, limit_bytes=limit_bytes)

    def causes(self, job: str) -> Causes:
        """Why a job is not healthy, the likeliest cause first."""
        return self._read(Causes, _job(job, "causes"))

    def lineage(self, job: str, *, depth: int = DEFAULT_DEPTH) -> Lineage:
        """The jobs and topics around a job, up to so many jobs away, at most `MOST_DEPTH`."""
        return self._read(Lineage, _job(job, "lineage"), depth=depth)

    def sync(self, job: str) -> overview.SyncView:
        """How far a job is on its way from running to expected."""
        return self._read(overview.SyncView, _job(job, "sync"))

    def decisions(self, job: str, **page: Unpack[Paging]) -> overview.DecisionPage:
        """A page of the job's scaling decisions, newest first."""
        return self._read(overview.DecisionPage, _job(job, "decisions"), **page)

    def replay(
        self, job: str, policy: Mapping[str, Any], *, since: datetime | None = None, until: datetime | None = None
    ) -> replays.ReplayView:
        """What another scaling policy would have done to the job, by default in the last day. May take a minute."""
        times = {name: moment.isoformat() for name, moment in (("since", since), ("until", until)) if moment}
        body = {"policy": policy, **times}
        return self._write("POST", _job(job, "replays"), replays.ReplayView, body, timeout=_REPLAY_SECONDS)

    def metrics(
        self,
        job: str,
        *,
        metric: Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        step_seconds: int | None = None,
    ) -> overview.JobSeries:
        """What the job measured, all metrics or those named, by default in the last hour."""
        asked = {**span(since, until), "metric": list(metric), "step_seconds": step_seconds}
        return self._read(overview.JobSeries, _job(job, "metrics"), **asked)

    def task_metrics(self, job: str, *, minutes: int = 60) -> overview.TaskSamples:
        """Measurements of each of the job's tasks."""
        return self._read(overview.TaskSamples, _job(job, "tasks", "metrics"), minutes=minutes)


def _chosen(*, verify: bool = True, allow_repeats: bool = False) -> dict[str, Any]:
    """Parameters of a write that are not as usual: a service of an earlier release may not know them."""
    params = {**({} if verify else {"verify": "false"}), **({"allow_repeats": "true"} if allow_repeats else {})}
    return {"params": params} if params else {}
