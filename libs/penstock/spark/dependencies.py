"""Dependencies of a package: wheels that `pack` has pip resolve, in the package's archive below `_dependencies/`.

They are of the Python and the platform on which they were packed, as wheels are. A host that runs the package has them
in front of its own libraries (`environments.py`). So `pack` has pip keep to the versions that a host can work with, and
tries whether a host can start with them. No pyspark is imported here.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from penstock.control.errors import BrokenTask, InvalidConfig
from penstock.spark.interpreter import command_of, skeleton
from penstock.spark.stand_ins import remove_stand_ins, stand_ins

PREFIX = "_dependencies/"
PLATFORM = f"{PREFIX}PLATFORM"
"""In an archive with machine code: what it was made for."""
FIELD = "requirements"
_HOST = "penstock.spark.host.__main__"
MACHINE_CODE = (".so", ".pyd", ".dylib", ".dll")
"""How names of files with machine code end."""
_SHARED_DISTRIBUTIONS = frozenset({"delta_spark", "penstock", "py4j", "pyspark"})
SHARED = _SHARED_DISTRIBUTIONS | {"delta", "pyspark_client", "pyspark_connect"}
"""Modules and distributions, by normal name, that a host shares with Spark's JVM: every host has its own."""
# What says how or where they were installed; it differs between machines.
_LEFT_OUT = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
_LONGEST_SECONDS = 900.0
_PART_BYTES = 2**20
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*([^;]*)")
_LOADED = f"""
import sys
import {_HOST}
from importlib.metadata import packages_distributions
known = packages_distributions()
print("\\n".join(sorted({{name for module in sys.modules for name in known.get(module.partition(".")[0], ())}})))
"""
_TRIAL = f"""
import {_HOST}
from pyspark.sql.pandas.utils import require_minimum_pandas_version, require_minimum_pyarrow_version
require_minimum_pandas_version()
require_minimum_pyarrow_version()
"""
_EXTRA_OF_HOSTS = 'extra == "sql"'
_FOR_PANDAS = ("numpy", "pandas", "pyarrow")


@contextmanager
def resolved(requirements: Path) -> Iterator[Path]:
    """A folder with the wheels of a requirements file, unpacked, until the end of the block.

    pip is asked as it is configured. With hashes in the file it installs nothing else. Raises InvalidConfig when the
    file is missing, pip cannot resolve it, what comes of it is a library of `SHARED`, or no host starts with it.
    """
    if not requirements.is_file():
        raise InvalidConfig(f"there is no file {requirements}", field=FIELD, rule="exists")
    with tempfile.TemporaryDirectory(prefix="penstock-pack-") as folder:
        site = Path(folder) / "site"
        site.mkdir()
        _install(requirements, site, Path(folder))
        if found := shared_libraries(path.name for path in site.iterdir()):
            raise InvalidConfig(_shared_text(found), field=FIELD, rule="shared_library")
        _try(site, Path(folder) / "trial")
        yield site


