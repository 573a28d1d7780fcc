"""A second process that keeps the lease of an agent which dies or hangs, and restores the limits when it runs out.

``python -m wattqueue_agent.keeper FOLDER SECONDS OWNER`` reads from the agent through a pipe: one byte in each of
the agent's steps. After the end of the pipe (the agent was killed) or a silence of SECONDS (it hangs or is stopped) it
waits until the lease in FOLDER has run out, and restores what ``originals`` says there. Not earlier: restored limits
are higher ones, and the controller, which counts a silent node at its highest limit, needs the time to lower others.
Where another agent than OWNER has taken the lease over meanwhile, its keeper does that instead. ``q`` says that the
agent ends in order and has restored.

Nothing here can undo what happens if both processes are killed at one instant: for that the unit has
``ExecStopPost=wattqueue agent restore --when-expired``, which starts a keeper. A node that loses power or restarts
begins with the hardware's own limits.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from wattqueue_agent.originals import read_lease, restore_from

LOOK_S = 1.0
"""Longest time between two looks at a lease of which a keeper waits for the end."""


@dataclass
class Keeper:
    """The agent's side of the pipe. A keeper that died is replaced at the next ``beat``.

    Attributes:
        folder: State folder of the agent.
        timeout_s: Silence after which the agent counts as dead.
        owner: Name of this run of the agent, as ``Originals.owner``.
        restarts: How often a keeper had to be replaced.
    """

    folder: Path
    timeout_s: float
    owner: str = ""
    restarts: int = -1
    _process: subprocess.Popen[bytes] | None = None

    def beat(self) -> bool:
        """Say that the agent works; returns False if a keeper had to be started, after whose end all is restored."""
        if self._process is not None:
            pipe = self._pipe(self._process)
            if self._process.poll() is None:
                with suppress(BrokenPipeError):
                    pipe.write(b".")
                    return True
            pipe.close()
            self._process.wait()  # what it restores is restored before anything is set again
        self._start()
        return False

    def end(self) -> None:
        """Let the keeper go without restoring anything."""
        if self._process is not None:
            with suppress(BrokenPipeError), self._pipe(self._process) as pipe:
                pipe.write(b"q")
            self._process.wait()

    @staticmethod
    def _pipe(process: subprocess.Popen[bytes]) -> IO[bytes]:
        assert process.stdin is not None  # noqa: S101 - opened by ``_start``
        return process.stdin

    def _start(self) -> None:
        self.restarts += 1
        self._process = start_keeper(self.folder, self.timeout_s, self.owner, subprocess.PIPE)


def start_keeper(folder: Path, timeout_s: float, owner: str, pipe: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start a keeper; without a ``pipe`` it waits for the end of the lease from the beginning."""
    argv = [sys.executable, "-m", "wattqueue_agent.keeper", str(folder), str(timeout_s), owner]
    return subprocess.Popen(argv, stdin=pipe, bufsize=0, start_new_session=True)


def main(folder: Path, timeout_s: float, owner: str) -> int:
    """Watch the pipe until the agent ends; returns 1 where a limit could not be restored."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # whoever ends the agent with its group needs this process most
    pipe, wait_s = [0], timeout_s
    while True:
        if select.select(pipe, [], [], wait_s)[0]:
            word = os.read(0, 4096)
            if word.endswith(b"q"):
                return 0
            if word:
                wait_s = timeout_s
                continue
            pipe = []  # killed: nothing will come any more
        held = read_lease(folder)
        if held is None or held[0] != owner:
            return 0
        left_s = held[1].expires_s - time.time()
        if left_s <= 0:
            break
        wait_s = min(left_s, LOOK_S)
    problems = restore_from(folder)
    with suppress(OSError):
        sys.stderr.writelines(f"wattqueue agent: not restored: {text}\n" for text in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]))
