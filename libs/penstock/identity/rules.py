"""Who may call what between processes: one table. Pure.

A call without a row is refused. To add one: its row in `RULES`; `tests/contract/test_identity_rules.py` compares the
table with the routes of all services.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.control.errors import Forbidden, NotFound, Unauthenticated
from penstock.identity.roles import Caller, Role

Roles = frozenset[Role]
Call = tuple[str, str, str]
"""Service, method, path as the route has it."""

ANY_ROLE: Roles = frozenset(Role) - {Role.CONSOLE}
"""The console asks the Job Service as its users do, and no internal port."""
_CONTAINERS: Roles = frozenset([Role.TASK_MANAGER])
_SHARD_MANAGER: Roles = frozenset([Role.SHARD_MANAGER])
_STATE_SYNCER: Roles = frozenset([Role.STATE_SYNCER])
_JOB_SERVICE: Roles = frozenset([Role.JOB_SERVICE])

RULES: Mapping[Call, Roles] = {
    ("shard_manager", "POST", "/v1/heartbeats"): _CONTAINERS,
    ("task_service", "GET", "/v1/specs"): _CONTAINERS,
    ("task_service", "POST", "/v1/reports"): _CONTAINERS,
    ("task_service", "POST", "/v1/reports/changes"): _CONTAINERS,
    ("task_service", "POST", "/v1/leases"): _CONTAINERS,
    ("task_manager", "POST", "/v1/shards/drop"): _SHARD_MANAGER,
    ("task_manager", "POST", "/v1/shards/add"): _SHARD_MANAGER,
    ("task_manager", "PUT", "/v1/host-tasks/{key}"): _STATE_SYNCER,
    ("task_manager", "DELETE", "/v1/host-tasks/{key}"): _STATE_SYNCER,
    ("task_manager", "POST", "/v1/analyses"): _JOB_SERVICE,
    ("auto_scaler", "POST", "/v1/replays"): _JOB_SERVICE,
    ("task_manager", "GET", "/v1/tasks"): ANY_ROLE,
    ("task_manager", "GET", "/v1/tasks/{job}/{index}/log"): _JOB_SERVICE,
}
OPEN = frozenset([("GET", "/healthz"), ("GET", "/readyz")])
"""Of every service, and for everybody: probes of an orchestrator have no certificate. Only a caller of the cell is told
the details of `/readyz`."""
METRICS = ("GET", "/metrics")


def require_allowed(service: str, method: str, path: str, caller: Caller | None, *, open_metrics: bool) -> None:
    """Raises Unauthenticated, Forbidden, or NotFound when there is no such call.

    `open_metrics`: whether `/metrics` is for everybody who reaches the port.
    """
    if (method, path) in OPEN or ((method, path) == METRICS and open_metrics):
        return
    if caller is None:
        raise Unauthenticated(
            "calls between processes need the identity of a process of this cell", field="identity", rule="known_caller"
        )
    roles = ANY_ROLE if (method, path) == METRICS else roles_of(service, method, path)
    if roles is None:
        raise NotFound(f"there is no call {method} {path}", field="path", rule="known_call")
    if caller.role not in roles:
        allowed = " or ".join(sorted(roles))
        raise Forbidden(f"{method} {path} is for {allowed}; the caller is {caller}", field="identity", rule="role")


def roles_of(service: str, method: str, path: str) -> Roles | None:
    """Who may make a call; None when there is no row for it."""
    for (of_service, of_method, route), roles in RULES.items():
        if (of_service, of_method) == (service, method) and _matches(route, path):
            return roles
    return None


def require_container(caller: Caller, container: str) -> None:
    """A Task Manager speaks for its own container only. Raises Forbidden."""
    if caller.container != container:
        raise Forbidden(
            f"{caller} may not speak for the container {container}", field="container", rule="own_container"
        )


def _matches(route: str, path: str) -> bool:
    parts, given = route.split("/"), path.split("/")
    return len(parts) == len(given) and all(
        part == segment or (part.startswith("{") and segment != "") for part, segment in zip(parts, given, strict=True)
    )
