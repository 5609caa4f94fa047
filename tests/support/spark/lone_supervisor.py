"""A supervisor for tests to kill: starts one host, prints the process ids of host and JVM, and waits."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests.support.spark.hosts import READY_SECONDS, Supervisor, settings_for

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    supervisor = Supervisor("lone", settings_for(folder, "127.0.0.1:9"), folder / "lone.log")
    ready = supervisor.host.ready.result(READY_SECONDS)
    print(ready.pid, ready.jvm_pid, flush=True)
    signal.pause()
