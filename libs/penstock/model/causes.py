"""Why a job is not healthy: the kinds of causes, and how sure one is. Pure.

`services/job_service/causes` finds them.
"""

from __future__ import annotations

from enum import StrEnum


class CauseKind(StrEnum):
    """What makes a job unhealthy. Of causes that are equally sure, the first in this order is shown first: what is
    further from the job explains more jobs. A new kind needs a row in `services/job_service/causes/README.md`."""

    PROCESS_DOWN = "process_down"
    NO_ROOM = "no_room"
    BAD_CONTAINER = "bad_container"
    HELD_BY_LAYER = "held_by_layer"
    CHANGE_FAILED = "change_failed"
    RECENT_CHANGE = "recent_change"
    KAFKA_LOGIN = "kafka_login"
    UPSTREAM = "upstream"
    HOST_ENDED = "host_ended"
    MALFORMED_INPUT = "malformed_input"
    LATE_ROWS = "late_rows"
    OUT_OF_MEMORY = "out_of_memory"
    BAD_CODE = "bad_code"
    OUTPUT_ERROR = "output_error"
    INPUT_ERROR = "input_error"
    OTHER_ERROR = "other_error"
    HOT_KEY_GROUP = "hot_key_group"
    AT_LIMIT = "at_limit"
    TOO_SMALL = "too_small"
    MANY_JOBS = "many_jobs"
    CATCHING_UP = "catching_up"
    WARMING_UP = "warming_up"


class Certainty(StrEnum):
    """CERTAIN: the store says it, and it explains what is seen. LIKELY: measured, and it fits. POSSIBLE: it happens at
    the same time or place."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"
