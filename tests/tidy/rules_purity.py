"""Decisions are pure: no I/O, no clock, no chance, neither in the module nor in anything that it imports.

Pure are the packages of `PURE_PACKAGES`, the modules of `PURE_MODULES`, and every module of a service but its shells:
the folder `store`, the file names of `SHELL_NAMES` and the paths of `SERVICE_SHELLS`. A service's new module is
therefore pure until it is named here, and naming it is a choice that a reviewer sees.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from tests.tidy.source import Tree, calls, code_files, imports, module_name, parse

PURE_PACKAGES = ("penstock.config", "penstock.tasks", "penstock.model")
PURE_MODULES = ("penstock.control.errors",)
SHELL_NAMES = ("__init__.py", "__main__.py", "settings.py", "loop.py", "api.py", "dispatcher.py")
SERVICE_SHELLS: frozenset[str] = frozenset(
    [
        "services/auto_scaler/replays.py",
        "services/console/assets.py",
        "services/console/browsers.py",
        "services/console/live/follower.py",
        "services/console/live/stream.py",
        "services/console/live/watches.py",
        "services/console/requests.py",
        "services/console/routes/alerts.py",
        "services/console/routes/containers.py",
        "services/console/routes/fleet.py",
        "services/console/routes/job.py",
        "services/console/routes/job_forms.py",
        "services/console/routes/live.py",
        "services/console/routes/sign_in.py",
        "services/job_service/analyses.py",
        "services/job_service/arguments.py",
        "services/job_service/audit.py",
        "services/job_service/authentication.py",
        "services/job_service/calls.py",
        "services/job_service/census.py",
        "services/job_service/expiry.py",
        "services/job_service/housekeeping.py",
        "services/job_service/metrics.py",
        "services/job_service/notify/sender.py",
        "services/job_service/probes.py",
        "services/job_service/requests.py",
        "services/job_service/events/reader.py",
        "services/job_service/events/slots.py",
        "services/job_service/events/stream.py",
        "services/job_service/routes/alerts.py",
        "services/job_service/routes/batches.py",
        "services/job_service/routes/cell.py",
        "services/job_service/routes/cluster.py",
        "services/job_service/routes/containers.py",
        "services/job_service/routes/events.py",
        "services/job_service/routes/fleet.py",
        "services/job_service/routes/insight.py",
        "services/job_service/routes/jobs.py",
        "services/job_service/routes/layers.py",
        "services/job_service/routes/lineage.py",
        "services/job_service/routes/logs.py",
        "services/job_service/routes/metrics.py",
        "services/job_service/routes/packages.py",
        "services/job_service/routes/profiles.py",
        "services/job_service/routes/replays.py",
        "services/job_service/routes/rescale.py",
        "services/job_service/routes/task_moves.py",
        "services/job_service/routes/restores.py",
        "services/job_service/routes/rollouts.py",
        "services/job_service/routes/savepoints.py",
        "services/job_service/routes/secrets.py",
        "services/job_service/routes/status.py",
        "services/job_service/routes/tokens.py",
        "services/job_service/shared.py",
        "services/job_service/task_logs.py",
        "services/job_service/writer.py",
        "services/shard_manager/health/reconciler.py",
        "services/shard_manager/leader/dispatcher.py",
        "services/shard_manager/leader/fail_over.py",
        "services/shard_manager/leader/heartbeats.py",
        "services/shard_manager/leader/housekeeping.py",
        "services/shard_manager/leader/move_planner.py",
        "services/shard_manager/leader/orders.py",
        "services/shard_manager/leader/parts.py",
        "services/shard_manager/leader/periodic.py",
        "services/shard_manager/leader/reader.py",
        "services/shard_manager/leader/recorder.py",
        "services/shard_manager/leader/view.py",
        "services/shard_manager/placement/controller.py",
        "services/shard_manager/store/health.py",
        "services/shard_manager/store/housekeeping.py",
        "services/shard_manager/store/members.py",
        "services/shard_manager/store/owners.py",
        "services/shard_manager/store/port.py",
        "services/shard_manager/store/sharding.py",
        "services/shard_manager/wiring.py",
        "services/state_syncer/round/events.py",
        "services/state_syncer/round/fold.py",
        "services/state_syncer/generations/gc.py",
        "services/state_syncer/generations/store.py",
        "services/state_syncer/health/reconciler.py",
        "services/state_syncer/host_tasks/store.py",
        "services/state_syncer/inputs/reconciler.py",
        "services/state_syncer/rollback/reconciler.py",
        "services/state_syncer/profiles/reconciler.py",
        "services/state_syncer/profiles/store.py",
        "services/state_syncer/rollback/store.py",
        "services/state_syncer/savepoints/reconciler.py",
        "services/state_syncer/savepoints/store.py",
        "services/state_syncer/store/jobs.py",
        "services/state_syncer/store/plans.py",
        "services/state_syncer/store/port.py",
        "services/state_syncer/store/recorded.py",
        "services/state_syncer/store/rollouts.py",
        "services/state_syncer/store/simple.py",
        "services/state_syncer/store/states.py",
        "services/state_syncer/wiring.py",
        "services/task_manager/container.py",
        "services/task_manager/hosts/account.py",
        "services/task_manager/loops/heartbeats.py",
        "services/task_manager/loops/specs.py",
        "services/task_manager/loops/task_manager.py",
        "services/task_manager/loops/worker.py",
        "services/task_manager/specs/files.py",
        "services/task_manager/specs/snapshot_file.py",
        "services/task_manager/hosts/host_logs.py",
        "services/task_manager/hosts/host_pool.py",
        "services/task_manager/hosts/late_host.py",
        "services/task_manager/hosts/orphans.py",
        "services/task_manager/hosts/spark_host.py",
        "services/task_manager/hosts/spark_hosts.py",
        "services/task_manager/membership/relayed_lease.py",
        "services/task_manager/report_log.py",
        "services/task_manager/membership/stored_lease.py",
        "services/task_service/alerting.py",
        "services/task_service/answers.py",
        "services/task_service/cache.py",
        "services/task_service/leases.py",
        "services/task_service/sampler.py",
        "services/task_service/store/changes.py",
        "services/task_service/store/loads.py",
        "services/task_service/store/port.py",
        "services/task_service/store/reports.py",
        "services/task_service/waiters.py",
        "services/task_service/wiring.py",
    ]
)
"""Paths of services' modules that do I/O and are not named in `SHELL_NAMES`."""

