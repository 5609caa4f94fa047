"""Dependencies of a package: wheels that `pack` has pip resolve, in the package's archive below `_dependencies/`.

They are of the Python and the platform on which they were packed, as wheels are. A host loads its own libraries before
a package's: so `pack` has pip keep to the versions of those, and a host refuses an archive that was packed with others.
No pyspark is imported here.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path

from penstock.control.errors import BrokenTask, InvalidConfig

PREFIX = "_dependencies/"
PLATFORM = f"{PREFIX}PLATFORM"
"""In an archive with machine code: what it was made for."""
FIELD = "requirements"
_HOST = "penstock.spark.host.__main__"
MACHINE_CODE = (".so", ".pyd", ".dylib", ".dll")
"""How names of files with machine code end."""
# What says how or where they were installed; it differs between machines.
_LEFT_OUT = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
_LONGEST_SECONDS = 900.0
_unpacking = threading.Lock()
_LOADED = f"""
import sys
import {_HOST}
from importlib.metadata import packages_distributions, version
known = packages_distributions()
names = {{name for module in sys.modules for name in known.get(module.partition(".")[0], ())}}
print("\\n".join(f"{{name}}=={{version(name)}}" for name in sorted(names) if name != "penstock"))
"""


@contextmanager
def resolved(requirements: Path) -> Iterator[Path]:
    """A folder with the wheels of a requirements file, unpacked, until the end of the block.

    pip is asked as it is configured. With hashes in the file it installs nothing else. Raises InvalidConfig when the
    file is missing or pip cannot resolve it, e.g. since a host needs another version of a library.
    """
    if not requirements.is_file():
        raise InvalidConfig(f"there is no file {requirements}", field=FIELD, rule="exists")
    with tempfile.TemporaryDirectory(prefix="penstock-pack-") as folder:
        pins, site = Path(folder) / "pins.txt", Path(folder) / "site"
        pins.write_text(_run([sys.executable, "-c", _LOADED]))
        _run(
            [
                *(sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"),
                *("--only-binary", ":all:", "--target", str(site)),
                *("--constraint", str(pins), "--requirement", str(requirements)),
            ]
        )
        yield site


def entries(site: Path) -> Iterator[tuple[str, bytes]]:
    """The files of unpacked wheels, as an archive has them, by name."""
    files = sorted(path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file())
    kept = [name for name in files if _belongs(name)]
    for name in kept:
        yield PREFIX + name, (site / name).read_bytes()
    if any(name.endswith(MACHINE_CODE) for name in kept):
        yield PLATFORM, platform().encode()


def _belongs(name: str) -> bool:
    """Scripts name the Python of the machine, and nobody calls them."""
    path = Path(name)
    return path.parts[0] != "bin" and "__pycache__" not in path.parts and path.name not in _LEFT_OUT


def platform() -> str:
    """What machine code is made for, here: the Python and the platform."""
    return f"{sys.implementation.cache_tag} {sysconfig.get_platform()}"


def unpack(package: Path, scratch: Path | None) -> Path | None:
    """The dependencies of a package in a folder of this process, below `scratch` or the system's; None without any.

    Tasks of one package may ask at once, and get the same folder. Raises BrokenTask when the dependencies were made for
    another Python or platform, or need another version of a library than this process has loaded.
    """
    with _unpacking:
        return _unpacked(package, scratch)


@cache
def _unpacked(package: Path, scratch: Path | None) -> Path | None:
    with zipfile.ZipFile(package) as archive:
        names = [name for name in archive.namelist() if name.startswith(PREFIX)]
        if not names:
            return None
        if PLATFORM in names and (made_for := archive.read(PLATFORM).decode()) != platform():
            raise BrokenTask(
                f"package: {package.name} has machine code for {made_for}, and this host is {platform()}: pack it on "
                "such a machine",
                rule="package_platform",
            )
        folder = Path(tempfile.mkdtemp(prefix="dependencies-", dir=scratch))
        try:
            archive.extractall(folder, names)
            _require_loaded_versions(package.name, folder / PREFIX)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # the next start of the task unpacks them again
            raise
    return folder / PREFIX


def _require_loaded_versions(name: str, site: Path) -> None:
    others = list(other_versions(site, loaded()))
    if others:
        raise BrokenTask(
            f"package: {name} has {', '.join(others)}: pack it again with this release, under a new version",
            rule="package_dependencies",
        )


def other_versions(site: Path, present: Mapping[str, str]) -> Iterator[str]:
    """The libraries in `site` of which this process has loaded another version. `present`: versions by name."""
    for each in metadata.distributions(path=[str(site)]):
        name = _normal(each.metadata["Name"])
        if name in present and present[name] != each.version:
            yield f"{name} {each.version}, where this host has {present[name]}"


def loaded() -> dict[str, str]:
    """The version of each library that this process has loaded modules of, by its normal name."""
    known = metadata.packages_distributions()
    names = {name for module in list(sys.modules) for name in known.get(module.partition(".")[0], ())}
    return {_normal(name): metadata.version(name) for name in names}


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _run(command: list[str]) -> str:
    """What a command prints. Raises InvalidConfig with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_SECONDS, check=False)
    if done.returncode:
        raise InvalidConfig(
            f"pip cannot resolve them: {_reason(done.stdout, done.stderr)}", field=FIELD, rule="resolvable"
        )
    return done.stdout


def _reason(output: str, errors: str) -> str:
    """What pip says of a conflict, which is in its output; else its errors."""
    conflict = output.partition("The conflict is caused by:\n")[2].partition("\n\n")[0]
    lines = [line.strip() for line in (conflict or errors).splitlines() if line.strip()]
    told = [line for line in lines if conflict or line.startswith("ERROR")] or lines[-3:]
    return "; ".join(line.removeprefix("ERROR: ") for line in told)
