"""The messages between Task Managers, the Shard Manager and the Task Service, over HTTP.

Shard Manager (7073): POST /v1/heartbeats (HeartbeatRequest -> HeartbeatAnswer; 503 from a standby, with the leader's
                      URL as `leader` in the problem, if it is known)
Task Service  (7072): GET  /v1/specs?after=N&store=I&wait_seconds=S&full=B (Snapshot; `after` absent: full; ETag, gzip;
                      the header `Penstock-Knows: level_ms, digests` from a Task Manager that knows these fields)
                      POST /v1/reports?number=N (TaskReportBatch -> 204; the header `Penstock-Report-Number` repeats N
                      when changes may follow), POST /v1/reports/changes (TaskReportChanges -> ChangesAnswer),
                      POST /v1/leases (LeaseRequest -> LeaseAnswer) while no Shard Manager answers
Task Manager (7100+): POST /v1/shards/drop, /v1/shards/add (ShardOrders -> ShardAnswers), GET /v1/tasks
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, SerializerFunctionWrapHandler, model_serializer

from penstock.config.declare import Carried, Counted, Identifier, Incarnation, Model, Name
from penstock.control.errors import LeaseLost
from penstock.tasks.ownership import OwnedShards
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import TaskTemplate

KNOWS_HEADER = "Penstock-Knows"
KNOWS_LEVELS = "level_ms"
KNOWS_DIGESTS = "digests"
"""A Task Manager of the release before refuses a snapshot with a field that it does not know, so it gets none."""

REPORT_NUMBER_HEADER = "Penstock-Report-Number"
"""A Task Service of the release before does not send it, and takes full reports only."""


DIGESTS = 1 << 128
"""Digests are numbers below this."""


def _digest_of(value: int | str) -> int:
    return value if isinstance(value, int) else int(value, 16)


Digest = Annotated[int, BeforeValidator(_digest_of), PlainSerializer(lambda value: f"{value:032x}", return_type=str)]
"""A number below 2^128; in JSON its 32 hexadecimal digits, since readers of JSON take large numbers for floats."""


_MOST_AMOUNT = 2**60
_GREATEST_INTEGER = 2**31 - 1
Amount = Annotated[float, Field(ge=0, le=_MOST_AMOUNT)]
ShardNumber = Annotated[int, Field(ge=0, le=_GREATEST_INTEGER)]
Address = Annotated[str, Field(max_length=500, pattern=r"^https?://[A-Za-z0-9._\-:\[\]]+(/[!-~]*)?$")]
"""The URL at which a container is called: no account, nothing but printable ASCII."""
LabelValue = Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")]
Labels = Annotated[dict[Name, LabelValue], Field(max_length=100)]


class Capacity(Carried):
    """What a container offers. `further`: amounts of other dimensions by name (`penstock.tasks.dimensions`)."""

    cpu_cores: float = Field(gt=0, le=_MOST_AMOUNT)
    memory_bytes: int = Field(gt=0, le=_MOST_AMOUNT)
    disk_bytes: int = Field(ge=0, le=_MOST_AMOUNT)
    further: dict[Identifier, Amount] = Field(default_factory=dict, max_length=100)


class Identity(Carried):
    """What does not change while a container's process runs."""

    container: Name
    url: Address
    region: Name
    capacity: Capacity
    labels: Labels = Field(default_factory=dict)


