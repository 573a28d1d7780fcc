"""Find and end every process of a test lab by the marker in its environment, however it was started.

Run as a program it is the lab's watchdog: it waits for its standard input to close (the test process
ended, for whatever reason) and then ends what is left.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

MARKER = "WATTQUEUE_LAB"


def marked(value: str) -> list[int]:
    """Process ids whose environment carries this lab's marker (the caller left out)."""
    return [pid for pid, _, environ in _processes() if f"{MARKER}={value}".encode() in environ]


def states_of(value: str, setting: str) -> set[str]:
    """States (letters of proc(5)) of a lab's processes whose environment has a setting, such as SLURM_JOB_ID=7."""
    wanted = {f"{MARKER}={value}".encode(), setting.encode()}
    return {state for _, state, environ in _processes() if wanted <= environ}


def states_by(value: str, name: str) -> dict[str, set[str]]:
    """States of a lab's processes by what their environment gives a name, such as SLURM_JOB_ID."""
    found: dict[str, set[str]] = {}
    start = f"{name}=".encode()
    for _, state, environ in _processes():
        if f"{MARKER}={value}".encode() in environ:
            for one in environ:
                if one.startswith(start):
                    found.setdefault(one[len(start) :].decode(), set()).add(state)
    return found


def _processes() -> Iterator[tuple[int, str, set[bytes]]]:
    """Id, state and environment of every process that has one; the caller and zombies left out."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environ = (entry / "environ").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state != "Z":
            yield int(entry.name), state, set(environ)


def end_all(value: str, timeout_s: float = 60.0) -> list[int]:
    """Kill every marked process, again and again until none is left; returns what would not go."""
    deadline = time.monotonic() + timeout_s
    while left := marked(value):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            return left
        time.sleep(0.05)
    return []


if __name__ == "__main__":
    sys.stdin.read()
    end_all(sys.argv[1])
