"""Rules, their tests, the configuration and all queries of the dashboards, by promtool of Debian's package."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from deploy.grafana.build import DASHBOARDS
from tests.support.stack.prometheus import FOLDER, tool


def promtool(*words: str | Path) -> str:
    """What it says; it must find nothing wrong."""
    done = subprocess.run([tool("promtool"), *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_finds_nothing_wrong(tmp_path: Path) -> None:
    """1. The configuration with the rules. 2. What the rules make of series. 3. The queries of the dashboards, as
    rules of a file."""
    for name in ("prometheus.yml", "compose.yml"):
        assert "valid prometheus config file" in promtool("check", "config", "--syntax-only", name)
    assert "SUCCESS" in promtool("test", "rules", "penstock.rules.test.yml")
    queries = [query for page in DASHBOARDS for panel in page.panels for query in panel.queries.values()]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"{len(queries)} rules found" in promtool("check", "rules", path)
