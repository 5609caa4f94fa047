"""An example of each message between processes and of each document in the store, with all optional parts.

`python -m tests.support.skew.examples` writes them to `tests/contract/golden/present.json`. At a release that file is
copied to `before.json`: what the next one must read.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from penstock.config.declare import Carried
from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import JobConfig
from penstock.model.reports import KeyGroupRates, TaskProgress, TaskReport, TaskReportBatch
from penstock.tasks.analysis import AnalysisReport, AnalysisRequest, Operator
from penstock.tasks.host_task import HostTask, Request
from penstock.tasks.redistribution import (
    CopyReport,
    CopyRequest,
    GenerationRemoval,
    Layout,
    RedistributionReport,
    RedistributionRequest,
    SavepointName,
    SealRequest,
)
from penstock.tasks.rollout import LeafChange, RanBefore, Rejected, RunningRollout
from penstock.tasks.savepoint import SavedTask, SavepointRemoval, SavepointReport, SavepointRequest
from penstock.tasks.sinks import SinkRequest
from penstock.tasks.spec import Before, Coming, TaskTemplate
from penstock.wire.cluster import (
    Capacity,
    HeartbeatAnswer,
    HeartbeatRequest,
    ShardAnswers,
    ShardOrders,
    Snapshot,
)
from penstock.wire.host_tasks import HostTaskAnswer, HostTaskState
from services.state_syncer.decide.progress import Plan, Restore, Step
from services.state_syncer.decide.waves import Rollout
from tests.support.store.jobs import make_config

GOLDEN = Path(__file__).parents[2] / "contract" / "golden"
PRESENT, BEFORE = GOLDEN / "present.json", GOLDEN / "before.json"
_AT = datetime(2026, 1, 1, tzinfo=UTC)
_CONFIG = JobConfig.model_validate(make_config())
_SAVEPOINT = SavepointName(job="a", name="s", number=3)
_LAYOUT = Layout(generation=1, config=_CONFIG, ranges=(KeyGroupRange(0, 4), KeyGroupRange(4, 8)), savepoint=_SAVEPOINT)
_LEAF = LeafChange(path=("package", "version"), old="1", new="2")
_SAVED = SavepointReport(tasks=(SavedTask(index=0, batch=7, taken_from="x", why="y"),), bytes=9)
_REQUESTS: tuple[Request, ...] = (
    CopyRequest(job="a", source=_LAYOUT, target=_LAYOUT, state_bytes=5),
    RedistributionRequest(job="a", source=_LAYOUT, target=_LAYOUT, stopped_at=4),
    SealRequest(job="a", layout=_LAYOUT),
    SinkRequest(job="a", revision=2, config=_CONFIG),
    SavepointRequest(job="a", name="s", number=3, layout=_LAYOUT, earlier=("r",)),
    SavepointRemoval(job="a", name="s", number=3),
    GenerationRemoval(job="a", generation=2),
    AnalysisRequest(job="a", number=1, config=_CONFIG),
)
_RATES = KeyGroupRates(first=0, records_per_second=(1.0, 2.0), seconds=60.0)
_PROGRESS = TaskProgress(
    batch_id=3,
    offsets={"t": {"0": 5}},
    key_group_rates=_RATES,
    quiesced=True,
    level_ms=0,
    input_problems={"k": "w"},
    busy_share=0.5,
    late_rows_per_second=0.0,
    phase_seconds={"addBatch": 0.5},
    key_group_backlogs={"0": 7},
)
_REPORT = TaskReport(
    job="a",
    index=0,
    state="running",
    revision=2,
    generation=1,
    restarts=0,
    epoch=4,
    error_class="host",
    progress=_PROGRESS,
    load={"c": 1.0},
)
_BEFORE = Before(upgraded=1, revision=1, restarts=0, config=_CONFIG)
_COMING = Coming(revision=3, generation=2, restarts=0, config=_CONFIG)
_TEMPLATE = TaskTemplate(
    job="a",
    commit_number=5,
    revision=2,
    generation=1,
    restarts=0,
    config=_CONFIG,
    before=_BEFORE,
    level_ms=4,
    coming=_COMING,
)
_CAPACITY = Capacity(cpu_cores=2.0, memory_bytes=2**31, disk_bytes=2**34, further={"network": 1.0})
_RESTORE = Restore(number=1, savepoint=_SAVEPOINT, generation=1, config=make_config())
EXAMPLES: tuple[Carried, ...] = (
    _CONFIG,
    *(HostTask(leader_epoch=2, request=request) for request in _REQUESTS),
    HostTaskAnswer(state=HostTaskState.DONE, progress="p", report={"rows": 1}, error="e", error_kind="lost"),
    RedistributionReport(settled=1, seconds={"copy": 1.0}),
    CopyReport(rows=2, changed=(1, 0)),
    _SAVED,
    AnalysisReport(operators=(Operator(operation="o", inputs=("i",), by=("b",), colocated=True),)),
    HeartbeatRequest(
        container="c", url="http://c", region="r", capacity=_CAPACITY, incarnation="i", held={1: 2}, dropped={3: 4}
    ),
    HeartbeatAnswer(known=True, version=3, shard_count=8, lease_seconds=40.0, shards={1: 2}, commit_number=5),
    ShardOrders(container="c", incarnation="i", shards={1: 2}, version=3, leader_epoch=1, shard_count=8),
    ShardAnswers(tasks={1: ("a/0",)}),
    Snapshot(full=True, commit_number=5, shard_count=8, templates=(_TEMPLATE,), removed=("b",), unreadable=("d",)),
    TaskReportBatch(container="c", incarnation="i", commit_number=5, version=3, tasks=(_REPORT,)),
    RunningRollout(revision=2, upgraded=1, before=RanBefore(config=make_config(), revision=1, restarts=0)),
    Rejected(revision=2, leaves=(_LEAF,), wave=1, waves=2, task="a/0", error="e"),
    Plan(
        step=Step.REDISTRIBUTE,
        revision=2,
        restarts=0,
        config=make_config(),
        fields=("task_count",),
        restore=_RESTORE,
        generation=2,
        container="c",
        begun_at=_AT,
        step_at=_AT,
        seconds={"quiesce": 1.0},
    ),
    Rollout(
        steps=("wave_1",),
        revision=2,
        restarts=0,
        fields=("package.version",),
        leaves=(_LEAF,),
        ends=(1, 2),
        crashes={0: 1},
        begun_at=_AT,
        step_at=_AT,
    ),
)


def name_of(example: BaseModel) -> str:
    """The name of an example: its model, and the kind of a host task."""
    kind = f" {example.request.kind}" if isinstance(example, HostTask) else ""
    return type(example).__name__ + kind


def written() -> dict[str, Any]:
    """The examples as this release writes them, by name."""
    return {name_of(example): example.model_dump(mode="json") for example in EXAMPLES}


def grown(value: Any, written: Any) -> Any:
    """What a newer release might write: the same with fields that this one does not know, in every part."""
    if isinstance(value, Carried):
        parts = {name: grown(getattr(value, name, None), each) for name, each in written.items()}
        return {**parts, "from_newer": {"a": [1, None]}}
    if isinstance(value, dict):
        return {str(key): grown(each, written[str(key)]) for key, each in value.items()}
    if isinstance(value, tuple) and isinstance(written, list):
        return [grown(each, of) for each, of in zip(value, written, strict=True)]
    return written


if __name__ == "__main__":
    PRESENT.write_text(json.dumps(written(), indent=1, sort_keys=True) + "\n")
