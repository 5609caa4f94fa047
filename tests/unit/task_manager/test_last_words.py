"""The last words of a host that could not start, from the end of its log."""

from __future__ import annotations

import pytest

from services.task_manager.hosts.last_words import last_words

OF_JAVA = """Picked up JAVA_TOOL_OPTIONS: -XX:+NoSuchFlag
Unrecognized VM option 'NoSuchFlag'
Error: Could not create the Java Virtual Machine.
Error: A fatal exception has occurred. Program will exit.
{"event": "host cannot start", "error": "the JVM ended with code 1; see the log of the host", "level": "error"}
"""
OF_JAVA_SAYS = (
    "Unrecognized VM option 'NoSuchFlag'; Error: Could not create the Java Virtual Machine.; Error: A fatal exception "
    "has occurred. Program will exit."
)
FOR_PEOPLE = """2026-11-28T20:15:05.98Z [info     ] begins  component=__main__
2026-11-28T20:15:05.98Z [error    ] host cannot start  component=__main__ error='the JVM ended with code 1' service='h'
"""
OF_PYTHON = """Traceback (most recent call last):
  File "/app/host/__main__.py", line 12, in <module>
    import pyspark
    ^^^^^^^^^^^^^^
ModuleNotFoundError: No module named 'pyspark'
"""
OF_SPARK = """26/11/28 19:00:00 INFO SparkContext: Running Spark version 4.2.0
26/11/28 19:00:00 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform
java.lang.IllegalArgumentException: System memory 1 must be at least 471859200
\tat org.apache.spark.memory.UnifiedMemoryManager$.getMaxMemory(UnifiedMemoryManager.scala:217)
\t... 12 more
26/11/28 19:00:00 INFO ShutdownHookManager: Shutdown hook called
"""


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("", ""),
        ("\n\n", ""),
        (
            OF_JAVA,
            OF_JAVA_SAYS,
        ),
        (
            OF_JAVA.splitlines()[0] + "\n" + OF_JAVA.splitlines()[-1],
            "the JVM ended with code 1; see the log of the host",
        ),
        (OF_JAVA.rpartition("{")[0] + FOR_PEOPLE, OF_JAVA_SAYS),
        (FOR_PEOPLE, "the JVM ended with code 1"),
        (OF_PYTHON, "ModuleNotFoundError: No module named 'pyspark'"),
        (OF_SPARK, "java.lang.IllegalArgumentException: System memory 1 must be at least 471859200"),
        ("begins\nreads its settings\n", "reads its settings"),
        ('{"event": "begins"}\n{broken\n', ""),
        ("error: " + 99 * "word ", "error: " + 46 * "word " + "..."),
    ],
)
def test_the_lines_that_name_the_trouble(log: str, said: str) -> None:
    assert last_words(log) == said
