"""The sink under SIGKILL: nothing missing, nothing twice; Spark's own sink beside it repeats rows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from penstock.local.kafka import EmbeddedKafka
from tests.support.exactly_once.kills import kill_between_rows_and_commit, run_with_kills
from tests.support.exactly_once.plan import Plan
from tests.support.exactly_once.process import settings
from tests.support.exactly_once.rows import judge
from tests.support.exactly_once.topics import make_query, make_source


@pytest.mark.long
@pytest.mark.parametrize(("kills", "rows", "seed"), [(3, 16_000, 4), (30, 100_000, 40)])
def test_killed_at_random_moments(
    kafka: EmbeddedKafka, tmp_path: Path, proof_classes: Path, kills: int, rows: int, seed: int
) -> None:
    """One process runs both forms of the sink and Spark's own over the same rows.

    1. It is killed when Spark's sink has sent rows of a batch that is not committed.
    2. It is killed at random moments.
    3. It comes to the end of the rows without any help.
    4. Both forms hold each row once; Spark's own has rows twice, and none is missing.
    """
    source = make_source(kafka.bootstrap, rows)
    queries = tuple(make_query(kafka.bootstrap, tmp_path, source, scope) for scope in ("batch", "partition", None))
    plan = Plan("local[2]", settings(tmp_path, proof_classes), kafka.bootstrap, queries)
    batch, partition, sparks = queries

    kill_between_rows_and_commit(tmp_path, plan, sparks)
    killed = run_with_kills(tmp_path, plan, kills - 1, random.Random(seed))

    verdicts = {query.name: judge(kafka.bootstrap, query.name, rows) for query in queries}
    print(f"{kills} kills, in flight {killed.in_flight}: {verdicts}")
    assert verdicts[batch.name].exact
    assert verdicts[partition.name].exact
    assert verdicts[sparks.name].repeated > 0
    assert verdicts[sparks.name].missing == verdicts[sparks.name].different == 0
