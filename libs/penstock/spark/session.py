"""Spark's settings, and the sessions made from them: one `SparkContext` a host, a child session a task.

A child session shares the context, its threads and its caches, and has views and SQL settings of its own: so each
task has its own fence, shuffle partitions and state store.
"""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.config.model import JobConfig
from penstock.control.errors import Unavailable
from penstock.spark.fence import FENCE
from penstock.spark.gateway import start_jvm
from penstock.spark.settings import SparkSettings, class_archive, class_archive_options, driver_classpath
from penstock.spark.stores import jar_folders

STATE_STORES = {
    "heap": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_COLLECTORS = {"serial": "-XX:+UseSerialGC", "g1": "-XX:+UseG1GC"}

_POLLING_DELAY_MS = 100
# One log4j context for the JVM. By default log4j walks the stack for each new logger to find its context.
ONE_LOGGER_CONTEXT = "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector"

# For these masters Spark makes the secret itself, 256 random bits a session. Others need one in `spark_conf`.
_SPARK_MAKES_SECRET = re.compile(r"local|local\[.*\]|yarn|k8s://.*")

_TOKEN = "penstock.fence.token"
_FENCE_MANAGER = {
    "spark.sql.streaming.checkpointFileManagerClass": "io.penstock.checkpoint.FencedCheckpointFileManager"
}

# Many small queries in one JVM want little kept and little parallelism each.
FIXED_SETTINGS = {
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
    # In every batch Spark writes the plan as text for its web page, which is off. `simple` is the cheapest form.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.streaming.ui.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    # One interruption of a query waits so long for its end; then another one follows (`task.RunningTask`).
    "spark.sql.streaming.stopTimeout": "4s",
    "spark.sql.streaming.minBatchesToRetain": "10",
    **_FENCE_MANAGER,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Spark jobs over a Delta table's log use this many partitions; the default of 50 is for logs far larger than these.
    "spark.databricks.delta.snapshotPartitions": "1",
    # Otherwise `${env:NAME}` in a query would read the host's environment, which holds secrets.
    "spark.sql.variable.substitute": "false",
    # Delta's SQL parser loses `:name` arguments in Spark 4.2's new way of filling them in; this is the former way.
    "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
    # What no plan, log or event may show: Spark's own pattern, and what logs in at Kafka.
    "spark.redaction.regex": "(?i)secret|password|passphrase|token|access[.]?key|sasl[.]jaas|keystore[.]key",
    # Hadoop's own `FileSystem` forks a process for each file that it makes; its `FileContext`, which stays, does too.
    "spark.hadoop.fs.file.impl": "io.penstock.host.LocalFolders",
    # The default keeps parts of objects in the memory of the JVM, and fetches ahead of small files.
    "spark.hadoop.fs.s3a.input.stream.type": "classic",
    # Delta's own store for S3 excludes only the writers of its JVM.
    "spark.delta.logStore.s3a.impl": "io.penstock.delta.ConditionalLogStore",
    # Pieces of compiled code that stay. With Spark's 100, a host of 100 different queries compiles in every batch.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # One consumer a task and partition; the default of 64 would close and open them all the time.
    "spark.kafka.consumer.cache.capacity": "2048",
    # Each holds about 0.15 MB. Those of stopped tasks go after a minute, not Spark's five; a run evicts at most ten.
    "spark.kafka.consumer.cache.timeout": "60s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "1s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "60s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "20s",
}


def start_session(name: str, settings: SparkSettings) -> tuple[SparkSession, subprocess.Popen[bytes]]:
    """Starts the host's session, and the JVM that it runs in.

    Raises Unavailable when Spark does not start, e.g. finds no master.
    """
    if settings.spark_local_dir is not None:
        settings.spark_local_dir.mkdir(parents=True, exist_ok=True)
    jvm = start_jvm(host_settings(name, settings))
    try:
        context = SparkContext(gateway=jvm.gateway, conf=SparkConf(_jvm=jvm.gateway.jvm))
    except (Py4JError, PySparkException) as error:
        raise Unavailable(f"spark does not start: {error}") from error
    own = None if settings.package_environment is not None else settings.worker_python
    context.pythonExec = own or sys.executable
    return SparkSession(context), jvm.process


def host_settings(name: str, settings: SparkSettings) -> dict[str, str]:
    """Spark's settings of a whole host. `spark_conf` of the container wins, but for what the fence needs."""
    stores = jar_folders(settings.store_paths, settings.jars)
    classpath = ":".join([driver_classpath(settings.jars), *(f"{folder}/*" for folder in stores)])
    own = {
        "spark.master": settings.spark_master,
        "spark.app.name": f"penstock-{name}",
        "spark.driver.host": settings.spark_driver_host,
        "spark.driver.bindAddress": settings.spark_driver_host,
        "spark.driver.memory": f"{settings.heap_bytes // 2**20}m",
        "spark.driver.extraClassPath": classpath,
        "spark.executor.extraClassPath": classpath,
        # Otherwise every account of the machine may order at the ports of the driver and of its blocks.
        "spark.authenticate": str(_SPARK_MAKES_SECRET.fullmatch(settings.spark_master) is not None).lower(),
    }
    if settings.spark_local_dir is not None:
        own["spark.local.dir"] = str(settings.spark_local_dir)
        own["spark.sql.warehouse.dir"] = f"{settings.spark_local_dir}/warehouse"
    return {**FIXED_SETTINGS, **own, **settings.spark_conf, _JAVA_OPTIONS: _java_options(settings), **_FENCE_MANAGER}


def task_session(host: SparkSession, config: JobConfig, checkpoint: str, token: str, *, unlocked: bool) -> SparkSession:
    """A session for one task: the job's allowed Spark settings, then what Penstock relies on.

    `token` is what the checkpoint's FENCE must say for anything to be published; `unlocked` lets it be on a file system
    without locks.
    """
    session = host.newSession()
    own = {
        "spark.sql.shuffle.partitions": str(config.threads_per_task),
        "spark.sql.streaming.stateStore.providerClass": STATE_STORES[config.state_backend],
        # A batch writes its changes, not a snapshot: a rescale copies state while batches run, and then their changes.
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.pollingDelay": f"{polling_delay_ms(config.trigger_interval_seconds)}ms",
        "penstock.fence.path": f"{checkpoint}/{FENCE}",
        _TOKEN: token,
        "penstock.fence.allow_not_atomic": str(unlocked).lower(),
        **_FENCE_MANAGER,
    }
    for name, value in {**config.spark_settings, **own}.items():
        session.conf.set(name, value)
    return session


def set_token(session: SparkSession, token: str) -> None:
    """A query that is started in the session from now on publishes as long as `token` is the newest. One that was
    started before keeps its own."""
    session.conf.set(_TOKEN, token)


def polling_delay_ms(trigger_interval_seconds: float) -> int:
    """How long an idle query sleeps before it looks for rows again: not beyond its interval, and 100 ms without one.

    With Spark's 10 ms a few idle queries without an interval keep a core and the broker busy: in a rescale those are
    the new queries whose first batch is done while others still start.
    """
    return max(1, min(_POLLING_DELAY_MS, round(trigger_interval_seconds * 1000) or _POLLING_DELAY_MS))


def release_frames() -> None:
    """Lets the JVM forget frames that nobody uses any more, with their sessions.

    A frame and its session refer to each other, so Python gives them up only in a full collection of garbage. Without
    this the JVM would keep them until a task stops.
    """
    gc.collect()


def detach_unused_listeners(session: SparkSession, query: StreamingQuery | None) -> None:
    """Lets Spark forget a session whose query has ended.

    Spark adds a listener bus to the shared context for each session that starts a query, and another one for the copy
    of the session in which the query runs. Spark never removes them: the events of every query would go to the buses of
    all queries there ever were. A bus that has listeners of the job's own stays.
    """
    _detach(session.sparkContext, session._jsparkSession)
    if query is not None:
        _detach(session.sparkContext, query._jsq.streamingQuery().sparkSessionForStream())


def _detach(context: SparkContext, java_session: Any) -> None:
    queries = java_session.streams()
    if len(queries.listListeners()) == 0:
        field = queries.getClass().getDeclaredField("listenerBus")
        field.setAccessible(True)
        context._jsc.sc().listenerBus().removeListener(field.get(queries))


_NO_FOREIGN_XML = "-Djavax.xml.accessExternalDTD= -Djavax.xml.accessExternalSchema="
"""XML that is read names no file and no address. Penstock reads none; a job's own code might."""


_LATE_C2 = "-XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=2400 -XX:Tier4CompileThreshold=60000"
"""HotSpot's best compiler begins later with methods (four times the defaults or more), and with loops as ever. Most
code of a host plans queries: each start compiles some of it, and in a rescale that takes the processor from the first
batches of the new tasks. Without this they took 25 % more of it (`tests.bench.rescale`)."""


def _java_options(settings: SparkSettings) -> str:
    """A JVM without memory ends at once with code 3, so that the end is recognised and no query limps on."""
    own = f"{_COLLECTORS[settings.collector]} -XX:+ExitOnOutOfMemoryError -Duser.timezone=UTC {ONE_LOGGER_CONTEXT}"
    own += f" {_NO_FOREIGN_XML} {_LATE_C2}"
    if settings.spark_local_dir is not None:
        own += f" -Djava.io.tmpdir={settings.spark_local_dir}"
    # Jars of stores are in the class path before Spark's own, and the archive fits only the path without them.
    stores = jar_folders(settings.store_paths, settings.jars)
    sharing = [] if stores else class_archive_options(class_archive(settings.jars))
    return " ".join([own, *sharing, settings.spark_conf.get(_JAVA_OPTIONS, "")]).strip()
