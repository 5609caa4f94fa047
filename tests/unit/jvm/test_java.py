"""The Java unit tests below `java/`, compiled against penstock.jar and run by JUnit's console in one JVM."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

from penstock import spark
from penstock.local import jars

_SOURCES = Path(__file__).parent / "java"
_PRODUCT = Path(spark.__file__).parent / "jvm"


def test_every_java_unit_test_passes(tmp_path: Path):
    jars.build_penstock_jar()
    more = [*(jars.share_dir() / "jars" / "junit").glob("*.jar"), *jars.spark_jars()]
    classes = tmp_path / "classes"
    jars.compile_java(sorted(_SOURCES.rglob("*.java")), more, classes)
    output = _run_junit(classes, more, tmp_path / "reports")
    cases = _cases(tmp_path / "reports")
    assert cases, output
    failed = [name for name, passed in cases if not passed]
    assert not failed, f"{failed}\n{output}"


def test_one_package_uses_the_running_query_of_spark():
    """Spark's streaming internals have one door: a new version of Spark then needs changes in one place."""
    uses = re.compile(r"\b(StreamExecution|MicroBatchExecution|StreamingQueryWrapper|activeStreamingQueries)\b")
    users = {path.parent.name for path in _PRODUCT.rglob("*.java") if uses.search(path.read_text())}
    assert users == {"spark42"}


def _run_junit(classes: Path, more: list[Path], reports: Path) -> str:
    class_path = ":".join(map(str, [classes, *more, jars.pyspark_home() / "jars" / "*"]))
    command = [
        str(jars.java_home() / "bin" / "java"),
        *("-XX:TieredStopAtLevel=1", "-cp", class_path),
        *("org.junit.platform.console.ConsoleLauncher", "execute", "--scan-classpath", str(classes)),
        *("--details", "summary", "--disable-banner", "--reports-dir", str(reports)),
    ]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120)
    return result.stdout + result.stderr


def _cases(reports: Path) -> list[tuple[str, bool]]:
    """Name and outcome of every test that JUnit ran; a skipped one counts as not passed."""
    suites = [ElementTree.parse(path).getroot() for path in sorted(reports.glob("TEST-*.xml"))]
    cases = [case for suite in suites for case in suite.iter("testcase")]
    return [(f"{case.get('classname')}.{case.get('name')}", len(_bad(case)) == 0) for case in cases]


def _bad(case: ElementTree.Element) -> list[ElementTree.Element]:
    return [child for child in case if child.tag in ("failure", "error", "skipped")]
