"""Functions that tests give to the output `foreach_batch`."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from penstock.control.process import wait_until

began = threading.Event()
called: list[tuple[str, int]] = []
sizes: dict[int, int] = {}


def to_two_tables(frame: DataFrame, batch_id: int, series: str, args: Mapping[str, Any]) -> None:
    """One read, two tables, each exactly once by Delta's own record of the last batch of a series."""
    called.append((series, batch_id))
    for table, rows in (("all", frame), ("few", frame.where("v % 3 = 0"))):
        write = rows.write.format("delta").mode("append")
        write.option("txnAppId", series).option("txnVersion", batch_id).save(f"{args['folder']}/{table}")


def forgetful(frame: DataFrame, batch_id: int) -> None:
    """Reads no row."""


def slow(frame: DataFrame, batch_id: int) -> None:
    """Notes the number of rows of the batch, each of which takes a twentieth of a second."""
    sizes[batch_id] = frame.count()
    threading.Event().wait(0.05 * sizes[batch_id])


def broken(frame: DataFrame, batch_id: int) -> None:
    """Fails where its own code is."""
    _deeper({})


def _deeper(found: Mapping[str, int]) -> int:
    return found["forgotten"]


def endless(frame: DataFrame, batch_id: int) -> None:
    """Swallows all errors, and never returns."""
    began.set()
    while True:
        try:
            while True:
                pass
        except Exception:  # noqa: BLE001 -- as careless code does
            continue


def alone(frame: DataFrame) -> None:
    """Takes no batch id."""


def ends_once(frame: DataFrame, batch_id: int, series: str, args: Mapping[str, Any]) -> None:
    """Fails when it gets a batch for the first time: between two outputs of a job."""
    mark = Path(args["folder"]) / f"{series.replace('/', '-')}-{batch_id}"
    if args.get("breaks") and not mark.exists():
        mark.touch()
        raise RuntimeError(f"batch {batch_id} of {series} ends here")


def waits(frame: DataFrame, batch_id: int, series: str, args: Mapping[str, Any]) -> None:
    """Returns when the folder has no file `wait`; says that it waits."""
    folder = Path(args["folder"])
    if (folder / "wait").exists():
        (folder / "waits").touch()
        wait_until(lambda: not (folder / "wait").exists(), 60, "the file to go")
