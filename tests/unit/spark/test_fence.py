"""Claims: who gets which token, also when many ask at once."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from penstock.control.errors import BrokenCheckpoint, Fenced
from penstock.spark.fence import BEFORE_ALL_STOPS, FENCE, Mark, Token, claimed, next_token, parse_fence
from penstock.spark.files import LOCAL_FILES

PROCESSES, CLAIMS_EACH = 4, 25
CLAIM_OFTEN = """
import sys
from penstock.spark.files import LOCAL_FILES
for _ in range(int(sys.argv[2])):
    print(LOCAL_FILES.claim(sys.argv[1], 7, "process"))
"""


@pytest.mark.parametrize(
    ("current", "epoch", "expected"),
    [
        (None, 5, Token(5, 1)),
        ("5.1\nhost a\n", 5, Token(5, 2)),
        ("5.9\nhost a\n", 5, Token(5, 10)),
        ("5.9\nhost a\n", 6, Token(6, 1)),
        ("5.9", 12, Token(12, 1)),
    ],
)
def test_next_token(current: str | None, epoch: int, expected: Token) -> None:
    assert next_token(current, epoch, "checkpoint") == expected


def test_an_older_epoch_is_fenced() -> None:
    with pytest.raises(Fenced, match=r"^FENCED: epoch 9 is older than 10"):
        next_token("10.1\nhost b\n", 9, "checkpoint")


@pytest.mark.parametrize("text", ["", "garbage", "5\nhost", "a.b\n"])
def test_an_unreadable_fence_is_not_overwritten(tmp_path: Path, text: str) -> None:
    (tmp_path / FENCE).write_text(text)
    with pytest.raises(BrokenCheckpoint):
        LOCAL_FILES.claim(str(tmp_path), 99, "host")
    assert (tmp_path / FENCE).read_text() == text


def test_a_story_of_three_owners(tmp_path: Path) -> None:
    """1. A starts. 2. A starts again. 3. B gets the shard. 4. A, which does not know, is refused; B still owns it."""
    checkpoint = f"file:{tmp_path}/job/g1/task-0"
    assert LOCAL_FILES.claim(checkpoint, 1, "host a") == "1.1"
    assert LOCAL_FILES.claim(checkpoint, 1, "host a") == "1.2"
    assert LOCAL_FILES.claim(checkpoint, 2, "host b") == "2.1"
    with pytest.raises(Fenced):
        LOCAL_FILES.claim(checkpoint, 1, "host a")
    assert (tmp_path / "job/g1/task-0" / FENCE).read_text() == "2.1\nhost b\n"


def test_no_two_threads_get_the_same_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = list(pool.map(lambda _: LOCAL_FILES.claim(str(tmp_path), 3, "thread"), range(80)))
    assert sorted(map(parse_fence, tokens)) == [Token(3, attempt) for attempt in range(1, 81)]


def test_no_two_processes_get_the_same_token(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CLAIM_OFTEN, str(tmp_path), str(CLAIMS_EACH)]
    children = [Popen(command, stdout=PIPE, text=True) for _ in range(PROCESSES)]
    tokens = [parse_fence(line) for child in children for line in child.communicate(timeout=60)[0].splitlines()]
    assert sorted(tokens) == [Token(7, attempt) for attempt in range(1, PROCESSES * CLAIMS_EACH + 1)]


@pytest.mark.parametrize(
    ("current", "epoch", "mark", "after"),
    [
        (None, 3, Mark(6), "3.1\nh\n6.0\n"),
        (None, None, None, "0.1\nh\n"),
        ("3.1\nother\n", None, Mark(5, 2), "3.2\nh\n5.2\n"),
        ("3.1\nother\n5.0\n", None, Mark(5, 2), "3.2\nh\n5.2\n"),
        ("3.1\nother\n5.2\n", None, Mark(5, 2), "3.2\nh\n5.2\n"),
        ("3.1\nother\n5.2\n", None, None, "3.2\nh\n5.2\n"),
        ("3.1\nother\n6.0\n", 4, Mark(5), "4.1\nh\n6.0\n"),
        ("3.1\nother\n6.0\n", None, Mark(5, 9), None),
        ("3.1\nother\n5.3\n", None, Mark(5, 2), None),
        (None, None, BEFORE_ALL_STOPS, "0.1\nh\n0.0\n"),
        ("0.1\nother\n0.0\n", None, BEFORE_ALL_STOPS, "0.2\nh\n0.0\n"),
        ("0.1\nother\n0.0\n", None, Mark(5, 2), "0.2\nh\n5.2\n"),
        ("0.2\nother\n5.2\n", None, BEFORE_ALL_STOPS, None),
    ],
)
def test_a_claim_without_an_epoch_follows_no_older_commit(
    current: str | None, epoch: int | None, mark: Mark | None, after: str | None
) -> None:
    """A redistribution follows a stop; whoever followed a newer commit, or a newer attempt, keeps the checkpoint."""
    if after is None:
        with pytest.raises(Fenced, match="is older"):
            claimed(current, "checkpoint", epoch, "h", mark)
    else:
        token, content = claimed(current, "checkpoint", epoch, "h", mark)
        assert (content, str(token)) == (after, after.split("\n")[0])
