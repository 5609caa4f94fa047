"""Synthetic inputs, a value a minute: what the paper shows (figures 8 and 9), and what goes wrong with jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.support.autoscaling.calibration import ROWS_PER_CORE_SECOND

Floats = NDArray[np.float64]

DAY = 1440


class Trace(NamedTuple):
    """What happens to a job. `rate`: input in rows a second. `speed`: what is left of the rate of its tasks, 1 in
    health. `hot_share`: the part of the input that has one key. `state_share`: the part of its state that is there.
    `stopped`: switched off by its owner."""

    name: str
    kind: str
    rate: Floats
    speed: Floats
    hot_share: Floats
    state_share: Floats
    stopped: NDArray[np.bool_]


def trace(name: str, kind: str, rate: Floats, **changed: Floats) -> Trace:
    """A trace of a healthy job but for what is `changed`."""
    ones = np.ones(len(rate))
    known = {"speed": ones, "hot_share": ones * 0, "state_share": ones, "stopped": np.zeros(len(rate), dtype=bool)}
    return Trace(name, kind, rate, **(known | changed))


def synthetic(kinds: Iterable[str], days: int, sizes: Sequence[float], rng: np.random.Generator) -> Iterator[Trace]:
    """Each kind once for each size, in tasks at the usual peak."""
    for kind in kinds:
        for tasks in sizes:
            yield KINDS[kind](f"{kind} {tasks:g}", kind, days * DAY, tasks * ROWS_PER_CORE_SECOND * 0.8, rng)


def daily(minutes: int) -> Floats:
    """From 0.3 at night to 1 in the afternoon."""
    return 0.65 - 0.35 * np.cos(2 * np.pi * (np.arange(minutes) % DAY - 180) / DAY)


def _noisy(rate: Floats, rng: np.random.Generator) -> Floats:
    return np.asarray(rate * np.clip(rng.normal(1.0, 0.03, len(rate)), 0.8, 1.2))


def _part(minutes: int, start: float, end: float) -> slice:
    return slice(int(minutes * start), int(minutes * end))


def _steps(name: str, kind: str, minutes: int, peak: float, rng: np.random.Generator) -> Trace:
    level = np.array([0.25, 0.5, 1.0, 0.5, 0.25, 1.0, 0.25, 0.5])
    return trace(name, kind, _noisy(peak * level[np.arange(minutes) // 360 % len(level)], rng))


def _ramps(name: str, kind: str, minutes: int, peak: float, rng: np.random.Generator) -> Trace:
    up_and_down = np.abs(np.arange(minutes) % 720 / 360 - 1)
    return trace(name, kind, _noisy(peak * (0.1 + 0.9 * up_and_down), rng))


def _spikes(name: str, kind: str, minutes: int, peak: float, rng: np.random.Generator) -> Trace:
    rate = np.full(minutes, peak / 3)
    for start in range(180, minutes, 360):
        first = start + int(rng.integers(0, 120))
        rate[first : first + int(rng.integers(5, 20))] = peak
    return trace(name, kind, _noisy(rate, rng))


def _stop(name: str, kind: str, minutes: int, peak: float, rng: np.random.Generator) -> Trace:
    stopped = np.zeros(minutes, dtype=bool)
    stopped[_part(minutes, 1 / 8, 6 / 8)] = True
    return trace(name, kind, _noisy(peak * daily(minutes) / 4, rng), stopped=stopped)


def _storm(name: str, kind: str, minutes: int, peak: float, rng: np.random.Generator) -> Trace:
    rate = peak * daily(minutes)
    start = (minutes // DAY * 3 // 4) * DAY + 480
    rate[start : start + DAY] *= 1.16
    return trace(name, kind, _noisy(rate, rng))


def _outage(name: str, kind: str, minutes: int, peak: float, rng: np.random.Generator) -> Trace:
    speed = np.ones(minutes)
    start = minutes // 2
    speed[start : start + 180] = 0.02
    return trace(name, kind, _noisy(peak * daily(minutes), rng), speed=speed)


def _bad_release(name: str, kind: str, minutes: int, peak: float, rng: np.random.Generator) -> Trace:
    speed = np.ones(minutes)
    start = minutes // 2
    speed[start : start + 300] = 0.4
    return trace(name, kind, _noisy(peak * daily(minutes), rng), speed=speed)


def _hot_key(name: str, kind: str, minutes: int, peak: float, rng: np.random.Generator) -> Trace:
    hot_share = np.zeros(minutes)
    hot_share[_part(minutes, 0.4, 0.7)] = min(0.3, 0.8 * ROWS_PER_CORE_SECOND / peak)
    return trace(name, kind, _noisy(peak * daily(minutes), rng), hot_share=hot_share)


def _growing_state(name: str, kind: str, minutes: int, peak: float, rng: np.random.Generator) -> Trace:
    return trace(name, kind, _noisy(peak * daily(minutes), rng), state_share=np.linspace(0.1, 1.0, minutes))


KINDS: Mapping[str, Callable[[str, str, int, float, np.random.Generator], Trace]] = {
    "steps": _steps,
    "ramps": _ramps,
    "spikes": _spikes,
    "stop": _stop,
    "storm": _storm,
    "outage": _outage,
    "bad_release": _bad_release,
    "hot_key": _hot_key,
    "growing_state": _growing_state,
}
