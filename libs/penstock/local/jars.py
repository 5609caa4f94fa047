"""The JVM pieces: jars pinned in `ivy.xml` and `jars.sha256`, and the project's own few Java classes.

`python -m penstock.local.jars` brings `<share>/jars` up to date; a second run finds its stamps and does nothing.
pyspark ships Ivy, so no Maven is needed. Ivy is given exact revisions and no transitive dependencies, and each file
must have the digest of `jars.sha256`: what runs is what was tested.

    <share>/jars/spark      the Kafka connector, Delta and Protobuf, for Spark's class path
    <share>/jars/kafka      the embedded Kafka server (another client version than Spark's: kept apart)
    <share>/jars/junit      the runner of the Java unit tests
    <share>/jars/penstock   penstock.jar, compiled from `penstock/spark/jvm`
    <share>/jars/web        scripts of the console as WebJars; `penstock.local.web` unpacks them into `<share>/web`

`python -m penstock.local.jars s3 gcs abfs` also brings those for object stores, each into a folder of its name.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from penstock.control.errors import TerminalError
from penstock.local.progress import Step
from penstock.local.settings import LocalSettings
from penstock.local.web import unpack
from penstock.spark.settings import QUICK_JVM

JAVA_RELEASE = 17
_PINS = Path(__file__).with_name("ivy.xml")
_SETTINGS = Path(__file__).with_name("ivysettings.xml")
_DIGESTS = Path(__file__).with_name("jars.sha256")
_SOURCES = Path(__file__).parents[1] / "spark" / "jvm"
_STAMP = ".stamp"
_FETCHED = ("spark", "kafka", "junit", "web")
_ON_REQUEST = ("s3", "gcs", "abfs", "hdfs", "avro")
_FETCH_SECONDS = 30
_COMPILE_SECONDS = 15


def share_dir() -> Path:
    """The folder for fetched and built parts: `<sys.prefix>/share/penstock`, or the setting `PENSTOCK_SHARE`."""
    return LocalSettings().share


def java_home() -> Path:
    """The home of a JDK 17: `JAVA_HOME`, Debian's usual folders, then PATH. Raises `TerminalError` when none is."""
    for candidate in _java_candidates():
        if _is_jdk(candidate):
            return candidate
    raise TerminalError(
        f"no JDK {JAVA_RELEASE} found: install one (Debian: openjdk-{JAVA_RELEASE}-jdk-headless) or set JAVA_HOME to it"
    )


def spark_jars() -> list[Path]:
    """The jars to put on Spark's class path: Kafka connector, Delta, penstock.jar. `TerminalError` if missing."""
    jars = _jars_of("spark")
    own = _own_jar()
    return [*jars, own] if own.exists() else jars


def kafka_classpath() -> str:
    """The class path of the embedded Kafka server. Raises `TerminalError` when it was not fetched."""
    return _join(_jars_of("kafka"))


def fetch_jars() -> bool:
    """Fetch what `ivy.xml` pins unless the stamp is current; True when something was done.

    Raises `TerminalError` when a jar cannot be fetched or is not the one that `jars.sha256` describes.
    """
    return _fetch(_FETCHED, share_dir() / "jars" / _STAMP)


def fetch_store_jars(names: Sequence[str]) -> bool:
    """Fetch the jars of file systems, `s3`, `gcs` or `abfs`, unless their stamps are current; True when something was
    done. Those of `hdfs` and `avro` are for tests and benches.

    Raises `TerminalError` for another name, and as `fetch_jars`.
    """
    if unknown := sorted(set(names).difference(_ON_REQUEST)):
        raise TerminalError(f"there are no jars for {', '.join(unknown)}; there are for {', '.join(_ON_REQUEST)}")
    done = [_fetch((name,), share_dir() / "jars" / f"{_STAMP}-{name}") for name in names]
    return any(done)


def _fetch(names: Sequence[str], stamp: Path) -> bool:
    folder, wanted = share_dir() / "jars", _digest([_PINS, _DIGESTS])
    if _reads(stamp, wanted):
        return False
    total = len(_expected(names))
    with (
        Step(f"fetching {total} jars", about_seconds=_FETCH_SECONDS) as step,
        tempfile.TemporaryDirectory(prefix="penstock-jars-") as fresh,
    ):
        before = _fetched()
        step.count(lambda: f"{min(total, max(0, _fetched() - before))}/{total} jars")
        _run_ivy(Path(fresh), names)
        verify_jars(Path(fresh), names)
        for name in names:
            shutil.rmtree(folder / name, ignore_errors=True)
            shutil.copytree(Path(fresh) / name, folder / name)
    stamp.write_text(wanted)
    return True


def _expected(names: Sequence[str]) -> dict[str, str]:
    return {path: digest for path, digest in _read_digests() if path.partition("/")[0] in names}


def verify_jars(folder: Path, names: Sequence[str] = _FETCHED) -> None:
    """Check `folder/{spark,kafka,junit,web}` against `jars.sha256`: same files, same bytes, else `TerminalError`."""
    expected = _expected(names)
    jars = [path for name in names for path in sorted((folder / name).glob("*.jar"))]
    actual = {str(path.relative_to(folder)): _digest([path]) for path in jars}
    wrong = sorted(name for name in expected.keys() | actual.keys() if expected.get(name) != actual.get(name))
    if wrong:
        raise TerminalError(f"jars that are missing, not expected, or changed: {', '.join(wrong)}")


