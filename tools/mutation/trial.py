"""Try a mutation: run the tests that run its place, on a copy of the repository that has it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.mutation.places import Place
from tools.mutation.tests_of import FAST

QUICK_S = 10.0
"""The first pytest of a trial runs the quickest tests, up to this many seconds in all: most mutations end there."""
PATIENCE_S, PATIENCE_FACTOR = 60.0, 4.0
"""A pytest has run out of time after so many seconds, and so many times what its tests took when they were recorded."""
MOST_BYTES = 8 << 30
"""Address space of a pytest: a mutation may allocate without an end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutation."""

    place: Place
    killed_by: str
    """The first test that failed; empty for a survivor."""
    tests: int
    """Tests that run the place."""
    seconds: float


class TrialError(Exception):
    """pytest could not be asked."""


class Trial:
    """A copy of the repository in which one mutation after another is tried."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        shutil.rmtree(folder, ignore_errors=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, check=True, capture_output=True, text=True,
        )  # fmt: skip
        for name in filter(None, listed.stdout.split("\0")):
            if (root / name).is_file():  # not one that was removed
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name)
        if (root / ".venv").exists():
            (folder / ".venv").symlink_to(root / ".venv")
        self.mutations = 0

    def of(self, place: Place, tests: dict[str, float]) -> Outcome:
        """Run tests on the source with a mutation until one fails; ``tests`` has seconds by name, quick ones first."""
        begin, killed = time.monotonic(), ""
        for batch in _batches(tests):
            while batch and not killed:
                failed = self._first_failure(place, batch)
                if not failed:
                    break
                if failed in batch and self._fails_anyway(failed, tests[failed]):
                    del batch[failed]  # says nothing about the mutation
                else:
                    killed = failed
            if killed:
                break
        return Outcome(place, killed, len(tests), time.monotonic() - begin)

    def _first_failure(self, place: Place, batch: dict[str, float]) -> str:
        file = self.folder / place.file
        source = file.read_bytes()
        kept = file.stat()
        self.mutations += 1
        try:
            file.write_bytes(place.applied(source))
            # Each mutation has a time of its own: bytecode is kept by size and whole seconds.
            os.utime(file, (kept.st_atime, kept.st_mtime + self.mutations))
            return self._pytest(batch)
        finally:
            file.write_bytes(source)
            os.utime(file, (kept.st_atime, kept.st_mtime))

    def _fails_anyway(self, test: str, seconds: float) -> bool:
        return bool(self._pytest({test: seconds}))

    def _pytest(self, batch: dict[str, float]) -> str:
        """Run tests until one fails. Returns its name, what else ended the run, or nothing."""
        (self.folder / "tests.txt").write_text("\n".join(batch))
        command = [
            "prlimit", f"--as={MOST_BYTES}", sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no",
            "-p", "no:cacheprovider", f"--basetemp={self.folder / 'tmp'}", "-m", FAST, "@tests.txt",
        ]  # fmt: skip
        own = {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(self.folder / "src"), MARK: str(self.folder)}
        printed = self.folder / "printed.txt"
        # To a file: a pipe stays open as long as something that a test has started lives.
        with printed.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=self.folder, env={**os.environ, **own}, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
            try:
                status = process.wait(PATIENCE_S + PATIENCE_FACTOR * sum(batch.values()))
            except subprocess.TimeoutExpired:
                return "time-out"
            finally:
                end_marked(f"{MARK}={self.folder}")
                process.wait()
        return _verdict(status, printed.read_text(errors="replace"))


MARK = "WATTQUEUE_MUTATION"
"""Variable by which a trial knows its own processes again, those in sessions of their own among them."""


def end_marked(entry: str) -> None:
    """End every process of ours whose environment began with an entry: what a test has started ends with it."""
    for process in Path("/proc").glob("[0-9]*"):
        # Processes end meanwhile, and those of others cannot be read.
        with contextlib.suppress(OSError):
            if entry.encode() in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)


def _verdict(status: int, text: str) -> str:
    """Return the test that failed by what pytest printed; what ended the run where no test did; nothing for a pass."""
    if status in {0, 5}:
        return ""
    if named := re.search(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE):
        return re.sub(r"\[.*", "", named[1]).partition("@")[0]
    if status == 4 and "not found:" in text:
        raise TrialError(text[-2000:])
    return "the import of the tests' set-up" if status == 4 else f"the end of pytest with status {status}"


def _batches(tests: dict[str, float]) -> Iterator[dict[str, float]]:
    """Yield the quickest tests, and then the others."""
    quick: dict[str, float] = {}
    for name, seconds in tests.items():
        if sum(quick.values()) + seconds > QUICK_S and quick:
            break
        quick[name] = seconds
    yield quick
    yield {name: seconds for name, seconds in tests.items() if name not in quick}
