"""Visits of users: a visit ends when its user has clicked nothing for a while of event time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout


def told(gap_ms: int, key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Spark calls it with the new clicks of a user, and without clicks when the user's timeout has come.

    The state has the times of all clicks of visits that have not ended, for clicks may come out of order.
    """
    times = [int(at) for at in state.get[0]] if state.exists else []
    for frame in frames:
        times += frame["at"].astype("datetime64[ms]").astype("int64").tolist()
    ended, going_on = [], []
    for visit in _visits(times, gap_ms):
        (ended if visit[-1] + gap_ms <= state.getCurrentWatermarkMs() else going_on).append(visit)
    if going_on:
        state.update(([at for visit in going_on for at in visit],))
        state.setTimeoutTimestamp(going_on[0][-1] + gap_ms)
    elif state.exists:
        state.remove()
    yield pd.DataFrame([(key[0], len(visit), (visit[-1] - visit[0]) // 1000) for visit in ended])


def _visits(times: Iterable[int], gap_ms: int) -> list[list[int]]:
    visits: list[list[int]] = []
    for at in sorted(times):
        if visits and at < visits[-1][-1] + gap_ms:
            visits[-1].append(at)
        else:
            visits.append([at])
    return visits


def visits(session: SparkSession, inputs: Mapping[str, DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """The job's query: see `query.python` in job.json."""
    return (
        inputs["clicks"]
        .groupBy("user")
        .applyInPandasWithState(
            partial(told, args["gap_seconds"] * 1000),
            "user STRING, clicks BIGINT, seconds BIGINT",
            "times ARRAY<BIGINT>",
            "append",
            GroupStateTimeout.EventTimeTimeout,
        )
    )
