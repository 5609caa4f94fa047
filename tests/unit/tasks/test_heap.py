"""How the memory of an isolated task is divided."""

from __future__ import annotations

import pytest

from penstock.tasks.heap import SMALLEST_HEAP_BYTES, heap_for, process_for

MIB = 2**20


@pytest.mark.parametrize(("process_mib", "heap_mib"), [(400, 512), (600, 512), (812, 512), (1024, 724), (4096, 3072)])
def test_heap_of_a_process(process_mib: int, heap_mib: int) -> None:
    assert heap_for(process_mib * MIB) == heap_mib * MIB


@pytest.mark.parametrize(("heap_mib", "process_mib"), [(512, 812), (900, 1200), (3072, 4096)])
def test_process_of_a_heap(heap_mib: int, process_mib: int) -> None:
    assert process_for(heap_mib * MIB) == process_mib * MIB


@pytest.mark.parametrize("heap_bytes", [SMALLEST_HEAP_BYTES, 2**30 + 1, 2**30 + 2, 3 * 2**30, 10**10 + 7])
def test_the_process_has_the_heap(heap_bytes: int) -> None:
    assert heap_for(process_for(heap_bytes)) == heap_bytes
