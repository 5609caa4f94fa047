"""What a terminal shows below the lines of a command that waits: a bar, and for how long. A pipe gets nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from rich import progress
from rich.text import Text

from penstock.cli.output import err, out

Share = Callable[[], float | None]
"""How much is done, from 0 to 1; None while that is not known."""
Of = TypeVar("Of")
_WIDTH = 20
_PER_SECOND = 4


def unknown() -> None:
    """The share of what cannot be counted: the bar moves to and fro."""


class _What(progress.ProgressColumn):
    """Asks what is done as often as it is drawn."""

    def __init__(self, what: str | Callable[[], str]) -> None:
        super().__init__()
        self._what = what

    def render(self, task: progress.Task) -> Text:
        """The words of this moment; nothing in them is markup."""
        return Text(self._what if isinstance(self._what, str) else self._what())


class _Done(progress.BarColumn):
    """Asks how much is done as often as it is drawn."""

    def __init__(self, share: Share) -> None:
        super().__init__(_WIDTH)
        self._share = share

    def render(self, task: progress.Task) -> Any:
        """The bar of this moment."""
        done = self._share()
        task.total, task.completed = (None, 0.0) if done is None else (1.0, done)
        return super().render(task)


@contextmanager
def shown(what: str | Callable[[], str], share: Share = unknown) -> Iterator[None]:
    """Shows the bar while the body runs; lines of `say` appear above it."""
    columns = (progress.SpinnerColumn(), _What(what), _Done(share), progress.TimeElapsedColumn())
    with progress.Progress(
        *columns, console=out, transient=True, refresh_per_second=_PER_SECOND, disable=not out.is_terminal
    ) as bar:
        bar.add_task("", total=None)
        yield


@contextmanager
def counting(what: str, items: Sequence[Of]) -> Iterator[Iterator[Of]]:
    """The items one by one, with a bar of how many are done; `what`: such as `writing jobs`."""
    done = [0]

    def each() -> Iterator[Of]:
        for item in items:
            yield item
            done[0] += 1

    with shown(lambda: f"{what}: {done[0]} of {len(items)}", lambda: done[0] / len(items) if items else None):
        yield each()


@contextmanager
def opened(file: Path) -> Iterator[IO[str]]:
    """A file of text, with a bar of how much of it is read; it may be read again."""
    with progress.open(
        file, "r", description=f"reading {file.name}", console=err, transient=True, disable=not err.is_terminal
    ) as stream:
        yield stream
