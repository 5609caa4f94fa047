"""The job that counts rows by word, over a folder of files in place of a topic: a stream that several tasks read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.stack.counts import KEY_GROUPS, SCHEMA, CountJob

_MOST_FILES = 20


class FolderCountJob(CountJob):
    """Rows are in files of a folder below the outputs of the stack: as many as are sent at once are in one file."""

    def topics(self) -> list[str]:
        """That of the output: there is no other one."""
        return [f"{self.name}-out"]

    def config(self, task_count: int, trigger_interval_seconds: float) -> dict[str, Any]:
        """The job's base layer: the stream `rows` has key groups by the word."""
        shape = super().config(task_count, trigger_interval_seconds)
        del shape["inputs"]
        self._folder.mkdir(parents=True, exist_ok=True)
        stream = {"format": "json", "path": str(self._folder), "value_schema": SCHEMA}
        by_word = {"key_groups": KEY_GROUPS, "key_columns": ["word"], "max_files_per_batch": _MOST_FILES}
        return {**shape, "streams": {"rows": {**stream, **by_word}}}

    def _send(self, rows: int) -> None:
        ids = range(self._sent, self._sent + rows)
        made = self._folder.parent / f".{self.name}-{self._sent}.json"
        made.write_text("".join(f"{json.dumps({'word': self.word(each), 'id': each})}\n" for each in ids))
        made.rename(self._folder / f"{self._sent:09}.json")
        self._sent += rows

    @property
    def _folder(self) -> Path:
        return self._stack.data_dir / "outputs" / f"{self.name}-in"
