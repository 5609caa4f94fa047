"""Which partition a producer chose for a key, and which of the known functions explains a sample of keys. Pure.

kafka   Java clients, and librdkafka's `murmur2_random`: murmur2 of the key's bytes
crc32   librdkafka's default, `consistent_random`: CRC32 of the key's bytes; an empty key goes anywhere
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

_MASK = 0xFFFFFFFF
_FACTOR = 0x5BD1E995
_SEED = 0x9747B28C

# So few keys may be where they are by chance.
FEWEST_KEYS = 8


class PlacedKey(NamedTuple):
    """A key's bytes, and the partition in which its record is."""

    key: bytes
    partition: int


def murmur2(data: bytes) -> int:
    """Kafka's murmur2, as an unsigned 32-bit number."""
    length = len(data)
    state = _SEED ^ length
    whole = length - length % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _MASK
        word = (word ^ word >> 24) * _FACTOR & _MASK
        state = state * _FACTOR & _MASK ^ word
    if whole < length:
        state = (state ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    state = (state ^ state >> 13) * _FACTOR & _MASK
    return state ^ state >> 15


HASHES: Mapping[str, Callable[[bytes], int]] = {"kafka": lambda key: murmur2(key) & 0x7FFFFFFF, "crc32": zlib.crc32}
"""By key function: a number from 0 on, of which the remainder by the number of partitions is the partition."""


def fits(function: str, keys: Iterable[PlacedKey], partitions: int) -> int:
    """How many of the keys are in the partition that `function` gives. An empty key fits wherever `crc32` puts it."""
    hashed = HASHES[function]
    return sum(
        hashed(each.key) % partitions == each.partition or (function == "crc32" and not each.key) for each in keys
    )
