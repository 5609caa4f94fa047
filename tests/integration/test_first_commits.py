"""The first commit of a job and a write to it at the same time, on a real Postgres and a real Job Service.

Until the commit all fields may change, and afterwards `key_groups` may not shrink. Whoever comes first, the other one
must see it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest

from penstock.config.basis import merge_basis
from penstock.control.clock import SystemClock
from penstock.control.errors import InvalidConfig
from penstock.control.process import wait_until
from penstock.model.jobs import Action
from penstock.store import leases
from penstock.store.engine import transaction
from penstock.store.running import STATE_SYNCER, CommitRow
from penstock.wire.job_client import JobClient
from services.job_service.writer import write_many
from services.job_service.writes import Write
from services.state_syncer.store import states
from services.state_syncer.store.port import Batch
from services.state_syncer.store.simple import commit_simple
from tests.support.job_service.service import RunningJobService, as_new
from tests.support.state_syncer.cell import Cell, Interfering
from tests.support.store.jobs import make_layer, write_layer

REFUSED = "key_groups cannot change"


@pytest.fixture
def client(standing: RunningJobService) -> Iterator[JobClient]:
    with as_new(standing).client() as client:
        yield client


@pytest.fixture(params=[False, True], ids=["simple at once", "one by one"])
def cell(request: pytest.FixtureRequest, client: JobClient, standing: RunningJobService) -> Cell:
    """A cell that knows the ranks of the layers."""
    cell = Cell(standing.engine, one_by_one=request.param)
    cell.round()
    return cell


def layer(key_groups: int) -> Any:
    return make_layer(inputs={"events": {"key_groups": key_groups}})


def put(client: JobClient, config: Any) -> None:
    client.put_job("j", config, verify=False)


def key_groups(config: Any) -> int:
    return int(config["inputs"]["events"]["key_groups"])


def test_a_commit_leaves_a_job_alone_that_somebody_writes_to(cell: Cell, client: JobClient) -> None:
    """1. A job is made. 2. A write to its key groups is under way when the round comes: the round waits for nobody, and
    does not commit the job. 3. The write is done: what it asked for is committed, and runs."""
    put(client, layer(16))
    client.put_job("other", layer(16), verify=False)
    with transaction(cell.engine) as connection:
        write_many(connection, [Write(Action.CREATE, "j", "ann", config=layer(8))], SystemClock(), 0.0, ())
        cell.round()
        assert (cell.running(), key_groups(cell.running("other")["config"])) == (None, 16)
    cell.round()
    assert (key_groups(cell.running()["config"]), cell.sync()["state"]) == (8, "synced")


def test_a_write_waits_for_a_simple_commit_that_is_under_way_and_is_refused_then(cell: Cell, client: JobClient) -> None:
    """1. The first commit of a job is under way. 2. A write to its key groups begins. 3. The commit is done: the write
    sees what runs, and is refused."""
    put(client, layer(16))
    with ThreadPoolExecutor(1) as pool:
        with leases.fenced(cell.engine, STATE_SYNCER, cell.epoch) as connection:
            basis = merge_basis(states.read_ranks(connection).lowest_first)
            assert commit_simple(connection, basis, cell.epoch, names=["j"], sample=1).jobs == 1
            writing = pool.submit(put, client, layer(8))
            wait_until(lambda: writing.done() or _is_blocked(cell), 30.0, "the write")
            assert not writing.done()
        with pytest.raises(InvalidConfig, match=REFUSED):
            writing.result()
    assert key_groups(cell.running()["config"]) == key_groups(client.get_job("j").config) == 16


def test_a_write_waits_for_a_commit_that_was_decided_in_python(cell: Cell, client: JobClient) -> None:
    """The same where the commit goes through `SyncStore.write`, which a lock of the test holds up in its midst."""
    put(client, layer(16))
    (config,) = (row["config"] for row in cell.rows("SELECT config FROM expected_configs"))
    batch = Batch(commits=[CommitRow("j", orjson.dumps(config), 1, 1, 0, False, True)], starts={"j": 1})
    with ThreadPoolExecutor(2) as pool:
        with transaction(cell.engine) as holding:
            holding.exec_driver_sql("SELECT FROM counters WHERE name = 'running_commit' FOR UPDATE")
            committing = pool.submit(cell.make_store().write, batch, cell.epoch)
            wait_until(lambda: committing.done() or _is_blocked(cell), 30.0, "the commit")
            writing = pool.submit(put, client, layer(8))
            wait_until(lambda: writing.done() or _is_blocked(cell, 2), 30.0, "the write")
            assert not writing.done()
        assert (committing.result() is None, batch.left_out) == (False, frozenset())
        with pytest.raises(InvalidConfig, match=REFUSED):
            writing.result()


def test_what_was_written_since_the_decision_is_committed_in_the_next_round(
    client: JobClient, standing: RunningJobService
) -> None:
    """1. A round has decided to commit the job with 16 key groups. 2. Before it writes, 8 are asked for. 3. It leaves
    the job alone, with all that it would have written of it, and the next round commits 8."""
    cell = Cell(standing.engine)
    cell.round()
    put(client, layer(16))
    cell.restart(Interfering(cell.engine, lambda: put(client, layer(8))))
    cell.round()
    assert (cell.running(), cell.sync(), cell.looks_soon) == (None, None, True)
    cell.round()
    assert (key_groups(cell.running()["config"]), cell.sync()["state"]) == (8, "synced")


def test_a_stopped_job_that_starts_is_compared_too(cell: Cell, client: JobClient) -> None:
    """It has a running row, and no checkpoint: until its first start all its fields may change."""
    for config in ({**layer(32), "desired_state": "stopped"}, {**layer(16), "desired_state": "stopped"}):
        put(client, config)
        cell.round()
    put(client, layer(16))
    with transaction(cell.engine) as connection:
        write_many(connection, [Write(Action.CREATE, "j", "ann", config=layer(8))], SystemClock(), 0.0, ())
        cell.round()
        assert not cell.running()["started"]
    cell.round()
    assert (key_groups(cell.running()["config"]), cell.sync()["state"]) == (8, "synced")


def test_a_job_that_was_asked_for_what_it_cannot_become_goes_back(cell: Cell, client: JobClient) -> None:
    """1. However it came about, 8 key groups are expected of a job that runs 16. 2. Plans and writes say the same: back
    to 16 is allowed, on to 4 is not, and other fields may change."""
    put(client, layer(16))
    cell.round()
    write_layer(cell.engine, "j", layer(8))
    with pytest.raises(InvalidConfig, match=REFUSED):
        put(client, layer(4))
    assert not _plan(client, layer(4)).allowed
    put(client, {**layer(8), "priority": 3})
    assert _plan(client, layer(16)).allowed
    put(client, layer(16))
    cell.round()
    assert (key_groups(cell.running()["config"]), cell.sync()["state"]) == (16, "synced")


def _plan(client: JobClient, config: Any) -> Any:
    return client.plan("j", config, layer="base", action="put", verify=False)


def _is_blocked(cell: Cell, count: int = 1) -> bool:
    """Whether so many statements wait for a lock."""
    waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return len(cell.rows(waiting)) >= count
