"""Where the malformed records of a job go. Pure."""

from __future__ import annotations

from penstock.config.model import JobConfig


def dead_letter_topic(job: str, config: JobConfig) -> str:
    """The topic that the job names, or one of its own."""
    return topic_or_own(job, config.dead_letter_topic)


def topic_or_own(job: str, named: str | None) -> str:
    """The same for what a configuration names."""
    return named or f"{job}.dead-letters"
