"""Packages with versions of their own of libraries, beside each other: in the function that makes the query, in UDFs,
and in UDFs over pandas series. The wheels with machine code come from where pip is configured to look."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from penstock.config.model import JobConfig
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.settings import SparkSettings
from penstock.tasks.analysis import AnalysisReport, AnalysisRequest
from tests.support.spark.environments import in_environment, packed_with
from tests.support.spark.hosts import (
    REPLY_SECONDS,
    Supervisor,
    job_config,
    make_topic,
    produce,
    rows_of_files,
    run_host_task,
    running_host,
    settings_for,
    task_spec,
)
from tests.support.spark.wheels import wheel
from tests.support.spark.word_package import packed_words_with_wheels

ROWS = 8
OWN = {"numpy": "2.2.6", "pandas": "2.2.3", "pyarrow": "21.0.0"}
CODE = """
import json, sys
import manners, markupsafe, markupsafe._speedups, numpy, pandas, pyarrow
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

def seen():
    versions = {each.__name__: each.__version__ for each in (markupsafe, numpy, pandas, pyarrow)}
    own = markupsafe._speedups.__file__.startswith(sys.prefix)
    return json.dumps({**versions, "manners": manners.WORD, "own": own, "prefix": sys.prefix})

def seen_by_a_row(n):
    return seen()

def seen_by_series(n: pandas.Series) -> pandas.Series:
    return pandas.Series([seen()] * len(n))

def look(session, inputs, args):
    row, series = F.udf(seen_by_a_row, StringType()), F.pandas_udf(seen_by_series, StringType())
    return inputs["events"].select(
        "n", F.lit(seen()).alias("driver"), row("n").alias("row"), series("n").alias("series")
    )
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("environments")


@pytest.fixture(scope="module")
def settings(kafka: EmbeddedKafka, folder: Path) -> SparkSettings:
    return settings_for(folder, kafka.bootstrap)


@pytest.fixture(scope="module")
def packages(folder: Path) -> dict[str, dict[str, str]]:
    """By name: one with the platform's pandas, one with its own."""
    (wheels := folder / "wheels").mkdir()
    for number, word in ((1, "please"), (2, "thanks")):
        wheel(wheels, "manners", f"{number}.0", {"manners.py": f"WORD = {word!r}\n".encode()})
    pandas = [f"{name}=={number}" for name, number in OWN.items()]
    first = packed_with(folder, "first", CODE, ["manners<2", "markupsafe==2.1.5"], wheels)
    return {
        "first": first,
        "second": packed_with(folder, "second", CODE, ["manners", "markupsafe==3.0.2", *pandas], wheels),
    }


@pytest.fixture(scope="module")
def hosts(
    settings: SparkSettings, packages: dict[str, dict[str, str]], folder: Path
) -> Iterator[dict[str, Supervisor]]:
    """Both at the same time, in one folder of environments."""
    own = {name: in_environment(settings, package, folder) for name, package in packages.items()}
    with running_host("first", own["first"], folder) as first, running_host("second", own["second"], folder) as second:
        yield {"first": first, "second": second}


def job(topic: str, folder: Path, name: str, package: dict[str, str]) -> JobConfig:
    output = {"type": "files", "path": str(folder / "out" / name)}
    return job_config(topic, 1, output, query={"python": f"{package['name']}:look"}, package=package)


def test_a_package_runs_with_its_wheels_also_in_its_workers(
    settings: SparkSettings, kafka: EmbeddedKafka, folder: Path
) -> None:
    """A UDF calls a wheel of Python, and one with machine code for this platform."""
    package, topic = packed_words_with_wheels(folder), make_topic(kafka.bootstrap, 1)
    produce(kafka.bootstrap, topic, ({"n": n, "word": f"w{n}"} for n in range(ROWS)), 1)
    output = {"type": "files", "path": str(folder / "out" / "loud")}
    query = {"python": "wheelwords:loud"}
    spec = task_spec("loud", job_config(topic, 1, output, query=query, package=package, args={"limit": 5}))
    with running_host("loud", in_environment(settings, package, folder), folder) as host:
        reply = host.start(spec)
        assert reply.ok, reply.error
        host.wait_for_records(spec.task_id, ROWS)
        assert host.stop(spec.task_id, finish_pending=True).ok
    rows = rows_of_files(folder / "out" / "loud" / "g1" / "task-0").sort_values("n")
    assert list(rows["word"]) == [f"W{n}" for n in range(5)]


@pytest.mark.long
def test_each_package_sees_its_own_versions_everywhere(
    hosts: dict[str, Supervisor], packages: dict[str, dict[str, str]], kafka: EmbeddedKafka, folder: Path
) -> None:
    """1. Both jobs run on the same rows. 2. The driver, UDF and pandas UDF of each saw what it was packed with."""
    topic = make_topic(kafka.bootstrap, 1)
    produce(kafka.bootstrap, topic, ({"n": n, "word": "w"} for n in range(ROWS)), 1)
    specs = {name: task_spec(name, job(topic, folder, name, package)) for name, package in packages.items()}
    for name, spec in specs.items():
        reply = hosts[name].start(spec)
        assert reply.ok, reply.error
    found: dict[str, Any] = {}
    for name, spec in specs.items():
        hosts[name].wait_for_records(spec.task_id, ROWS)
        assert hosts[name].stop(spec.task_id, finish_pending=True).ok
        rows = rows_of_files(folder / "out" / name / "g1" / "task-0")
        assert len(rows) == ROWS
        (told,) = {*rows["driver"], *rows["row"], *rows["series"]}
        found[name] = json.loads(told)
    assert found["first"].pop("prefix") != found["second"].pop("prefix")
    here = {name: version(name) for name in OWN}
    assert here != OWN
    assert found == {
        "first": {"markupsafe": "2.1.5", **here, "manners": "please", "own": True},
        "second": {"markupsafe": "3.0.2", **OWN, "manners": "thanks", "own": True},
    }


@pytest.mark.long
def test_only_a_host_of_its_environment_analyses_a_package(
    hosts: dict[str, Supervisor], packages: dict[str, dict[str, str]], kafka: EmbeddedKafka, folder: Path
) -> None:
    config = job(make_topic(kafka.bootstrap, 1), folder, "analysed", packages["second"])
    rules = {}
    for name, host in hosts.items():
        reply = host.host.send(run_host_task(AnalysisRequest(job="analysed", number=7, config=config)))
        report = AnalysisReport.model_validate(reply.result(REPLY_SECONDS).result)
        rules[name] = [problem.rule for problem in report.problems]
    assert rules == {"first": ["package_dependencies"], "second": []}