def build_penstock_jar() -> bool:
    """Compile the project's Java into penstock.jar unless no source changed; True when something was done.

    `META-INF` goes in as it is. Raises `TerminalError` with the compiler's words when a source does not compile.
    """
    sources = sorted(_SOURCES.rglob("*.java"))
    resources = [path for path in sorted((_SOURCES / "META-INF").rglob("*")) if path.is_file()]
    target = _own_jar()
    stamp, wanted = target.with_name(_STAMP), _digest([*sources, *resources, _PINS])
    if not sources or (target.exists() and _reads(stamp, wanted)):
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        Step(f"compiling {len(sources)} Java files", about_seconds=_COMPILE_SECONDS),
        tempfile.TemporaryDirectory(prefix="penstock-javac-") as classes,
    ):
        compile_java(sources, [], Path(classes))
        shutil.copytree(_SOURCES / "META-INF", Path(classes) / "META-INF", dirs_exist_ok=True)
        _pack(Path(classes), target)
    stamp.write_text(wanted)
    return True


def compile_java(sources: list[Path], more_jars: list[Path], classes: Path) -> None:
    """Compile Java sources against Spark, the fetched Spark jars and `more_jars` into the folder `classes`.

    Raises `TerminalError` with the compiler's words when a source does not compile.
    """
    classpath = _join([pyspark_home() / "jars" / "*", *_jars_of("spark"), *more_jars])
    options = ["--release", str(JAVA_RELEASE), "-nowarn", "-proc:none", "-cp", classpath, "-d", str(classes)]
    _run(
        [_tool("javac"), *(f"-J{option}" for option in QUICK_JVM), *options, *map(str, sources)],
        "the java sources do not compile",
    )


def pyspark_home() -> Path:
    """The folder of the installed pyspark package, found without importing it. Raises `TerminalError` if missing."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise TerminalError("pyspark is not installed")
    return Path(spec.origin).parent


def _java_candidates() -> Iterator[Path]:
    preferred = LocalSettings().java_home
    if preferred is not None:
        yield preferred
    yield from sorted(Path("/usr/lib/jvm").glob(f"*{JAVA_RELEASE}*"))
    compiler = shutil.which("javac")
    if compiler is not None:
        yield Path(compiler).resolve().parents[1]


def _is_jdk(home: Path) -> bool:
    release = home / "release"
    if not (home / "bin" / "javac").exists() or not release.exists():
        return False
    return re.search(rf'^JAVA_VERSION="{JAVA_RELEASE}[."]', release.read_text(), re.MULTILINE) is not None


def _jars_of(name: str) -> list[Path]:
    jars = sorted((share_dir() / "jars" / name).glob("*.jar"))
    if not jars:
        raise TerminalError(f"the {name} jars are missing: run `make setup`")
    return jars


def _own_jar() -> Path:
    return share_dir() / "jars" / "penstock" / "penstock.jar"


def _ivy_cache() -> Path:
    return share_dir() / "jars" / ".ivy"


def _fetched() -> int:
    """Jars in Ivy's cache; those of earlier pins count too."""
    return sum(1 for _ in _ivy_cache().rglob("*.jar"))


def _run_ivy(target: Path, names: Sequence[str]) -> None:
    """Fetches the jars. Ivy's cache is kept beside them, so the next fetch goes on where an aborted one ended."""
    cache = _ivy_cache()
    cache.mkdir(parents=True, exist_ok=True)
    pattern = f"{target}/[conf]/[artifact]-[revision].[ext]"
    classpath = str(pyspark_home() / "jars" / "*")
    options = ["-warn", "-settings", str(_SETTINGS), "-ivy", str(_PINS), "-cache", str(cache), "-retrieve", pattern]
    options += ["-confs", *names]
    _run([_tool("java"), *QUICK_JVM, "-cp", classpath, "org.apache.ivy.Main", *options], "jars cannot be fetched")


def _pack(classes: Path, target: Path) -> None:
    """The jar gets its name in one step: two processes may pack it at once."""
    with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent) as folder:
        fresh = Path(folder) / target.name
        _run([_tool("jar"), "--create", "--file", str(fresh), "-C", str(classes), "."], "penstock.jar cannot be packed")
        fresh.replace(target)


def _tool(name: str) -> str:
    return str(java_home() / "bin" / name)


def _run(command: list[str], failure: str) -> None:
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise TerminalError(f"{failure}:\n{(result.stdout + result.stderr)[-4000:]}")


def _read_digests() -> Iterator[tuple[str, str]]:
    for line in _DIGESTS.read_text().splitlines():
        digest, name = line.split()
        yield name, digest


def _digest(paths: Iterable[Path]) -> str:
    """SHA-256 of the files' bytes, one after the other; for several files also of their names."""
    files = list(paths)
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() if len(files) > 1 else b"")
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _reads(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def _join(paths: Iterable[Path]) -> str:
    return ":".join(map(str, paths))


def main() -> None:
    """Bring the jars up to date; end with the error's one message where that is not possible."""
    try:
        fetch_jars()
        unpack(share_dir())
        build_penstock_jar()
        fetch_store_jars(sys.argv[1:])
    except TerminalError as error:
        raise SystemExit(error.detail) from error


if __name__ == "__main__":
    main()