def _install(requirements: Path, site: Path, scratch: Path) -> None:
    """Has pip install into `site` what the requirements name, but for what every host has. Raises InvalidConfig."""
    allowed = scratch / "allowed.txt"
    allowed.write_text("\n".join((*stand_ins(_SHARED_DISTRIBUTIONS, scratch), *constraints(_loaded_by_hosts()))))
    done = _run(
        [
            *(sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"),
            *("--only-binary", ":all:", "--find-links", str(scratch), "--target", str(site)),
            *("--constraint", str(allowed), "--requirement", str(requirements)),
        ]
    )
    if done.returncode:
        detail = f"pip cannot resolve them: {_reason(done.stdout, done.stderr)}"
        raise InvalidConfig(detail, field=FIELD, rule="resolvable")
    remove_stand_ins(site)


def constraints(names: Collection[str]) -> list[str]:
    """What the platform and pyspark require of these libraries, as lines of a pip constraints file."""
    wanted = {_normal(name) for name in (*names, *_FOR_PANDAS)}
    required = [each for owner in ("penstock", "pyspark") for each in metadata.requires(owner) or ()]
    found = (_REQUIREMENT.match(each) for each in required if "extra ==" not in each or _EXTRA_OF_HOSTS in each)
    shared = {_normal(name) for name in _SHARED_DISTRIBUTIONS}
    lines = {f"{match[1]}{match[2].strip()}" for match in found if match and _normal(match[1]) in wanted - shared}
    return sorted(lines)


def entries(site: Path) -> Iterator[tuple[str, bytes]]:
    """The files of unpacked wheels, as an archive has them, by name."""
    files = sorted(path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file())
    kept = [name for name in files if _belongs(name)]
    for name in kept:
        yield PREFIX + name, (site / name).read_bytes()
    if any(name.endswith(MACHINE_CODE) for name in kept):
        yield PLATFORM, platform().encode()


def libraries(package: Path) -> list[str]:
    """The libraries in a package's archive, each as `name version`, by name."""
    found = re.compile(rf"{PREFIX}([^/]+)-([^/-]+)\.dist-info/METADATA")
    with zipfile.ZipFile(package) as archive:
        matches = [found.fullmatch(name) for name in archive.namelist()]
    return sorted(f"{match[1]} {match[2]}" for match in matches if match)


def has_dependencies(package: Path) -> bool:
    """Whether a package's archive has dependencies. Raises OSError, and BadZipFile for what is no archive."""
    with zipfile.ZipFile(package) as archive:
        return bool(_names(archive))


def content_of(package: Path) -> str | None:
    """A digest (sha256, hex) of the dependencies in a package's archive; None without any.

    Packages with the same dependencies have the same digest. Raises OSError and BadZipFile.
    """
    found = package.stat()
    return _content(package, (found.st_ino, found.st_mtime_ns, found.st_size))


@lru_cache(256)
def _content(package: Path, version: tuple[int, ...]) -> str | None:
    """`version`: another file of the same name is read again."""
    with zipfile.ZipFile(package) as archive:
        if not (names := _names(archive)):
            return None
        whole = hashlib.sha256()
        for name in sorted(names):
            whole.update(f"{_digest_in(archive, name)} {name}\n".encode())
    return whole.hexdigest()


def _digest_in(archive: zipfile.ZipFile, name: str) -> str:
    """Read bit by bit: libraries with machine code have files of 100 MB."""
    found = hashlib.sha256()
    with archive.open(name) as stream:
        while part := stream.read(_PART_BYTES):
            found.update(part)
    return found.hexdigest()


def require_usable(package: Path, spark_master: str) -> None:
    """Raises BrokenTask when no host of this machine and with this master can have the dependencies of a package."""
    with zipfile.ZipFile(package) as archive:
        names = _names(archive)
        made_for = archive.read(PLATFORM).decode() if PLATFORM in names else platform()
    if made_for != platform():
        raise BrokenTask(
            f"package: {package.name} has machine code for {made_for}, and this host is {platform()}: pack it on "
            "such a machine",
            rule="package_platform",
        )
    if names and not spark_master.startswith("local"):
        raise BrokenTask(
            f"package: {package.name} has dependencies, which executors on other machines ({spark_master}) do not "
            "get: install them there, and pack the package without them",
            rule="package_dependencies",
        )
    if found := shared_libraries(name.removeprefix(PREFIX).split("/")[0] for name in names):
        raise BrokenTask(f"package: {package.name}: {_shared_text(found)}", rule="shared_library")


def platform() -> str:
    """What machine code is made for, here: the Python and the platform."""
    return f"{sys.implementation.cache_tag} {sysconfig.get_platform()}"


def shared_libraries(names: Iterable[str]) -> list[str]:
    """Those of the names at the top of a folder of wheels that are modules or distributions of `SHARED`. Pure."""
    stems = ((name, _normal(name.split("-")[0].split(".")[0]).replace("-", "_")) for name in names)
    return sorted({stem for _, stem in stems if stem in SHARED})


def _shared_text(found: list[str]) -> str:
    return f"{', '.join(found)}: every host has its own, which fits its Spark, so a package may not bring another one"


def _names(archive: zipfile.ZipFile) -> list[str]:
    return [name for name in archive.namelist() if name.startswith(PREFIX)]


def _belongs(name: str) -> bool:
    """Scripts name the Python of the machine, and nobody calls them."""
    path = Path(name)
    return path.parts[0] != "bin" and "__pycache__" not in path.parts and path.name not in _LEFT_OUT


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _loaded_by_hosts() -> list[str]:
    """The libraries that a host loads."""
    return _run([sys.executable, "-c", _LOADED], check=True).stdout.split()


def _try(site: Path, folder: Path) -> None:
    """Raises InvalidConfig when a host cannot start with these libraries in front of its own."""
    skeleton(folder, site)
    done = _run([*command_of(folder), "-c", _TRIAL])
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise InvalidConfig(f"a host does not start with these libraries: {said}", field=FIELD, rule="host_starts")


def _run(command: list[str], *, check: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_SECONDS, check=check)


def _reason(output: str, errors: str) -> str:
    """What pip says of a conflict, which is in its output; else its errors."""
    conflict = output.partition("The conflict is caused by:\n")[2].partition("\n\n")[0]
    lines = [line.strip() for line in (conflict or errors).splitlines() if line.strip()]
    told = [line for line in lines if conflict or line.startswith("ERROR")] or lines[-3:]
    return "; ".join(line.removeprefix("ERROR: ") for line in told)
