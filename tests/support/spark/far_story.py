"""A job with state whose checkpoints are on S3 or HDFS: rescaled, saved while it runs, and restored. A process of its
own, since the Spark session of the tests has no jars for S3.

    python -m tests.support.spark.far_story FOLDER KAFKA ROOT SPARK_CONF DIGESTS [JARS...]

With DIGESTS the state of each key has so many digests, of 64 bytes each, which no compression makes smaller.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from penstock.local.jars import share_dir
from penstock.spark.collect import collect
from penstock.spark.producers import NOTED_MARKS
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.savepoint.take import remove, take
from penstock.spark.settings import SparkSettings, driver_classpath
from penstock.tasks.redistribution import GenerationRemoval, RedistributionRequest, SavepointName
from penstock.tasks.savepoint import SavepointRemoval, SavepointRequest
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, Keys, job_config, output_topic, runtime_in
from tests.support.spark.session import local_session

_BYTES = "unhex(array_join(transform(sequence(1, {digests}), n -> sha2(concat_ws('-', k, v, n), 512)), ''))"
_SUM = "SELECT k, count(*) AS c, sum(v) AS s, length(max({bytes})) AS b FROM events GROUP BY k"


def main(folder: str, bootstrap: str, root: str, spark_conf: str, digests: str, *more_jars: str) -> None:
    """The story. Raises AssertionError when a result is not the one of the same job run in one piece."""
    jars = {"spark.driver.extraClassPath": ":".join([driver_classpath(share_dir() / "jars"), *more_jars])}
    with local_session(Path(folder), {**json.loads(spark_conf), **jars}) as spark:
        runtime = runtime_in(spark, SparkSettings(checkpoint_root=root, kafka_bootstrap=bootstrap, path_roots=("/",)))
        events = Events(bootstrap, make_topic(bootstrap, KEY_GROUPS), Keys(spark, "spark"))
        query = {"sql": _SUM.format(bytes=_BYTES.format(digests=digests))}
        config = job_config(
            {"events": events.topic}, "spark", output_topic(bootstrap), query=query, output_mode="update", task_count=2
        )
        for backend in ("rocksdb", "heap"):
            _run(Job(runtime, config.model_copy(update={"state_backend": backend})), events)


def _run(job: Job, events: Events) -> None:
    """1. Two tasks read. 2. They become three. 3. These are saved, and read on. 4. Another job begins with the
    savepoint, as one task, and reads the rest. 5. The savepoint is removed, and the
    first generation, but for its claims."""
    output = output_topic(events.bootstrap)
    job.config = job.config.model_copy(update={"output": job.config.output.model_copy(update=output)})
    events.add_range(0, 120)
    job.run()
    report = job.rescale(task_count=3)
    assert report.state_rows == 60, report
    events.add_range(120, 240)
    job.run()
    request = SavepointRequest(job=job.name, name="first", number=1, layout=job.layout, earlier=())
    assert take(job.runtime, request).bytes > 0
    assert take(job.runtime, request) == take(job.runtime, request)
    events.add_range(240, 300)
    job.run()
    clone = Job(job.runtime, job.config.model_copy(update={"task_count": 1}))
    clone.config = clone.config.model_copy(
        update={"output": clone.config.output.model_copy(update=output_topic(events.bootstrap))}
    )
    source = job.layout.model_copy(update={"savepoint": SavepointName(job=job.name, name="first")})
    redistribute(job.runtime, RedistributionRequest(job=clone.name, source=source, target=clone.layout))
    clone.run()
    assert job.last_rows("k") == clone.last_rows("k") == job.unsplit().last_rows("k")
    remove(job.runtime, SavepointRemoval(job=job.name, name="first", number=1))
    files, root = job.runtime.files, job.runtime.settings.checkpoint_root
    # S3A leaves a mark of the folder that became empty. Deleting it could take along what another host publishes in it.
    folders = files.names(f"{root}/{job.name}/savepoints")
    assert [files.names(f"{root}/{job.name}/savepoints/{name}") for name in folders] in ([], [[]])
    collect(job.runtime, GenerationRemoval(job=job.name, generation=1, forgotten=True))
    left = {name for name in files.names(f"{root}/{job.name}/g1") if not name.startswith(NOTED_MARKS)}
    assert left == {"COLLECTED", "task-0", "task-1"}, left
    assert files.names(f"{root}/{job.name}/g1/task-0") == ["FENCE.log"]


if __name__ == "__main__":
    main(*sys.argv[1:])
