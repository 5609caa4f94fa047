"""Where the malformed records of a job go. Pure."""

from __future__ import annotations

from penstock.config.model import JobConfig


def dead_letter_topic(job: str, config: JobConfig) -> str:
    """The topic that the job names, or one of its own."""
    return config.dead_letter_topic or f"{job}.dead-letters"
