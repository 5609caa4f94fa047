"""Who owns a checkpoint: every start of a task takes a token, and only the newest token may publish. Pure.

The FENCE file's first line is the token `<epoch>.<attempt>`, the second who holds it. The third line is the mark
`<commit number>.<generation>` of the newest commit that an owner followed. A new token is written under an fcntl lock
on FENCE.lock, and the JVM publishes under the same lock (`io.penstock.checkpoint.LockedFence`): so once a claim has
returned, no earlier start can publish anything, be it of an older epoch or of the same.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.control.errors import BrokenCheckpoint, Fenced

FENCE = "FENCE"


class Token(NamedTuple):
    """Tokens are ordered: by epoch, then by the attempts within it."""

    epoch: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.epoch}.{self.attempt}"


class Mark(NamedTuple):
    """The commit of running configurations that an owner follows: the one that asks for a task, or the stop that a
    redistribution into `generation` follows. Marks are ordered by both."""

    commit_number: int
    generation: int = 0

    def __str__(self) -> str:
        return f"{self.commit_number}.{self.generation}"


BEFORE_ALL_STOPS = Mark(0)
"""Of a copy of state into a new generation: a redistribution into it follows a stop, and then no copy may begin."""


def require_newest(fence: str, token: str, checkpoint: str) -> None:
    """Raises Fenced unless `token` is that of a FENCE file's content."""
    if fence.split("\n", 1)[0] != token:
        raise Fenced(f"FENCED: token {token} of {checkpoint} was replaced by {fence.split()[0]}")


def claimed(
    current: str | None, checkpoint: str, epoch: int | None, holder: str, mark: Mark | None
) -> tuple[Token, str]:
    """The token of a claim and the FENCE file's content after it, given the content before (None: no such file).

    Raises what `penstock.spark.files.LocalFiles.claim` raises.
    """
    token = next_token(current, epoch, checkpoint)
    newest = None if current is None else parse_mark(current)
    if newest is not None and mark is not None:
        if epoch is None and mark < newest:
            raise Fenced(f"FENCED: {checkpoint} has an owner of commit {newest}, and {mark} is older")
        newest = max(newest, mark)
    lines = (token, holder, newest or mark)
    return token, "".join(f"{line}\n" for line in lines if line is not None)


def parse_mark(text: str) -> Mark | None:
    """The mark in a FENCE file's content; None when no owner had one. Raises ValueError when there is another text."""
    lines = text.splitlines()
    if len(lines) < 3:
        return None
    commit_number, generation = lines[2].split(".")
    return Mark(int(commit_number), int(generation))


def parse_fence(text: str) -> Token:
    """The token of a FENCE file's content. Raises ValueError when there is none."""
    epoch, attempt = text.split("\n", 1)[0].split(".")
    return Token(int(epoch), int(attempt))


def next_token(current: str | None, epoch: int | None, checkpoint: str) -> Token:
    """The token that a claim of `epoch` gets, given the FENCE file's content; None when there is no such file.

    An epoch of None is the one that the file has, or 0.

    Raises Fenced when a greater epoch holds it, BrokenCheckpoint when the content is no fence.
    """
    if current is None:
        return Token(epoch or 0, 1)
    try:
        held = parse_fence(current)
    except ValueError as error:
        raise BrokenCheckpoint(f"the FENCE of {checkpoint} is unreadable: {current!r}") from error
    if epoch is None:
        return Token(held.epoch, held.attempt + 1)
    if held.epoch > epoch:
        raise Fenced(f"FENCED: epoch {epoch} is older than {held.epoch}, which owns {checkpoint}")
    return Token(epoch, held.attempt + 1 if held.epoch == epoch else 1)
