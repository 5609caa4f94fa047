"""Which Spark host a host task needs: a shared one, or one without tasks and with memory for a large state. Pure."""

from __future__ import annotations

from penstock.config.model import JobConfig
from penstock.tasks.host_request import HostRequest
from penstock.tasks.host_task import POLICIES
from services.task_manager.decide.host_choice import DEFAULT_KEY, static_settings
from services.task_manager.decide.model import HostKey

SMALL_STATE_BYTES = 64 * 2**20
SMALLEST_BYTES = 1024 * 2**20
UNKNOWN_STATE_BYTES = 512 * 2**20
FACTOR = 4


def host_key_for(request: HostRequest, capacity_bytes: float) -> HostKey:
    """The key of the host for a request, in a container of `capacity_bytes` of memory.

    The host has the package and settings that the request names, or those of the default host. A large or unknown
    state gets a host that runs no tasks: if the memory does not suffice, no task of another job ends with it.
    """
    shared = _shared_key(request.host_config)
    if not POLICIES[request.kind].own_host or _is_small(request.known_state_bytes):
        return shared
    memory_bytes = own_memory_bytes(request.known_state_bytes, capacity_bytes)
    return HostKey(shared.package, shared.static_settings, memory_bytes=memory_bytes, for_host_tasks=True)


def own_memory_bytes(state_bytes: int | None, capacity_bytes: float) -> int:
    """The memory of a host for a state of this size: 1 GiB and four times the state, since state is read and written
    at once.

    The next power of two is taken, so that states of about one size share a host. It is at least 1 GiB, and no more
    than the container has.
    """
    needed = SMALLEST_BYTES + FACTOR * (UNKNOWN_STATE_BYTES if state_bytes is None else state_bytes)
    rounded = 1 << (needed - 1).bit_length()
    return max(SMALLEST_BYTES, min(rounded, int(capacity_bytes)))


def _is_small(state_bytes: int | None) -> bool:
    return state_bytes is not None and state_bytes <= SMALL_STATE_BYTES


def _shared_key(config: JobConfig | None) -> HostKey:
    if config is None:
        return DEFAULT_KEY
    package = config.package
    settings = tuple(sorted(static_settings(config).items()))
    return HostKey(package=(package.name, package.version, package.digest or ""), static_settings=settings)
