"""The order to die: a file that the test writes and that the process which obeys takes away first, so that its next
life lives."""

from __future__ import annotations

import functools
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

BEFORE, AFTER = "before", "after"


class Point(NamedTuple):
    """Where to die: `when` an `action` of a process. `victim`: `syncer`, `manager` or `host`."""

    victim: str
    action: str
    when: str

    def __str__(self) -> str:
        return f"{self.victim} {self.when} {self.action}"


@dataclass(frozen=True)
class Orders:
    """The orders in a folder: at most one at a time."""

    folder: Path

    def give(self, point: Point) -> None:
        """Somebody shall die there. It appears whole."""
        fresh = self.folder / ".order"
        fresh.write_text(str(point))
        fresh.rename(self.folder / "order")

    @contextmanager
    def hosts_find(self, **variables: str) -> Iterator[None]:
        """Spark hosts that start while this is open find these variables in their environment."""
        file = self.folder / "environment"
        file.write_text(json.dumps(variables))
        try:
            yield
        finally:
            file.unlink()

    def environment(self) -> dict[str, str]:
        """What a host that starts now is to find."""
        try:
            found: dict[str, str] = json.loads((self.folder / "environment").read_text())
        except FileNotFoundError:
            return {}
        return found

    def is_obeyed(self) -> bool:
        """Whether somebody has died of the newest order, or is about to."""
        return not (self.folder / "order").exists()

    def reached(self, point: Point) -> None:
        """Ends this process here if it is to. Of several only one does."""
        order = self.folder / "order"
        try:
            if order.read_text() != str(point):
                return
            order.rename(self.folder / f"obeyed by {os.getpid()}")
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


NameOf = Callable[..., "str | None"]


class Port(NamedTuple):
    """A function through which a process acts. `names`: all actions that it can be; `name_of`, given the call's
    arguments: the one that this call is, or None."""

    owner: Any
    function: str
    names: tuple[str, ...]
    name_of: NameOf


def named(owner: Any, function: str, name: str) -> Port:
    """A port that is always the same action."""
    return Port(owner, function, (name,), lambda *args, **kwargs: name)


def install(victim: str, ports: tuple[Port, ...], orders: Orders) -> None:
    """Wraps the ports. Raises AttributeError when one is no more."""
    for port in ports:
        setattr(port.owner, port.function, _wrapped(victim, port, orders))


def points(victim: str, ports: tuple[Port, ...]) -> tuple[Point, ...]:
    """Every place at which the victim can die."""
    names = [name for port in ports for name in port.names]
    return tuple(Point(victim, name, when) for name in names for when in (BEFORE, AFTER))


def _wrapped(victim: str, port: Port, orders: Orders) -> Callable[..., Any]:
    inner: Callable[..., Any] = getattr(port.owner, port.function)

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        name = port.name_of(*args, **kwargs)
        if name is None:
            return inner(*args, **kwargs)
        orders.reached(Point(victim, name, BEFORE))
        result = inner(*args, **kwargs)
        orders.reached(Point(victim, name, AFTER))
        return result

    return outer
