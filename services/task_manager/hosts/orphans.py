"""Kills hosts that an earlier process of this container left behind.

Hosts die with their Task Manager, but not in the same instant: a host that hangs in the kernel dies late. Every process
of a container's hosts has the container's folder in its environment. A new Task Manager finds these processes by it and
kills them before it asks for a lease. Only one living process owns the folder (`penstock.local.folder`).
"""

from __future__ import annotations

from pathlib import Path

import psutil

from penstock.control.logs import logger

log = logger(__name__)
MARK = "PENSTOCK_CONTAINER_FOLDER"
"""The setting `container_folder` of hosts (`penstock.spark.settings`), which their JVM and its children have, too."""
_DEATH_SECONDS = 10.0


def end_orphans(folder: Path) -> int:
    """Kills the processes that have `folder` in their environment and waits for their end. Returns their number."""
    orphans = [process for process in psutil.process_iter() if _belongs_to(process, folder)]
    for process in orphans:
        _kill(process)
    _, alive = psutil.wait_procs(orphans, timeout=_DEATH_SECONDS)
    if orphans:
        log.warning("leftover hosts killed", processes=len(orphans), still_alive=len(alive))
    return len(orphans)


def _belongs_to(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.environ().get(MARK) == str(folder)
    except (psutil.Error, OSError):
        return False


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        log.info("leftover host had ended", pid=process.pid)
