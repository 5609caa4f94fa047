"""HDFS in a JVM of its own: a name node and a data node of Hadoop's mini-cluster, on this machine only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.control.process import kill_group
from penstock.local.jars import fetch_store_jars, share_dir
from penstock.spark.gateway import start_jvm
from penstock.spark.settings import QUICK_JVM, driver_classpath

_NAMED = """<configuration>
  <property><name>dfs.nameservices</name><value>far</value></property>
  <property><name>dfs.ha.namenodes.far</name><value>one</value></property>
  <property><name>dfs.namenode.rpc-address.far.one</name><value>{host}</value></property>
  <property>
    <name>dfs.client.failover.proxy.provider.far</name>
    <value>org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider</value>
  </property>
</configuration>
"""


def name_service(folder: Path, address: str) -> dict[str, str]:
    """The environment in which `hdfs://far` is the HDFS at `address`, by files as a cluster's administrators give."""
    folder.mkdir()
    (folder / "hdfs-site.xml").write_text(_NAMED.format(host=address.removeprefix("hdfs://")))
    return {"HADOOP_CONF_DIR": str(folder)}


@contextmanager
def hdfs(folder: Path) -> Iterator[str]:
    """The address of an empty HDFS, `hdfs://127.0.0.1:port`, until the block ends. Its jar is fetched once."""
    fetch_store_jars(["hdfs"])
    jars = share_dir() / "jars"
    started = start_jvm(
        {
            "spark.driver.extraClassPath": f"{driver_classpath(jars)}:{jars}/hdfs/*",
            "spark.driver.memory": "400m",
            "spark.driver.extraJavaOptions": " ".join(QUICK_JVM),
        }
    )
    try:
        jvm = started.gateway.jvm
        settings = jvm.org.apache.hadoop.conf.Configuration()
        settings.set("hdfs.minidfs.basedir", str(folder))
        settings.set("dfs.namenode.fs-limits.min-block-size", "0")
        cluster = jvm.org.apache.hadoop.hdfs.MiniDFSCluster.Builder(settings).numDataNodes(1).build()
        yield f"hdfs://127.0.0.1:{cluster.getNameNodePort()}"
    finally:
        kill_group(started.process)
