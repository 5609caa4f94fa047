"""The exit codes of a host, which its supervisor translates to exit reasons."""

from __future__ import annotations

from enum import IntEnum


class HostExit(IntEnum):
    """Exit codes of a host. Negative codes of `subprocess` are signals and not listed."""

    ASKED = 0
    CRASHED = 1
    OUT_OF_MEMORY = 81
    LEASE_LOST = 82
    SUPERVISOR_GONE = 83
    JVM_DIED = 84
    NOT_STARTED = 85


# HotSpot's -XX:+ExitOnOutOfMemoryError, and Spark's SparkExitCode.OOM.
_OUT_OF_MEMORY_CODES = (3, 52)
# io.penstock.host.LeaseWatch
_LEASE_WATCH_CODE = 86


def exit_for_jvm(jvm_exit_code: int) -> HostExit:
    """The exit code of a host whose JVM has ended."""
    if jvm_exit_code in _OUT_OF_MEMORY_CODES:
        return HostExit.OUT_OF_MEMORY
    return HostExit.LEASE_LOST if jvm_exit_code == _LEASE_WATCH_CODE else HostExit.JVM_DIED