class HeartbeatRequest(Identity):
    """One heartbeat of a container.

    `incarnation` names one run of the Task Manager process. `held` maps each shard that the container runs to the
    assignment epoch under which it owns the shard. `dropped` maps each shard that it gave up to the epoch of the DROP
    that it obeyed; for a shard that an answer no longer listed, to the epoch under which it owned the shard.
    An incarnation that was never answered has an empty `held` and `dropped`; only such a one may replace a former one.
    `shard_count`: the number of shards that the shard numbers refer to; 0 before the first answer. `start_seconds`: the
    median duration of its latest task starts; None when there were too few. `refuses`: the services whose leader the
    container refuses, because it has heard of one with a newer epoch.
    """

    incarnation: Incarnation
    held: dict[ShardNumber, Counted]
    dropped: dict[ShardNumber, Counted] = Field(default_factory=dict)
    shard_count: ShardNumber = 0
    start_seconds: Amount | None = None
    refuses: Annotated[tuple[Name, ...], Field(max_length=100)] = ()

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A Shard Manager of the release before refuses a field that it does not know."""
        fields: dict[str, Any] = handler(self)
        return {name: each for name, each in fields.items() if name != "refuses" or self.refuses}


class HeartbeatAnswer(Carried):
    """The answer to a heartbeat. `shards`: the shards that the container owns, each with its assignment epoch.

    `version` is the highest assignment epoch that the Shard Manager knew when it answered: a container ignores any
    answer or order older than the newest it has seen. `lease_seconds` counts from the moment the request was sent.
    `known` is False when this incarnation was declared lost or was replaced. The container must then stop everything
    and join again, empty, as another incarnation.
    `commit_number` is a commit of the running table, no older than the newest one when the container joined. Stops up
    to that commit did not wait for this container. So a container that has just joined must not start a task from
    older specs.
    `unasked_stop` is the newest commit of a stop that was taken as done although not every container had reported. It
    is no older than these shards. A container must not start a task of a shard that is new to it from older specs.
    `shard_count` and `selectors` say which task belongs to which shard (`sharding`). A change of either has a new
    `version`.
    """

    known: bool
    version: int
    shard_count: int
    lease_seconds: float
    shards: dict[int, int]
    commit_number: int = 0
    selectors: tuple[str, ...] = ()
    unasked_stop: int = 0

    @property
    def sharding(self) -> Sharding:
        """How tasks are shared out to the shards."""
        return Sharding(self.shard_count, self.selectors)

    @property
    def owned(self) -> OwnedShards:
        """The full map that it carries."""
        return OwnedShards(self.shards, self.version, self.sharding, self.commit_number, self.unasked_stop)


class ShardOrders(Carried):
    """DROP_SHARD or ADD_SHARD of many shards in one call; `shards` maps shard to assignment epoch.

    DROP: the epoch under which the container owns the shard now. The container stops the shard's tasks, lists the shard
    under `dropped` in its heartbeats, and takes the shard again only under a higher epoch. It kills tasks that still
    run `deadline_seconds` after the order came. A shard that it does not own counts as dropped.
    ADD: the epoch under which the container owns the shard from now on. `unasked_stop`: as in `HeartbeatAnswer`.
    The container refuses an order with 409 if the order is for another incarnation, has a `leader_epoch` below the
    highest it has seen, or another `shard_count` than it was told last: shard numbers then have another meaning.
    """

    container: Name
    incarnation: Incarnation
    shards: dict[ShardNumber, Counted]
    version: Counted
    leader_epoch: Counted
    shard_count: ShardNumber
    deadline_seconds: float = Field(10.0, gt=0, le=3600)
    unasked_stop: Counted = 0


class ShardAnswers(Carried):
    """`tasks` maps each shard that is done to its tasks that were stopped or will be started. A shard that is missing
    is not done."""

    tasks: dict[int, tuple[str, ...]]


class Snapshot(Carried):
    """Templates above `after` (all of them when `full`), up to `commit_number`. `removed` names forgotten jobs.

    `unreadable` names jobs that are missing because their row could not be read. They exist, and a container goes on
    with what it knows of them. `shard_count` is a hint, the count of the moment: only the answer that names a
    container's shards says which task belongs to which shard.
    `store`: the incarnation of the job store (`penstock.store.incarnation`). Commit numbers of two incarnations say
    nothing about each other. `row_digests`: a digest of each template, in their order. `digest`: of the whole map, the
    sum of the digests of all jobs but the unreadable ones, modulo 2^128. An older Task Service sends none of the three.
    """

    full: bool
    commit_number: int
    shard_count: int
    templates: tuple[TaskTemplate, ...]
    removed: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    store: str = ""
    digest: Digest | None = None
    row_digests: tuple[Digest, ...] = ()


class LeaseRequest(Carried):
    """A container asks for its lease row to be renewed. `former`: the incarnation that this one replaces, after a
    restart; None: it has a lease already."""

    container: Name
    incarnation: Incarnation
    former: Incarnation | None = None


class LeaseAnswer(Carried):
    """As `HeartbeatAnswer`, by the store. The lease counts from the moment the request was sent. `known` is False when
    the store says that this incarnation was declared lost, was replaced, or is past its drain."""

    known: bool
    version: int = 0
    shard_count: int = 0
    shards: dict[int, int] = Field(default_factory=dict)
    commit_number: int = 0
    selectors: tuple[str, ...] = ()

    def owned(self) -> OwnedShards:
        """The full map. Raises LeaseLost when `known` is False."""
        if not self.known:
            raise LeaseLost("the container was declared lost or replaced, was never registered, or its drain is over")
        return OwnedShards(self.shards, self.version, Sharding(self.shard_count, self.selectors), self.commit_number)

    @classmethod
    def of(cls, owned: OwnedShards) -> LeaseAnswer:
        """The answer with a full map."""
        return cls(
            known=True,
            version=owned.version,
            shard_count=owned.sharding.count,
            shards=dict(owned.shards),
            commit_number=owned.commit_number,
            selectors=owned.sharding.selectors,
        )


class ChangesAnswer(Carried):
    """`stored`: False when the report that the changes build on is not the newest one here. Then a full one is due."""

    stored: bool


def as_json(model: Model) -> Any:
    """The JSON-ready form of a wire model."""
    return model.model_dump(mode="json")
