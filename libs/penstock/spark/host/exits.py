"""Why a host has ended, by its exit code."""

from __future__ import annotations

from enum import IntEnum


class ExitReason(IntEnum):
    """The exit codes of a host; all signals count as `KILLED`."""

    KILLED = -1
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


def exit_reason(code: int) -> ExitReason:
    """The reason that `subprocess` tells of a host by its exit code; negative codes are signals."""
    if code < 0:
        return ExitReason.KILLED
    return ExitReason(code) if code in list(ExitReason) else ExitReason.CRASHED


def exit_for_jvm(jvm_exit_code: int) -> ExitReason:
    """How a host whose JVM has ended ends."""
    if jvm_exit_code in _OUT_OF_MEMORY_CODES:
        return ExitReason.OUT_OF_MEMORY
    return ExitReason.LEASE_LOST if jvm_exit_code == _LEASE_WATCH_CODE else ExitReason.JVM_DIED
