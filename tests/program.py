"""The program as a user calls it, in this process: for tests of what verbs read, write and print.

A process of its own takes 0.6 s to import what a verb needs. Tests of the process itself (signals, closed streams, what
is imported) start one.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from unittest import mock

import wattqueue as package
from wattqueue import cli

IMPORTED_FROM = Path(package.__file__).parents[1]
"""The folder from which the program under test is imported: src, or that of an installed wheel."""


def wattqueue(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command; its exit status and what it printed are those of a process of its own."""
    words = [str(word) for word in arguments]
    out, err = Stream(), Stream()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(cwd or Path.cwd()))
        stack.enter_context(mock.patch.object(sys, "argv", ["wattqueue", *words]))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        stack.enter_context(mock.patch.object(cli, "_collect_rarely"))  # settings of a process, for its whole life
        status = cli._flushed(cli._run(words, []))
    return subprocess.CompletedProcess(words, status_of(status, err), out.text(), err.text())


class Stream(io.TextIOWrapper):
    """A pipe that nobody sees: no terminal, UTF-8."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="", write_through=True)

    def text(self) -> str:
        self.flush()
        written: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]
        return written.decode("utf-8")


def status_of(status: int | str | None, err: Stream) -> int:
    """The status of ``sys.exit(status)``, which prints a text."""
    if isinstance(status, str):
        err.write(f"{status}\n")
        return 1
    return status or 0
