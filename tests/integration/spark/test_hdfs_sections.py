"""Of several tasks that write what a section of a stream has, on HDFS, one is right for all: a rename replaces
nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.control.process import kill_group
from penstock.local.jars import share_dir
from penstock.spark.gateway import start_jvm
from penstock.spark.settings import QUICK_JVM, driver_classpath
from tests.support.hdfs import hdfs


@pytest.mark.long
def test_of_several_writers_of_a_section_all_have_what_the_first_one_wrote(tmp_path: Path) -> None:
    options = {"spark.driver.memory": "300m", "spark.driver.extraJavaOptions": " ".join(QUICK_JVM)}
    started = start_jvm({"spark.driver.extraClassPath": driver_classpath(share_dir() / "jars"), **options})
    try:
        jvm = started.gateway.jvm
        with hdfs(tmp_path / "hdfs") as address:
            section = jvm.org.apache.hadoop.fs.Path(f"{address}/job/streams/g1/events/1")
            files = section.getFileSystem(jvm.org.apache.hadoop.conf.Configuration())
            writer = jvm.io.penstock.checkpoint.FirstWriter(files)
            with ThreadPoolExecutor(6) as pool:
                told = set(pool.map(lambda number: bytes(writer.write(section, f"of {number}".encode())), range(12)))
            assert told == {bytes(writer.read(section))}
            assert bytes(writer.write(section, b"late")) in told
            assert [status.getPath().getName() for status in files.listStatus(section.getParent())] == ["1"]
    finally:
        kill_group(started.process)