# fmt: off
IMPURE = frozenset([
    "alembic", "apscheduler", "asyncio", "confluent_kafka", "delta", "fastapi", "fcntl", "http", "httpx", "os",
    "psutil", "psycopg", "py4j", "pyspark", "random", "requests", "secrets", "shutil", "signal", "socket",
    "sqlalchemy", "starlette", "subprocess", "tempfile", "threading", "time", "urllib3", "uuid", "uvicorn",
])
# fmt: on
_CLOCKS = ("datetime.now", "datetime.utcnow", "datetime.today", "date.today", "datetime.datetime.now")


def pure_modules_do_no_io(tree: Tree) -> list[str]:
    """A pure module reaches no package of `IMPURE`, opens no file and reads no clock."""
    modules = {module_name(path): path for path, _ in code_files(tree)}
    found = []
    for name, path in modules.items():
        if _must_be_pure(name, path):
            found += [f"{path} reaches {impure} by {' > '.join(way)}" for impure, way in _reached(tree, modules, name)]
            found += [f"{path}:{line} calls {call}" for line, call in _io_calls(parse(tree[path]))]
    return found


def _must_be_pure(name: str, path: str) -> bool:
    if path.startswith("services/"):
        folders, name = path.split("/")[2:-1], path.split("/")[-1]
        return "store" not in folders and name not in SHELL_NAMES and path not in SERVICE_SHELLS
    return name in PURE_MODULES or name.startswith(tuple(f"{package}." for package in PURE_PACKAGES))


def _reached(tree: Tree, modules: dict[str, str], start: str) -> Iterator[tuple[str, list[str]]]:
    """Impure packages that importing `start` imports, each once, with the modules on the way."""
    ways: dict[str, list[str]] = {start: [start]}
    waiting, told = [start], set()
    while waiting:
        module = waiting.pop()
        for imported in _imported(tree[modules[module]]):
            if imported in modules and imported not in ways:
                ways[imported] = [*ways[module], imported]
                waiting.append(imported)
            package = imported.split(".")[0]
            if package in IMPURE and package not in told:
                told.add(package)
                yield package, ways[module]


@cache
def _imported(text: str) -> tuple[str, ...]:
    """What importing a file imports: the modules and, as Python does, the packages that they are in."""
    names = [name.split(".") for _, name in imports(_without_type_checking(parse(text)))]
    return tuple(".".join(parts[:count]) for parts in names for count in range(1, len(parts) + 1))


def _without_type_checking(module: ast.Module) -> ast.Module:
    """The module without `if TYPE_CHECKING:` blocks, which import nothing at run time."""
    body = [
        node for node in module.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    ]
    return ast.Module(body=body, type_ignores=[])


def _io_calls(module: ast.Module) -> Iterator[tuple[int, str]]:
    for call, name in calls(module):
        if name in {"open", "input", "print", *_CLOCKS} or name.endswith((".read_text", ".write_text", ".read_bytes")):
            yield call.lineno, name
