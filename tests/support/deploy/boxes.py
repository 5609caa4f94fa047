"""A process as a container engine would run it: its own root, network and account, without an engine.

The root is a file system that it cannot write, with this machine's programs, the checkout at `/opt/penstock` and the
folders that it is given. Its network has one address, and finds the others by the names that a file of hosts has.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.control.process import kill_group, start_child, wait_until

ROOT = Path(__file__).parents[3]
HOME = Path("/opt/penstock")
_NETWORK = "10.77.0"
_WAIT_SECONDS = 10.0
_SITE = f".venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
# What the image of the services does not have.
_OF_TASK_MANAGERS = ("pyspark", "py4j", "delta", "pyarrow", "pandas")
_SCRIPT = r"""
set -e
root=$1 account=$2 hidden=$3 hosts=$4; shift 4
mount -t tmpfs -o mode=755 box "$root"
keep() { mkdir -p "$root$2"; mount --bind "$1" "$root$2"; }
lock() { keep "$1" "$2"; mount -o remount,bind,ro "$root$2"; }
lock /usr /usr
cp -a /etc "$root/etc"
for name in bin sbin lib lib64; do
    if [ -L "/$name" ]; then cp -a "/$name" "$root/$name"; elif [ -d "/$name" ]; then lock "/$name" "/$name"; fi
done
for name in proc dev; do mkdir "$root/$name"; mount --rbind "/$name" "$root/$name"; done
cat "$hosts" > "$root/etc/hosts"
mkdir "$root/tmp"; mount -t tmpfs -o mode=1777 box "$root/tmp"
while [ "$1" != -- ]; do
    case $1 in ro) lock "$2" "$3" ;; rw) keep "$2" "$3" ;; esac; shift 3
done
shift
for name in $hidden; do if [ -d "$root$name" ]; then mount -t tmpfs -o ro box "$root$name"; fi; done
mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid "$account" --regid "$account" --clear-groups --no-new-privs \
    --bounding-set=-all --inh-caps=-all --pdeathsig KILL -- "$@"
"""


@dataclass(frozen=True, slots=True)
class Box:
    """Where one process runs. `folders` are what it may write, by the path that it sees; `readable` what it may read.

    `has_spark`: whether it is of the image with Java and Spark.
    """

    root: Path
    hosts: Path
    network_of: int
    account: str
    has_spark: bool
    folders: Mapping[str, Path]
    readable: Mapping[str, Path]

    def command(self, words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """What starts the words in the box. They see these variables alone."""
        given = [f"{name}={value}" for name, value in environment.items()]
        unseen = [str(home / _SITE / name) for home in (HOME, ROOT) for name in _OF_TASK_MANAGERS]
        hidden = "" if self.has_spark else " ".join(unseen)
        begin = ["nsenter", f"--net=/proc/{self.network_of}/ns/net", "unshare", "--mount", "--propagation", "private"]
        box = ["/bin/sh", "-c", _SCRIPT, "box", self.root, self.account, hidden, self.hosts]
        program = ["env", "--ignore-environment", *given, "sh", "-c", f'cd {HOME}; exec "$@"', "box", *words]
        return [str(word) for word in (*begin, *box, *self._binds(), "--", *program)]

    def run(self, words: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Runs the words in the box to their end."""
        return subprocess.run(self.command(words, environment), capture_output=True, text=True, check=False)

    def _binds(self) -> Iterator[str]:
        # Programs of `.venv` name the folder where they were made.
        same = (ROOT, Path(sys.base_prefix))
        readable = {str(HOME): ROOT, **{str(each): each for each in same}, **self.readable}
        for way, paths in (("ro", readable), ("rw", self.folders)):
            for target, source in paths.items():
                yield from (way, str(source), target)


@contextmanager
def networks(count: int) -> Iterator[list[tuple[int, str]]]:
    """So many networks that reach each other and nothing else: the process that keeps it open, and its address."""
    with ExitStack() as stack:
        switch = stack.enter_context(_network())
        _ip(switch, "link add switch type bridge")
        _ip(switch, "link set switch up")
        yield [_joined(stack.enter_context(_network()), switch, number) for number in range(1, count + 1)]


def _joined(member: int, switch: int, number: int) -> tuple[int, str]:
    address = f"{_NETWORK}.{number}"
    _ip(switch, f"link add to{number} type veth peer name eth0 netns {member}")
    _ip(switch, f"link set to{number} master switch up")
    _ip(member, f"address add {address}/24 dev eth0")
    for device in ("eth0", "lo"):
        _ip(member, f"link set {device} up")
    return member, address


@contextmanager
def _network() -> Iterator[int]:
    holder = start_child(["unshare", "--net", "sleep", "infinity"])
    mine = os.readlink("/proc/self/ns/net")
    try:
        wait_until(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != mine, _WAIT_SECONDS, "a network")
        yield holder.pid
    finally:
        kill_group(holder)


def _ip(network_of: int, words: str) -> None:
    command = ["nsenter", f"--net=/proc/{network_of}/ns/net", "ip", *words.split()]
    subprocess.run(command, check=True, capture_output=True, text=True)
