"""The table of who may call what, and the names of callers."""

from __future__ import annotations

import pytest

from penstock.control.errors import Forbidden, NotFound, Unauthenticated
from penstock.identity.roles import Caller, Role, caller_in, caller_of, uri_of
from penstock.identity.rules import RULES, require_allowed, require_container

CONTAINER = Caller(Role.TASK_MANAGER, "c1")
CALLERS = [CONTAINER, *(Caller(role) for role in Role if role is not Role.TASK_MANAGER)]


@pytest.mark.parametrize("call", RULES, ids=" ".join)
def test_each_call_is_open_to_its_roles_only(call: tuple[str, str, str]) -> None:
    service, method, route = call
    path = route.replace("{key}", "seal:a:1")
    for caller in CALLERS:
        if caller.role in RULES[call]:
            require_allowed(service, method, path, caller, open_metrics=False)
        else:
            with pytest.raises(Forbidden):
                require_allowed(service, method, path, caller, open_metrics=False)
    with pytest.raises(Unauthenticated):
        require_allowed(service, method, path, None, open_metrics=True)


@pytest.mark.parametrize("service", ["task_manager", "task_service", "shard_manager", "state_syncer", "auto_scaler"])
def test_probes_are_for_everybody_and_metrics_where_the_cell_says_so(service: str) -> None:
    require_allowed(service, "GET", "/healthz", None, open_metrics=False)
    require_allowed(service, "GET", "/readyz", None, open_metrics=False)
    require_allowed(service, "GET", "/metrics", None, open_metrics=True)
    require_allowed(service, "GET", "/metrics", Caller(Role.OBSERVER), open_metrics=False)
    with pytest.raises(Unauthenticated):
        require_allowed(service, "GET", "/metrics", None, open_metrics=False)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/host-tasks/x"),
        ("PUT", "/v1/host-tasks/"),
        ("PUT", "/v1/host-tasks/a/b"),
        ("PUT", "/v1/host-tasks/../host-tasks/a"),
        ("GET", "/v1/tasks/"),
        ("GET", "//v1/tasks"),
        ("POST", "/v1/healthz"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
    ],
)
def test_a_call_without_a_row_is_refused(method: str, path: str) -> None:
    for caller in CALLERS:
        with pytest.raises(NotFound):
            require_allowed("task_manager", method, path, caller, open_metrics=True)
    with pytest.raises(Unauthenticated):
        require_allowed("task_manager", method, path, None, open_metrics=True)


def test_a_container_speaks_for_itself_only() -> None:
    require_container(CONTAINER, "c1")
    for caller, container in ((CONTAINER, "c2"), (CONTAINER, ""), (Caller(Role.SHARD_MANAGER), "c1")):
        with pytest.raises(Forbidden) as refused:
            require_container(caller, container)
        assert refused.value.field == "container"


@pytest.mark.parametrize("caller", CALLERS, ids=str)
def test_a_caller_is_read_as_it_was_written(caller: Caller) -> None:
    assert caller_of(str(caller)) == caller
    assert caller_in(["https://elsewhere", uri_of("north", caller)], "north") == caller


@pytest.mark.parametrize(
    "text", ["", "admin", "task_manager", "task_manager/", "task_manager/../x", "task_manager/C1", "shard_manager/c1"]
)
def test_what_names_no_caller(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        caller_of(text)


@pytest.mark.parametrize(
    "uris",
    [
        [],
        ["penstock://south/shard_manager"],
        ["penstock://north/admin"],
        ["penstock://north/shard_manager", "penstock://north/state_syncer"],
        ["penstock://northern/shard_manager"],
    ],
    ids=str,
)
def test_a_certificate_that_names_no_process_of_the_cell(uris: list[str]) -> None:
    assert caller_in(uris, "north") is None
