"""A headless Chromium over its DevTools protocol, through pipes: no driver, no port, no package."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# Chromium reads its orders on descriptor 3 and answers on 4.
LAUNCH = "import os, sys; [os.dup2(int(sys.argv[k]), k + 2) for k in (1, 2)]; os.execvp(sys.argv[3], sys.argv[3:])"
PATIENCE_S = 90.0


def find() -> str | None:
    """Path of a Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page. Calls of the protocol go out on descriptor 3 and come back on 4, a zero byte behind each."""

    def __init__(self, program: str, profile: Path) -> None:
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        self._read, self._write = ours_in, ours_out
        self._buffer = b""
        self._count = 0
        self.events: list[dict[str, Any]] = []
        # High numbers first, so that putting one pipe in its place cannot overwrite the other.
        pipes = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (theirs_in, theirs_out)]
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", LAUNCH, *map(str, pipes)),
                *(program, *FLAGS, f"--user-data-dir={profile}", "about:blank"),
            ],
            pass_fds=pipes,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for fd in pipes:
            os.close(fd)
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        targets = self.call("Target.getTargets", session=None)["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session: str = self.call("Target.attachToTarget", session=None, targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, session: str | None = "page", **params: Any) -> dict[str, Any]:
        """One call, and its result. Raises RuntimeError for an error of the protocol."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            if "method" in answer:
                self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        last = time.monotonic() + PATIENCE_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, last - time.monotonic()))
            if not ready:
                raise TimeoutError("Chromium does not answer")
            block = os.read(self._read, 1 << 20)
            if not block:
                raise ConnectionError("Chromium ended")
            self._buffer += block
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def open(self, page: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Load a file and wait until its charts are drawn."""
        self.events.clear()
        self.screen(width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.navigate", url=page.resolve().as_uri())
        drawn = "[...document.querySelectorAll('.chart')].every(c => c.dataset.ready)"
        self.wait(f"window.wattqueue && window.wattqueue.ready && {drawn}")

    def screen(self, width: int, height: int) -> None:
        """Size of the window; a narrow one is a telephone."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 640
        )

    def wait(self, condition: str) -> None:
        """Until a JavaScript expression is true."""
        last = time.monotonic() + PATIENCE_S
        while not self.js(f"Boolean({condition})"):
            if time.monotonic() > last:
                raise TimeoutError(f"never true: {condition}; {self.errors()}")
            time.sleep(0.05)

    def js(self, expression: str) -> Any:
        """Value of a JavaScript expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def key(self, key: str, code: str = "", *, number: int = 0) -> None:
        """Press and release a key; what a native control does with it depends on its Windows ``number``."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, windowsVirtualKeyCode=number)

    def errors(self) -> list[str]:
        """What the script engine threw and the console calls an error."""
        thrown = [e["params"]["exceptionDetails"] for e in self.events if e["method"] == "Runtime.exceptionThrown"]
        logged = [e["params"]["entry"] for e in self.events if e["method"] == "Log.entryAdded"]
        return [json.dumps(e)[:600] for e in thrown + [e for e in logged if e["level"] == "error"]]

    def requests(self) -> list[str]:
        """Addresses asked for other than the page itself and what it carries inside."""
        asked = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("data:", "blob:"))]

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """A PNG of the page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        more: dict[str, Any] = {"clip": clip, "captureBeyondViewport": True} if whole else {}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"]))

    def pdf(self, path: Path) -> None:
        """The page as printed on A4."""
        printed = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        path.write_bytes(base64.b64decode(printed["data"]))

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.call("Browser.close", session=None)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)


@contextlib.contextmanager
def browser(program: str) -> Iterator[Browser]:
    """A browser with a fresh profile, closed at the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        opened = Browser(program, Path(profile))
        try:
            yield opened
        finally:
            opened.close()
