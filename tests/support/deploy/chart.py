"""The Helm chart, and what it makes of the values of the tests.

`tests/unit/deploy/rendered.yaml` is what helm made of the chart, so that tests need no helm. Its first line has the
digest of what it was made of. `make chart` writes it again; a long test compares it with a new one.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from penstock.local.jars import share_dir

_ROOT = Path(__file__).parents[3]
CHART = _ROOT / "deploy" / "helm" / "penstock"
VALUES = _ROOT / "tests" / "unit" / "deploy" / "values.yaml"
RENDERED = VALUES.with_name("rendered.yaml")
RELEASE = "cell"
KUBERNETES = "1.33"
"""The release of Kubernetes by whose schemas the objects are checked."""


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def tools() -> Path:
    """Where `deploy/setup/chart_tools.py` puts helm, and the schemas of Kubernetes."""
    return share_dir() / "chart"


def helm(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs helm, with its output as text."""
    return subprocess.run([tools() / "helm", *words], capture_output=True, text=True, check=False)


def render() -> str:
    """What the file has to be: one document for each object. Raises RuntimeError with the words of helm."""
    made = helm("template", RELEASE, CHART, "--is-upgrade", "--values", VALUES)
    if made.returncode != 0:
        raise RuntimeError(made.stderr)
    objects = [each for each in yaml.safe_load_all(made.stdout) if each]
    documents = yaml.dump_all(objects, Dumper=_Plain, default_flow_style=None, width=120, sort_keys=False)
    return f"# Made by `make chart` of the chart {digest()}\n{documents}"


def digest() -> str:
    """SHA-256 of all files of the chart, and of the values."""
    found = hashlib.sha256()
    for path in [*sorted(each for each in CHART.rglob("*") if each.is_file()), VALUES]:
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def rendered() -> list[dict[str, Any]]:
    """The objects of the file."""
    return list(yaml.load_all(RENDERED.read_text(), yaml.CSafeLoader))


def main() -> None:
    """Writes the file."""
    RENDERED.write_text(render())
    print(f"wrote {RENDERED.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
