"""The host's JVM: a child process that never outlives the host.

A JVM that pyspark starts notices the end of the host only when it reads its standard input. This one is started by
`penstock.control.process`, so the kernel kills it as soon as the host dies for any reason.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from string import ascii_letters, digits
from typing import Any, NamedTuple

import pyspark
from py4j.java_gateway import JavaPackage, JVMView
from py4j.protocol import INPUT_CONVERTER
from pyspark.java_gateway import launch_gateway
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

from penstock.control.errors import Unavailable
from penstock.control.private import write_private
from penstock.control.process import start_child, wait_until
from penstock.spark.callbacks import guard_callbacks
from penstock.spark.settings import gateway_in_environment, jvm_environment

_START_TIMEOUT_SECONDS = 120.0
_FROM_FILE = ("--load-spark-defaults", "--properties-file")
_PLAIN = frozenset(f"{ascii_letters}{digits}.-_/,;*[]()+@")


class Jvm(NamedTuple):
    """A running JVM and the py4j gateway to it."""

    process: subprocess.Popen[bytes]
    gateway: Any


class _Package(JavaPackage):  # type: ignore[misc]
    """A package that asks the JVM once for each name in it."""

    def __getattr__(self, name: str) -> Any:
        return _kept(self, name, super().__getattr__(name))


class Names(JVMView):  # type: ignore[misc]
    """The packages and classes of a JVM, which is asked once for each.

    Py4j asks for each part of `jvm.org.apache...` at each use, and for a part that is a package the JVM searches all
    jars in vain, once for each import: a tenth of the CPU that a start of a query took.
    """

    def __getattr__(self, name: str) -> Any:
        return _kept(self, name, super().__getattr__(name))


def _kept(owner: Any, name: str, found: Any) -> Any:
    if type(found) is JavaPackage:
        found = _Package(found._fqn, found._gateway_client, found._jvm_id)
    if not name.startswith("__"):
        owner.__dict__[name] = found
    return found


def keep_names(gateway: Any) -> None:
    """Lets a gateway ask its JVM once for each package and class."""
    view = gateway.jvm
    gateway.jvm = Names(view._gateway_client, view._jvm_name, id=view._id)


class _OnlyForNumpy:
    """A converter of numpy's values that is asked about them only."""

    def __init__(self, converter: Any) -> None:
        self._converter = converter
        self.convert = converter.convert

    def can_convert(self, value: object) -> bool:
        """As the converter says. False for what is not numpy's."""
        from_numpy = any(each.__module__.partition(".")[0] == "numpy" for each in type(value).__mro__)
        return from_numpy and bool(self._converter.can_convert(value))


def convert_numpy_lazily() -> None:
    """Lets no argument of a call import pandas. At the first call PySpark's own converters for numpy import
    `pyspark.testing`, and pandas with it."""
    for place, converter in enumerate(INPUT_CONVERTER):
        if isinstance(converter, NumpyScalarConverter | NumpyArrayConverter):
            INPUT_CONVERTER[place] = _OnlyForNumpy(converter)


def start_jvm(conf: Mapping[str, str]) -> Jvm:
    """Starts a JVM with Spark's settings `conf` and connects to it. They go by a file, as `ps` shows command lines.

    Raises Unavailable when the JVM ends, or does not start in two minutes. Its output is in the host's log.
    """
    home = Path(pyspark.__file__).parent
    with tempfile.TemporaryDirectory(prefix="penstock-gateway-", dir=conf.get("spark.local.dir")) as folder:
        announcement, properties = Path(folder) / "connection", Path(folder) / "spark.properties"
        write_private(properties, properties_text(conf).encode("latin-1"))
        process = start_child(
            [home / "bin" / "spark-submit", *_FROM_FILE, properties, "pyspark-shell"],
            env=jvm_environment(home, announcement, conf.get("spark.driver.bindAddress", "127.0.0.1")),
            stdin=subprocess.PIPE,
        )
        _await(process, announcement)
        port, secret = _read_announcement(announcement)
    with gateway_in_environment(port, secret):
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    guard_callbacks(gateway)
    keep_names(gateway)
    convert_numpy_lazily()
    return Jvm(process, gateway)


def properties_text(conf: Mapping[str, str]) -> str:
    """Settings in Java's format of properties, in ASCII. Pure."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in conf.items())


def _escaped(text: str) -> str:
    """Each character that may mean something to the format, as the UTF-16 units that it has in Java."""
    units = text.encode("utf-16-be")
    pairs = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(unit) if chr(unit) in _PLAIN else f"\\u{unit:04x}" for unit in pairs)


def _await(process: subprocess.Popen[bytes], announcement: Path) -> None:
    try:
        wait_until(lambda: announcement.exists() or process.poll() is not None, _START_TIMEOUT_SECONDS, "the JVM")
    except TimeoutError as error:
        process.kill()
        raise Unavailable("the JVM did not start in time; see the log of the host") from error
    if not announcement.exists():
        raise Unavailable(f"the JVM ended with code {process.poll()}; see the log of the host")


def _read_announcement(announcement: Path) -> tuple[int, str]:
    """Spark moves the file into place when it is complete."""
    with announcement.open("rb") as stream:
        port, size = struct.unpack(">ii", stream.read(8))
        return port, stream.read(size).decode()
