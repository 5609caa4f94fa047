"""Which jobs may use which secret. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.config.problems import Problem

ANY = "*"


def may_use(job: str, patterns: Sequence[str]) -> bool:
    """Whether a job is named, or begins with a pattern that ends with `*`."""
    return any(job.startswith(each[:-1]) if each.endswith(ANY) else job == each for each in patterns)


def secret_problems(job: str, secrets: Mapping[str, str], known: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Why a job may not use the secrets that it names. `known`: the patterns of jobs by the name of a secret."""
    for purpose, name in secrets.items():
        field = f"secrets.{purpose}"
        if name not in known:
            yield Problem(field, "known_secret", f"{field}: there is no secret {name}; an admin can add it")
        elif not may_use(job, known[name]):
            detail = f"{field}: the job {job} may not use the secret {name}; an admin can add the job to it"
            yield Problem(field, "may_use_secret", detail)
