"""Places where a process of queries is held by a file, for what must happen meanwhile (Java: `io.penstock.proof`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.exactly_once.plan import QueryPlan

HELD_CHECKPOINT = "io.penstock.proof.HeldCheckpoint"


@dataclass(frozen=True)
class Hold:
    """A process that comes to the place waits there until `release`."""

    path: Path

    def arm(self) -> None:
        """From now on, who comes to the place is held."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()

    @property
    def reached(self) -> bool:
        """Whether somebody is held."""
        return self.path.with_name(f"{self.path.name}.reached").exists()

    def release(self) -> None:
        """Lets go who is held, once it runs; holds nobody any more."""
        self.path.unlink()


def hold_at_row(query: QueryPlan, number: int) -> tuple[QueryPlan, Hold]:
    """The query, held before the row is written: rows before it are in the open transaction of its batch."""
    hold = Hold(Path(f"{query.checkpoint}-hold-row"))
    return at_row(query, number, "hold", hold.path), hold


def hold_at_commit(query: QueryPlan, batch: int) -> tuple[QueryPlan, Hold]:
    """The query, held before it publishes `commits/<batch>`: the batch is whole in the sink.

    The process needs `HELD_CHECKPOINT` as its checkpoint file manager.
    """
    return query, Hold(Path(query.checkpoint) / f"hold-commits-{batch}")


def at_row(query: QueryPlan, number: int, happening: str, mark: Path) -> QueryPlan:
    """The query whose row `number` passes `OnRow.<happening>` with the file `mark`."""
    call = f"reflect('io.penstock.proof.OnRow', '{happening}', CAST(value AS STRING), '{mark}')"
    value = f"CASE WHEN CAST(key AS STRING) = '{number}' THEN CAST({call} AS BINARY) ELSE value END AS value"
    return replace(query, columns=("key", value))
