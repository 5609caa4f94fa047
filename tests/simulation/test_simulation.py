"""A cell under faults, from many seeds: what must hold does, and it comes to what was expected once they end.

A seed that fails here tells its story by `python -m tests.simulation --seed N`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tests.simulation.faults import LOST_QUIESCING, QUIESCING, Mix
from tests.simulation.world import Result, Size, simulate

ROOT = Path(__file__).parents[2]
SEEDS = range(2)
MORE_SEEDS = range(2, 398)
AT_ONCE = 2
"""Seeds of a test: a few seconds of CPU, so that several processes share the tests evenly."""
STORY_LINES = 60
BRIEF = Size(faults_seconds=10.0)

MIXES = {
    "machines stop": Mix(5.0, ("stop a machine", "stop"), "c"),
    "containers without a service": Mix(8.0, ("cut a service", "cut"), "c"),
    "containers come and go": Mix(6.0, ("switch off", "kill", "crash a host"), "c"),
    "leaders come and go": Mix(4.0, ("kill", "kill at a call", "stop"), "s"),
    "the store": Mix(8.0, ("store away", "store in trouble", "kill at a call")),
    "slow and broken hosts": Mix(8.0, ("habits", "crash a host"), "c"),
    "containers are lost while tasks quiesce": Mix(8.0, (LOST_QUIESCING, QUIESCING)),
    "clocks are set": Mix(6.0, ("clock", "kill"), "s"),
    "everything, often": Mix(3.0),
}
SHORT_MIXES = ("containers without a service", "the store")


def check(result: Result) -> None:
    """Everything held; else the end of the story."""
    end = "\n".join(result.story.splitlines()[-STORY_LINES:])
    assert result.is_good, f"seed {result.seed}: {result.complaints}\n{end}"
    assert result.double_run_seconds == 0
    assert result.commits > 0


@pytest.mark.parametrize(
    "first", [*SEEDS[::AT_ONCE], *(pytest.param(first, marks=pytest.mark.long) for first in MORE_SEEDS[::AT_ONCE])]
)
def test_seeds(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        check(simulate(seed))


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=() if name in SHORT_MIXES and seed == 1000 else pytest.mark.long)
        for name, seed in product(MIXES, (1000, 1001))
    ],
)
def test_hard_in_one_way(name: str, seed: int) -> None:
    check(simulate(seed, Size(mix=MIXES[name])))


SOON_SECONDS = 150.0
"""Three jobs get a last release, one after the other, a task a wave. A rescale waits for reports of its tasks."""


def test_without_faults_a_cell_is_soon_as_expected_and_nothing_is_fenced() -> None:
    result = simulate(0, Size(faults_seconds=0.0))
    check(result)
    assert result.fenced_commits == 0
    assert result.converged_seconds is not None
    assert result.converged_seconds < SOON_SECONDS


@pytest.mark.long
@pytest.mark.parametrize("containers", [24, 500])
def test_many_containers(containers: int) -> None:
    """Without faults: every task runs on one of them, once."""
    size = Size(containers=containers, jobs=5, shards=2 * containers, faults_seconds=0.0, tasks_per_job=8)
    check(simulate(0, size))


def test_the_same_seed_gives_the_same_story() -> None:
    """Also in a process that hashes strings differently."""
    other = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    assert _story_of_a_process(other) == simulate(11, BRIEF).story


def _story_of_a_process(hash_seed: str) -> str:
    module = f"{simulate.__module__} import simulate; from {__name__} import BRIEF"
    command = [sys.executable, "-c", f"from {module}; print(simulate(11, BRIEF).story, end='')"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True, text=True).stdout
