"""A headless Chromium, driven by its own protocol over two pipes: no driver and no other package is needed."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.control.process import start_child, stop_group, wait_until

REPOSITORY = Path(__file__).parents[3]
_SECONDS = 60.0
_SEND = """(selector, fields) => {
  const form = document.querySelector(selector), details = form.closest('details');
  if (details) details.open = true;
  for (const [name, text] of Object.entries(fields)) {
    const field = form.elements[name];
    if (field.type === 'checkbox') field.checked = text === field.value; else field.value = text;
  }
  form.querySelector('[type=submit]').click();
}"""


def chromium() -> str:
    """The browser of this machine; Debian's is installed where there is none."""
    for _ in range(2):
        for name in ("chromium", "chromium-browser", "google-chrome"):
            found = shutil.which(name)
            if found is not None:
                return found
        subprocess.run([REPOSITORY / "deploy/setup/apt.sh", "chromium"], check=True)
    raise AssertionError("there is no chromium")


class Browser:
    """One page of a browser. Use as a context manager. `width`, `height`: of the window, in pixels."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._read = b""
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-browser-", ignore_cleanup_errors=True)
        from_test, self._to_browser = os.pipe()
        self._from_browser, to_test = os.pipe()
        self._events: list[dict[str, Any]] = []
        options = [
            f"--user-data-dir={self._folder.name}",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
        ]
        words = " ".join([chromium(), *options, "--disable-dev-shm-usage", "--remote-debugging-pipe", "about:blank"])
        # The browser reads from its third channel and writes to its fourth.
        self._process = start_child(
            ["bash", "-c", f"exec {words} 3<&{from_test} 4>&{to_test} >/dev/null 2>&1"], pass_fds=(from_test, to_test)
        )
        os.close(from_test)
        os.close(to_test)
        self._session = ""

    def __enter__(self) -> Self:
        try:
            page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
            attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the browser."""
        stop_group(self._process, 5.0)
        os.close(self._to_browser)
        os.close(self._from_browser)
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A call of the protocol. Raises AssertionError when the browser refuses it."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])
            self._events.append(answer)

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + _SECONDS
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._from_browser], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser says nothing"
            self._read += os.read(self._from_browser, 1 << 20)
        message, _, self._read = self._read.partition(b"\0")
        return dict(json.loads(message))

    def resize(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """The size of the window, and whether its user likes it dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Goes to a page and waits until it is there."""
        self.call("Page.navigate", url=url)
        self.wait_for(f"location.href.startsWith({json.dumps(url.partition('?')[0].partition('#')[0])})")

    @contextmanager
    def before_scripts(self, script: str) -> Iterator[None]:
        """Runs a script in each page that is opened in the block, before those of the page."""
        added = self.call("Page.addScriptToEvaluateOnNewDocument", source=script)
        yield
        self.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])

    def wait_for(self, condition: str) -> None:
        """Waits until an expression is true of a page that has loaded."""
        ready = f"document.readyState === 'complete' && Boolean({condition})"
        wait_until(lambda: self.run(ready), _SECONDS, condition)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; None while the page changes."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def send(self, form: str, fields: Mapping[str, str]) -> None:
        """Fills the fields of a form, by name, and presses its button. `form`: its selector."""
        self.run(f"({_SEND})({json.dumps(form)}, {json.dumps(dict(fields))})")

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Writes what the page looks like as PNG."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def complaints(self) -> list[str]:
        """What the browser wrote to its console since: scripts that broke, things that the policy refused."""
        self.run("1")
        found = [e for e in self._events if e.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]
        self._events.clear()
        return [json.dumps(each["params"])[:500] for each in found]
