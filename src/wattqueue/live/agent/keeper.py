"""A second process that restores the limits of a node when its agent dies or hangs.

``python -m wattqueue.live.agent.keeper FOLDER SECONDS`` reads from the agent through a pipe: one byte in each of the
agent's steps. The end of the pipe (the agent was killed) or a silence of SECONDS (it hangs or is stopped) makes it
restore what ``originals`` in FOLDER says, and end. ``q`` says that the agent ends in order and has restored.

Nothing here can undo what happens if both processes are killed at one instant: for that the unit has
``ExecStopPost=wattqueue agent restore``. A node that loses power or restarts begins with the hardware's own limits.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from wattqueue.live.agent.originals import restore_from


@dataclass
class Keeper:
    """The agent's side of the pipe. A keeper that died is replaced at the next ``beat``.

    Attributes:
        folder: State folder of the agent.
        patience_s: Silence after which the keeper restores.
        restarts: How often a keeper had to be replaced.
    """

    folder: Path
    patience_s: float
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
        argv = [sys.executable, "-m", "wattqueue.live.agent.keeper", str(self.folder), str(self.patience_s)]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, bufsize=0, start_new_session=True)


def main(folder: Path, patience_s: float) -> int:
    """Watch the pipe until the agent ends or falls silent; returns 1 where a limit could not be restored."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # whoever ends the agent with its group needs this process most
    while select.select([0], [], [], patience_s)[0] and (word := os.read(0, 4096)):
        if word.endswith(b"q"):
            return 0
    problems = restore_from(folder)
    sys.stderr.writelines(f"wattqueue agent: not restored: {text}\n" for text in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2])))
