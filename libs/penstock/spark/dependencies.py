"""Dependencies of a package: wheels that `pack` has pip resolve, in the package's archive below `_dependencies/`.

They are of the Python and the platform on which they were packed, as wheels are. A host that runs the package has them
in front of its own libraries (`environments.py`). So `pack` has pip keep to the versions that a host can work with, and
tries whether a host can start with them. No pyspark is imported here.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion

from penstock.control.errors import BrokenTask, InvalidConfig
from penstock.spark.bundle import PLATFORM, PREFIX, libraries, names_in, opened
from penstock.spark.interpreter import command_of, skeleton
from penstock.spark.settings import variables_for_code
from penstock.spark.stand_ins import remove_stand_ins, stand_ins

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
    allowed.write_text("\n".join((*stand_ins(_SHARED_DISTRIBUTIONS, scratch), *constraints(_loaded_by_hosts(_LOADED)))))
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


def require_usable(package: Path, spark_master: str) -> None:
    """Raises BrokenTask when no host of this machine and with this master can have the dependencies of a package, or
    they are of versions with which this release of Penstock does not work; OSError."""
    with opened(package) as archive:
        names = names_in(archive)
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
    if wrong := unfit(libraries(package)):
        raise BrokenTask(
            f"package: {package.name} has {', '.join(wrong)}, which this release of Penstock requires otherwise: pack "
            "it again with this release, under a new version",
            rule="package_versions",
        )


def unfit(found: Iterable[tuple[str, str]]) -> list[str]:
    """Those of the libraries with which a host of this release does not work, each with its version and `constraints`.

    As `pack` does, it looks only at what hosts load: that is found out, which takes seconds, when it decides.
    """
    versions = {_normal(name): version for name, version in found}
    broken = [line for line in constraints(versions) if not _fits(line, versions)]
    if not broken:
        return []
    loaded = {_normal(name) for name in (*_loaded_by_hosts(_LOADED), *_FOR_PANDAS)}
    named = ((_named(line), line) for line in broken)
    return [f"{name} {versions[name]} ({line})" for name, line in named if name in loaded]


def _fits(line: str, versions: Mapping[str, str]) -> bool:
    """Whether a library has a version that a line of `constraints` allows, or is not there."""
    name = _named(line)
    try:
        return name not in versions or SpecifierSet(line[len(name) :]).contains(versions[name], prereleases=True)
    except InvalidVersion:
        return False


def _named(line: str) -> str:
    match = _REQUIREMENT.match(line)
    return _normal(match[1]) if match else ""


def platform() -> str:
    """What machine code is made for, here: the Python and the platform."""
    return f"{sys.implementation.cache_tag} {sysconfig.get_platform()}"


def shared_libraries(names: Iterable[str]) -> list[str]:
    """Those of the names at the top of a folder of wheels that are modules or distributions of `SHARED`. Pure."""
    stems = ((name, _normal(name.split("-")[0].split(".")[0]).replace("-", "_")) for name in names)
    return sorted({stem for _, stem in stems if stem in SHARED})


def _shared_text(found: list[str]) -> str:
    return f"{', '.join(found)}: every host has its own, which fits its Spark, so a package may not bring another one"


def _belongs(name: str) -> bool:
    """Scripts name the Python of the machine, and nobody calls them."""
    path = Path(name)
    return path.parts[0] != "bin" and "__pycache__" not in path.parts and path.name not in _LEFT_OUT


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


@cache
def _loaded_by_hosts(code: str) -> tuple[str, ...]:
    """The libraries that a host loads, as `code` tells. Takes seconds the first time."""
    return tuple(_run([sys.executable, "-c", code], check=True).stdout.split())


def _try(site: Path, folder: Path) -> None:
    """Raises InvalidConfig when a host cannot start with these libraries in front of its own."""
    skeleton(folder, site)
    done = _run([*command_of(folder), "-c", _TRIAL], env=variables_for_code())
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise InvalidConfig(f"a host does not start with these libraries: {said}", field=FIELD, rule="host_starts")


def _run(
    command: list[str], *, check: bool = False, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_SECONDS, check=check, env=env)


def _reason(output: str, errors: str) -> str:
    """What pip says of a conflict, which is in its output; else its errors."""
    conflict = output.partition("The conflict is caused by:\n")[2].partition("\n\n")[0]
    lines = [line.strip() for line in (conflict or errors).splitlines() if line.strip()]
    told = [line for line in lines if conflict or line.startswith("ERROR")] or lines[-3:]
    return "; ".join(line.removeprefix("ERROR: ") for line in told)
