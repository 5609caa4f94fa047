"""`python -m tests.support.faults FOLDER MODULE ARGS`: runs a module of Penstock with its ports wrapped."""

from __future__ import annotations

import os
import runpy
import sys
from importlib import import_module
from pathlib import Path

from tests.support.faults.orders import Orders, install

WRAPPED = {
    "services.state_syncer": "syncer",
    "services.task_manager": "manager",
    "penstock.spark.host": "host",
}


def main() -> None:
    """Does not return when the order is to die."""
    folder, module, *arguments = sys.argv[1:]
    victim = WRAPPED[module]
    ports = import_module(f"tests.support.faults.{victim}")
    orders = Orders(Path(folder))
    install(victim, ports.PORTS, orders)
    if victim == "manager":
        ports.launch_hosts(folder)
    if victim == "host":
        os.environ.update(orders.environment())
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
