"""Ends what a former life of this container left behind.

Hosts die with their Task Manager, but not in the same instant, and one that hangs in the kernel dies late. Every
process of a container's hosts carries the container's folder in its environment, so a new life finds and kills them
before it asks for a lease. The folder has one living owner (`penstock.local.folder`), so they can only be leftovers.
"""

from __future__ import annotations

from pathlib import Path

import psutil

from penstock.control.logs import logger

log = logger(__name__)
MARK = "PENSTOCK_CONTAINER_FOLDER"
_DEATH_SECONDS = 10.0


def end_orphans(folder: Path) -> int:
    """Kills the processes that carry the mark of `folder` and waits for their end; how many there were."""
    orphans = [process for process in psutil.process_iter() if _belongs_to(process, folder)]
    for process in orphans:
        _kill(process)
    _, alive = psutil.wait_procs(orphans, timeout=_DEATH_SECONDS)
    if orphans:
        log.warning("ended hosts of a former life", processes=len(orphans), still_alive=len(alive))
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
        log.info("host of a former life has ended by itself", pid=process.pid)
