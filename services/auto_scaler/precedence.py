"""Which jobs come first in a round, since a round may change only so many."""

from __future__ import annotations

import zlib

from services.auto_scaler.decide.model import Symptom

_URGENT = (Symptom.LAG, Symptom.OUT_OF_MEMORY)
_PLACES = 2**32
# The golden part of the circle: wherever rounds begin on it, the next ones soon begin near every other place.
_STEP = 0x9E3779B1


def precedence(job: str, symptom: Symptom, round_number: int) -> tuple[bool, int]:
    """The place of a job in a round, to sort by: jobs that suffer are first, and among equals none is always last.

    Jobs stand on a circle by their names, and each round begins elsewhere on it.
    """
    return symptom not in _URGENT, (zlib.crc32(job.encode()) + round_number * _STEP) % _PLACES
