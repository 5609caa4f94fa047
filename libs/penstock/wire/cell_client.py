"""The client of the Job Service for what is of the cell: layers, shards, alerts, containers, tokens, its history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal, Unpack

from penstock.model.cell import CellAction
from penstock.model.jobs import Role
from penstock.model.states import JobSort
from penstock.wire import jobs, overview
from penstock.wire.alerts import SilencePage, SilenceView, SilenceWrite
from penstock.wire.cell_history import CellHistoryPage
from penstock.wire.containers import DEFAULT_DRAIN_SECONDS, ContainerPage, ContainerView
from penstock.wire.fleet import CallerView, FleetView, SortedJobs
from penstock.wire.job_views import JobFilters
from penstock.wire.layers import LayerAdd, LayerChange, LayerRowView, Layers
from penstock.wire.secrets import Secrets, SecretView, SecretWrite
from penstock.wire.service_client import Noted, Paging, ServiceClient, path, span
from penstock.wire.status import StatusView
from penstock.wire.tokens import DEFAULT_OVERLAP_SECONDS, TokenCreated, Tokens, TokenView, TokenWrite

# The store looks at all jobs, and then waits for writes that are under way.
_DELETE_PACKAGE_SECONDS = 60.0


class CellClient(ServiceClient):
    """The calls about the cell. Methods raise the errors of `penstock.control.errors`."""

    def fields(self) -> list[jobs.FieldView]:
        """The field table."""
        return self._read(jobs.Fields, "/v1/fields").fields

    def layers(self) -> list[LayerRowView]:
        """The layers of the cell, lowest first."""
        return self._read(Layers, "/v1/layers").layers

    def add_layer(self, layer: LayerAdd) -> LayerRowView:
        """Adds a layer; for admins."""
        return self._write("POST", "/v1/layers", LayerRowView, layer.model_dump(mode="json"))

    def change_layer(self, name: str, change: LayerChange) -> LayerRowView:
        """Changes rank, default expiry and documentation of a layer; for admins. Raises Conflict."""
        return self._write("PUT", path("layers", name), LayerRowView, change.model_dump(mode="json"))

    def remove_layer(self, name: str, *, reason: str = "") -> None:
        """Removes a layer that no job uses; for admins. Raises Conflict."""
        self.send("DELETE", path("layers", name), params={"reason": reason})

    def shards(self, *, container: str | None = None, **page: Unpack[Paging]) -> overview.ShardPage:
        """A page of shards by number."""
        return self._read(overview.ShardPage, "/v1/shards", container=container, **page)

    def ask_for_shards(self, count: int, **noted: Unpack[Noted]) -> overview.ShardCount:
        """Asks for another number of shards; for admins. Raises Conflict unless it is a multiple or a divisor."""
        return self._write("PUT", "/v1/shards", overview.ShardCount, {"shard_count": count, **noted})

    def put_secret(self, name: str, jobs: Sequence[str], *, reason: str = "") -> None:
        """Says which jobs may use a secret, by name or beginning (`team-a.*`); for admins."""
        self.send(
            "PUT", path("secrets", name), json=SecretWrite(jobs=list(jobs), reason=reason).model_dump(mode="json")
        )

    def secrets(self) -> list[SecretView]:
        """All secrets without their values; for admins."""
        return self._read(Secrets, "/v1/secrets").secrets

    def delete_secret(self, name: str, *, reason: str = "") -> None:
        """From now on no job may use it; for admins. Raises Conflict while one does."""
        self.send("DELETE", path("secrets", name), params={"reason": reason})

    def caller(self) -> CallerView:
        """Who this client's token belongs to."""
        return self._read(CallerView, "/v1/caller")

    def caller_at_once(self, timeout_seconds: float) -> CallerView:
        """The same, asked once: for somebody who waits. Raises Unavailable after this time."""
        return CallerView.model_validate_json(self.send("GET", "/v1/caller", timeout=timeout_seconds).content)

    def fleet(self) -> FleetView:
        """How many jobs have each health and each state."""
        return self._read(FleetView, "/v1/fleet")

    def sorted_jobs(
        self,
        sort: JobSort,
        *,
        reverse: bool = False,
        least_lag_seconds: float | None = None,
        cursor: str | None = None,
        limit: int = 100,
        **filters: Unpack[JobFilters],
    ) -> SortedJobs:
        """A page of all jobs in an order, which is that of the newest count of them."""
        asked = {"sort": sort, "reverse": reverse, "least_lag_seconds": least_lag_seconds}
        return self._read(SortedJobs, "/v1/fleet/jobs", **asked, cursor=cursor, limit=limit, **filters)

    def fleet_metrics(
        self, *, since: datetime | None = None, until: datetime | None = None, step_seconds: int | None = None
    ) -> overview.Series:
        """How many jobs had each health and how many tasks ran, by default in the last hour."""
        return self._read(overview.Series, "/v1/fleet/metrics", **span(since, until), step_seconds=step_seconds)

    def changes(self, **page: Unpack[Paging]) -> jobs.HistoryPage:
        """A page of the writes to all jobs, newest first."""
        return self._read(jobs.HistoryPage, "/v1/changes", **page)

    def status(self) -> StatusView:
        """The parts of the cell, and which of them is not well."""
        return self._read(StatusView, "/v1/status")

    def leaders(self) -> list[overview.LeaderView]:
        """The leader of each loop, and the last one of a loop without a leader."""
        return self._read(overview.Leaders, "/v1/leaders").leaders

    def cell_history(
        self, *, action: CellAction | None = None, subject: str | None = None, **page: Unpack[Paging]
    ) -> CellHistoryPage:
        """A page of the cell's history, newest first."""
        return self._read(CellHistoryPage, "/v1/history", action=action, subject=subject, **page)

    def alerts(
        self,
        *,
        kind: str | None = None,
        subject: str | None = None,
        include_cleared: bool = False,
        include_silenced: bool = False,
        **page: Unpack[Paging],
    ) -> overview.AlertPage:
        """A page of alerts, newest first; open ones that no silence leaves out, unless asked otherwise."""
        shown = {"include_cleared": include_cleared, "include_silenced": include_silenced}
        return self._read(overview.AlertPage, "/v1/alerts", kind=kind, subject=subject, **shown, **page)

    def acknowledge(
        self, alert: int, *, expires_in_seconds: int | None = None, **noted: Unpack[Noted]
    ) -> overview.AlertView:
        """Says that somebody works on an open alert, until it closes or for this time. May be repeated."""
        body = {"expires_in_seconds": expires_in_seconds, **noted}
        return self._write("POST", path("alerts", str(alert), "acknowledgement"), overview.AlertView, body)

    def end_acknowledgement(self, alert: int, **noted: Unpack[Noted]) -> overview.AlertView:
        """Nobody works on the alert any more. May be repeated."""
        return self._write("DELETE", path("alerts", str(alert), "acknowledgement"), overview.AlertView, noted)

    def silences(self, *, include_ended: bool = False, **page: Unpack[Paging]) -> SilencePage:
        """A page of silences, newest first."""
        return self._read(SilencePage, "/v1/silences", include_ended=include_ended, **page)

    def silence(self, silence: SilenceWrite, *, idempotency_key: str | None = None) -> SilenceView:
        """Leaves alerts out of lists for a while."""
        body = {**silence.model_dump(mode="json"), "idempotency_key": idempotency_key}
        return self._write("POST", "/v1/silences", SilenceView, body)

    def end_silence(self, silence: int, **noted: Unpack[Noted]) -> SilenceView:
        """Ends a silence. May be repeated."""
        return self._write("DELETE", path("silences", str(silence)), SilenceView, noted)

    def containers(self, **page: Unpack[Paging]) -> ContainerPage:
        """A page of containers by name."""
        return self._read(ContainerPage, "/v1/containers", **page)

    def all_containers(self) -> Iterator[ContainerView]:
        """All containers by name, read page by page."""
        for page in self._pages(ContainerPage, "/v1/containers"):
            yield from page.containers

    def container(self, name: str) -> ContainerView:
        """One container."""
        return self._read(ContainerView, path("containers", name))

    def container_tasks(self, name: str, **page: Unpack[Paging]) -> overview.ContainerTasks:
        """A page of the tasks that a container reports, by job and index."""
        return self._read(overview.ContainerTasks, path("containers", name, "tasks"), **page)

    def all_container_tasks(self, name: str) -> Iterator[overview.ContainerTaskView]:
        """All tasks that a container reports, by job and index, read page by page."""
        for page in self._pages(overview.ContainerTasks, path("containers", name, "tasks")):
            yield from page.tasks

    def cordon(self, name: str, **noted: Unpack[Noted]) -> ContainerView:
        """The container keeps its shards and gets no new ones. Ends a drain. May be repeated."""
        return self._write("POST", path("containers", name, "cordon"), ContainerView, noted)

    def drain(
        self, name: str, *, limit_seconds: int | None = DEFAULT_DRAIN_SECONDS, **noted: Unpack[Noted]
    ) -> ContainerView:
        """Moves the container's shards to others. What remains after `limit_seconds` leaves at once; None: never."""
        body = {"limit_seconds": limit_seconds, **noted}
        return self._write("POST", path("containers", name, "drain"), ContainerView, body)

    def uncordon(self, name: str, **noted: Unpack[Noted]) -> ContainerView:
        """Lets a container take shards again. May be repeated."""
        return self._write("POST", path("containers", name, "uncordon"), ContainerView, noted)

    def forget_container(self, name: str, *, reason: str = "") -> None:
        """Forgets a lost container, or one that owns no shard and has been silent. Raises Conflict."""
        self.send("DELETE", path("containers", name), params={"reason": reason})

    def delete_package(self, name: str, version: str) -> None:
        """Records that no job uses this version, so that its file may be deleted. Raises Conflict with the jobs."""
        self.send("DELETE", path("packages", name, version), timeout=_DELETE_PACKAGE_SECONDS)

    def create_token(
        self,
        name: str,
        role: Role,
        layers: Sequence[str] | None = None,
        *,
        expires_in_seconds: int | None = None,
        reason: str = "",
    ) -> str:
        """A new token, seen only now; for admins."""
        given = None if layers is None else list(layers)
        body = TokenWrite(name=name, role=role, layers=given, expires_in_seconds=expires_in_seconds, reason=reason)
        return str(self._write("POST", "/v1/tokens", TokenCreated, body.model_dump(mode="json")).token)

    def rotate_token(
        self,
        name: str,
        *,
        overlap_seconds: int = DEFAULT_OVERLAP_SECONDS,
        expires_in_seconds: int | Literal["default"] | None = "default",
        **noted: Unpack[Noted],
    ) -> TokenCreated:
        """A new secret of a token; the one before stays good for the overlap. By default the expiry stays."""
        body = {"overlap_seconds": overlap_seconds, "expires_in_seconds": expires_in_seconds, **noted}
        return self._write("POST", path("tokens", name, "rotate"), TokenCreated, body)

    def tokens(self) -> list[TokenView]:
        """All tokens without their secrets; for admins."""
        return self._read(Tokens, "/v1/tokens").tokens

    def revoke_token(self, name: str, *, reason: str = "") -> None:
        """Ends a token; for admins. Raises Conflict for the last admin token that can be used."""
        self.send("DELETE", path("tokens", name), params={"reason": reason})
