"""What is known of one job: explain, plans, history, tasks, sync, decisions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from penstock.config.classify import Config, classify
from penstock.config.merge import LayerConfig, merge
from penstock.config.problems import require_all
from penstock.config.validate import read_merged
from penstock.control.errors import InvalidConfig, NotFound
from penstock.model.jobs import Action, JobState, StoredJob, layer_configs
from penstock.store import cluster
from penstock.store.avoided import read_avoided
from penstock.store.engine import snapshot
from penstock.store.health import read_moment
from penstock.store.loads import read_loads
from penstock.tasks.analysis import AnalysisReport
from penstock.tasks.rates import Rates, stopped_seconds
from penstock.wire.causes import Causes, CauseView
from penstock.wire.jobs import AnalysisView, Explanation, HistoryPage, JobSummary, PlanRequest, PlanView
from penstock.wire.overview import DecisionPage, SyncView, Tasks
from services.job_service import access, requests, views
from services.job_service.analysed import must_be_asked
from services.job_service.analyses import Verdict
from services.job_service.causes.rank import causes_of, open_alerts
from services.job_service.explain import explain
from services.job_service.origins import origins_in
from services.job_service.path_rules import require_paths
from services.job_service.plans import plan
from services.job_service.requests import JobName, PageOf100, PartsOf, PrincipalOf, known_job
from services.job_service.store import expected, flows, history, jobs, late_producers, overview, repeats, secrets
from services.job_service.store.causes import read_facts
from services.job_service.store.layers import all_layers
from services.job_service.store.rates import read_rates
from services.job_service.watermarks import with_waiting
from services.job_service.writes import BASE, Layers, Write, merged_with, new_content, require_layer_row, unknown_job
from services.job_service.writes import expected as merged_of

router = requests.router_of("one job")
_MEASURED = timedelta(minutes=10)
_NO_CHANGE = "none"


@router.get("/v1/jobs/{job}/explain", response_model=Explanation)
def explain_job(job: JobName, parts: PartsOf) -> Explanation:
    """Every leaf of the merged configuration: value, layer, the write that set it (version, author, time, reason),
    and what it hides."""
    with snapshot(parts.engine) as connection:
        stored = known_job(connection, job)
        layers = layer_configs(stored, all_layers(connection))
        origins = {
            (layer.name, path): write
            for layer in layers
            for path, write in origins_in(layer.config, history.writes(connection, job, layer.name))
        }
    return Explanation(job=job, revision=stored.revision, leaves=explain(layers, origins))


@router.post("/v1/jobs/{job}/plans", response_model=PlanView)
@requests.needs(access.of_some_layer)
def plan_write(job: JobName, body: PlanRequest, parts: PartsOf, principal: PrincipalOf) -> PlanView:
    """What a layer write would do: change kind, fields, steps, tasks touched, what Spark finds. Writes nothing.

    The job need not exist. The token must be one that may write the layer. Default: `oncall` or the token's highest
    layer; `base` for a new job.
    """
    with snapshot(parts.engine) as connection:
        stored = expected.read(connection, [job]).get(job, unknown_job(job))
        layers = all_layers(connection)
        running = overview.running_job(connection, job)
        rates = None if running is None else _rates(connection, job, running)
        layer = body.layer or (access.highest_layer(principal, layers) if stored.exists else BASE)
        require_layer_row(layers, layer)
        access.require_layer(principal, layer)
        content = new_content(Write(Action(body.action), job, "", layer, body.config), stored, parts.clock.now())
        after = merged_with(stored, layers, layer, content)
        require_all(
            lambda: require_paths(stored, layers, after, parts.path_roots),
            lambda: secrets.check(connection, job, after.secrets),
            lambda: flows.check(connection, job, after.model_dump(mode="json")),
            lambda: late_producers.check(connection, job, after.model_dump(mode="json")),
        )
        wanted = after.model_dump(mode="json")
        notes = repeats.check(connection, stored, layers, wanted, allowed=body.allow_repeats)
    has_run = running is not None and running.started
    found = plan(
        job,
        layer,
        stored.version(layer),
        running=running.config if running is not None and has_run else None,
        before=_before(stored, layers),
        after=after,
        rescale_seconds=None if running is None else stopped_seconds(running.rescale_seconds),
        rates=rates,
        rollout_share=parts.rollout_share,
        notes=notes,
    )
    # A plan that changes nothing asks what Spark says of the job as it is.
    if not body.verify or (stored.exists and found.fields and not must_be_asked(merged_of(stored, layers), after)):
        return found
    verdict = parts.analyses.ask_for_plan(job, after)
    is_refused = verdict.report is not None and bool(verdict.report.problems)
    return found.model_copy(update={"analysis": _view_of(verdict), "allowed": found.allowed and not is_refused})


def _view_of(verdict: Verdict) -> AnalysisView:
    """What Spark found, with the logins that are refused: these are told, and refuse no write."""
    if verdict.report is None:
        return AnalysisView(verified=False, why=verdict.unverified_why, made=False, late=verdict.late)
    report = verdict.report
    return AnalysisView(
        verified=verdict.verified and not report.problems,
        why=_why_besides(report),
        problems=[problem._asdict() for problem in (*report.problems, *report.logins)],
        columns=report.columns,
        operators=[operator.model_dump(mode="json") for operator in report.operators],
    )


def _why_besides(report: AnalysisReport) -> str:
    """Why it is not verified, without the texts of the problems."""
    told = {login.detail.removeprefix(f"{login.field}: ") for login in report.logins}
    others = [each for each in report.unchecked if each not in told]
    return "; ".join(others) or ("a login is refused" if report.logins else "")


def _before(stored: StoredJob, layers: Layers) -> Config:
    """The merge of the layers. One that is no job is returned as it is, since the write may repair it."""
    merged = merged_of(stored, layers)
    try:
        return read_merged(merged)
    except InvalidConfig:
        return merged


def _rates(connection: Connection, job: str, running: overview.RunningRow) -> Rates:
    return read_rates(connection, job, task_count=running.config["task_count"], window=_MEASURED)


@router.get("/v1/jobs/{job}/history", response_model=HistoryPage)
def job_history(parts: PartsOf, page: PageOf100, job: JobName, layer: requests.OptionalText = None) -> HistoryPage:
    """Who wrote what, when and why; newest first. Deleted jobs keep their history."""
    before_id = page.after_number()
    with snapshot(parts.engine) as connection:
        found = history.page(connection, job, limit=page.limit, before_id=before_id, layer=layer)
        if not found.rows and not history.is_known(connection, job):
            raise NotFound(f"there was never a job {job}", field="job", rule="known")
    return views.history_page(found)


@router.get("/v1/jobs/{job}/tasks", response_model=Tasks)
def job_tasks(job: JobName, parts: PartsOf) -> Tasks:
    """The tasks of a job: where each should run, where it runs, which containers it avoids, and its state.

    `tasks` is in every answer 200: empty before the first commit, and when the tasks of a job that is stopped, or stops
    for a change, have gone. A refusal (404 for a job that does not exist, 503 while the store does not answer) is a
    problem without it.
    """
    with snapshot(parts.engine) as connection:
        running = overview.running_job(connection, job)
        if running is None:
            known_job(connection, job)
        reported = overview.reported_tasks(connection, job)
        loads = read_loads(connection, job)
        places = views.places(job, running, reported, cluster.read_facts(connection).sharding)
        owners = overview.owners(connection, [place.shard for place in places if place.shard is not None])
        moment = read_moment(connection)
        avoided = read_avoided(connection)
    shown = views.with_avoided(views.task_views(places, reported, owners, loads, moment), avoided)
    return Tasks(job=job, tasks=with_waiting(shown, None if running is None else running.config))


@router.get("/v1/jobs/{job}/causes", response_model=Causes)
def job_causes(job: JobName, parts: PartsOf) -> Causes:
    """Why the job is not healthy: causes with their evidence, from what the store knows, the likeliest first."""
    with snapshot(parts.engine) as connection:
        facts = read_facts(connection, known_job(connection, job))
    found = causes_of(facts)
    return Causes(
        job=job,
        health=facts.verdict.health,
        reason=facts.verdict.reason,
        causes=[CauseView.model_validate(cause) for cause in found],
        open_alerts=open_alerts(facts, found),
    )


@router.get("/v1/jobs/{job}/sync", response_model=SyncView)
def job_sync(job: JobName, parts: PartsOf) -> SyncView:
    """How far the job is from its expected configuration: plan, step, failures."""
    with snapshot(parts.engine) as connection:
        status = jobs.status(connection, job)
        sync = overview.sync(connection, job)
        running = overview.running_job(connection, job)
        noted = overview.noted_generations(connection, job)
        if status is None:
            raise NotFound(f"there is no job {job}", field="job", rule="known")
        kind, fields = (None, None) if sync is None else _change(connection, status, sync, running)
        waits = views.waits_for_room(sync)
        ahead = overview.disrupted_jobs(connection, limit=views.MOST_NAMED) if waits else None
    return views.sync_view(status, sync, running, noted, kind, fields, ahead)


@router.get("/v1/jobs/{job}/decisions", response_model=DecisionPage)
def job_decisions(job: JobName, parts: PartsOf, page: PageOf100) -> DecisionPage:
    """Scaling decisions with all their inputs, newest first."""
    before_id = page.after_number()
    with snapshot(parts.engine) as connection:
        known_job(connection, job)
        rows = overview.decisions_page(connection, job, limit=page.limit, before_id=before_id)
    return DecisionPage(decisions=list(rows), next=page.next(rows, lambda row: row.id))


def _change(
    connection: Connection, status: JobSummary, sync: overview.SyncRow, running: overview.RunningRow | None
) -> tuple[str, list[str] | None]:
    """The kind and the dotted paths of the fields of the change that is asked for: none once the job is synced. The
    paths are None when they are not known.

    A write that the State Syncer has not looked at differs from what runs. The State Syncer queues many jobs at once
    and does not compare their fields.
    """
    is_new = sync.plan is None and sync.revision < status.revision
    if sync.state == JobState.SYNCED and not is_new:
        return _NO_CHANGE, []
    if sync.changed_fields is not None and not is_new:
        return sync.change_kind, list(sync.changed_fields)
    if running is None:
        return sync.change_kind, None
    until = status.revision if is_new else sync.revision
    after = running.config if until == running.revision else _config_at(connection, status.job, until)
    if after is None:
        return sync.change_kind, None
    difference = classify(running.config, after)
    kind = difference.kind.name.lower() if is_new else sync.change_kind
    return kind, sorted(each.field for each in difference.fields)


def _config_at(connection: Connection, job: str, revision: int) -> Mapping[str, Any] | None:
    """What the layers of a job merged to at a revision, without defaults."""
    found = []
    for name, row in all_layers(connection).items():
        written = history.as_of(connection, job, name, revision)
        if written is not None and written.new is not None:
            found.append(LayerConfig(name, row.rank, 0, written.new))
    return merge(found) if found else None
