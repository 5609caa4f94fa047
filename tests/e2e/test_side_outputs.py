"""Side outputs that come and go while a job runs, by the commands of people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pytest

from penstock.control.process import wait_until
from tests.support.cli.terminal import Terminal
from tests.tidy.source import REPOSITORY

_FOLDER = REPOSITORY / "deploy" / "examples" / "parts"
_FED = f"penstock topics produce purchases {_FOLDER}/purchases.jsonl"
_RESULT_S = 60.0


@pytest.mark.long
def test_a_side_output_comes_and_goes_while_the_job_runs(terminal: Terminal, tmp_path: Path) -> None:
    """1. The job runs with one. 2. Another one comes: it gets the rows from then on, and the first one all. 3. The
    first one goes: its table stays as it is."""
    large = json.loads((_FOLDER / "job.json").read_text())
    small = {"where": "amount < 100", "output": {"type": "delta", "path": "${data_dir}/outputs/${job}-small"}}
    both = {**large, "side_outputs": {**large["side_outputs"], "small": small}}
    for topic in ("purchases", "purchases-clean"):
        terminal(f"penstock topics create {topic} --partitions 4")
    for step, (config, tables) in enumerate(
        (
            (large, {"sides": 4}),
            (both, {"sides": 8, "sides-small": 4}),
            ({**large, "side_outputs": {"small": small}}, {"sides": 8, "sides-small": 8}),
        ),
        start=1,
    ):
        (tmp_path / "job.json").write_text(json.dumps(config))
        terminal(f"penstock jobs apply sides {tmp_path}/job.json --wait")
        terminal(_FED)
        wait_until(lambda tables=tables: _counts(tables) == tables, _RESULT_S, f"the rows of step {step}")
        terminal(f"penstock topics consume purchases-clean --from-beginning --count {8 * step}")
    terminal("penstock jobs delete sides --wait")
    for topic in ("purchases", "purchases-clean"):
        terminal(f"penstock topics delete {topic}")


def _counts(tables: dict[str, Any]) -> dict[str, int]:
    return {name: _rows(f".penstock/outputs/{name}") for name in tables}


def _rows(path: str) -> int:
    if not deltalake.DeltaTable.is_deltatable(path):
        return 0
    return int(deltalake.DeltaTable(path).to_pyarrow_table().num_rows)
