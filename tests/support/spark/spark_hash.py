"""Spark's `hash` of a string, in Python: where the producers of a bench put their keys without a Spark of their own."""

from __future__ import annotations

import struct

_SEED = 42
_MASK = 0xFFFFFFFF


def key_group(key: str, key_groups: int) -> int:
    """`pmod(hash(key), key_groups)`."""
    hashed = _murmur3(key.encode())
    return (hashed - (1 << 32) if hashed >> 31 else hashed) % key_groups


def _murmur3(data: bytes) -> int:
    """Murmur3 as Spark has it: the bytes after the last whole word are mixed in one by one, as signed numbers."""
    words = len(data) // 4
    hashed = _SEED
    for word in struct.unpack_from(f"<{words}I", data):
        hashed = _mixed(hashed, word)
    for byte in struct.unpack(f"{len(data) - 4 * words}b", data[4 * words :]):
        hashed = _mixed(hashed, byte & _MASK)
    hashed ^= len(data)
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    return hashed ^ hashed >> 16


def _mixed(hashed: int, word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    hashed ^= word * 0x1B873593 & _MASK
    hashed = (hashed << 13 | hashed >> 19) & _MASK
    return (hashed * 5 + 0xE6546B64) & _MASK
