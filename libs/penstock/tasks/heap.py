"""How the memory of an isolated task is divided: the heap of its JVM, and all else of its process. Pure.

What runs out is nearly always the heap. A small process still has the smallest heap with which Spark starts, so that it
is larger than was asked for.
"""

from __future__ import annotations

SMALLEST_HEAP_BYTES = 512 * 2**20
SMALLEST_REST_BYTES = 300 * 2**20
_REST_SHARE = 4
"""One part in so many is left for the rest of the process."""


def heap_for(process_bytes: int) -> int:
    """The heap of a process of the given size. A quarter of it, at least 300 MiB, is left for the rest of the JVM.

    The result is at least the smallest heap with which Spark starts.
    """
    rest = max(process_bytes // _REST_SHARE, SMALLEST_REST_BYTES)
    return max(process_bytes - rest, SMALLEST_HEAP_BYTES)


def process_for(heap_bytes: int) -> int:
    """The size of a process that has at least such a heap."""
    return heap_bytes + max(heap_bytes // (_REST_SHARE - 1), SMALLEST_REST_BYTES)
