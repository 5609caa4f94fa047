"""The scripts that pages of the console load: htmx, its extension for server-sent events, and uPlot.

They come as WebJars with the other jars (`penstock.local.jars`), pinned by digest; a browser gets them from the console
and from nowhere else. `<share>/web` has the few files of them that pages load, and the licence of each beside it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

from penstock.control.errors import TerminalError
from penstock.local.settings import LocalSettings

_FILES = {
    "htmx.org": ("dist/htmx.min.js",),
    "htmx-ext-sse": ("sse.js",),
    "uplot": ("dist/uPlot.iife.min.js", "dist/uPlot.min.css"),
}
NAMES = frozenset(path.rpartition("/")[2] for paths in _FILES.values() for path in paths)
"""The names of the files that pages load."""


def unpack(share: Path) -> None:
    """Writes `<share>/web` from the jars in `<share>/jars/web`; what is there already is left as it is."""
    for name, content in _contents(share / "jars" / "web"):
        _write(share / "web" / name, content)


def web_files() -> list[Path]:
    """The files that pages load. Raises `TerminalError` when one is missing."""
    found = [LocalSettings().share / "web" / name for name in sorted(NAMES)]
    missing = [path.name for path in found if not path.is_file()]
    if missing:
        raise TerminalError(f"{', '.join(missing)} of the console's pages is missing: run `make setup`")
    return found


def _contents(jars: Path) -> Iterator[tuple[str, bytes]]:
    for package, paths in _FILES.items():
        [jar] = jars.glob(f"{package}-[0-9]*.jar")
        version = jar.stem.removeprefix(f"{package}-")
        root = f"META-INF/resources/webjars/{package}/{version}"
        with ZipFile(jar) as archive:
            for path in paths:
                yield path.rpartition("/")[2], archive.read(f"{root}/{path}")
            yield f"LICENSE-{package}", archive.read(f"{root}/LICENSE")


def _write(path: Path, content: bytes) -> None:
    """The file gets its name in one step: a console may serve it meanwhile."""
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
        fresh = Path(folder) / path.name
        fresh.write_bytes(content)
        fresh.replace(path)
