"""Lines of a service's log on stdout, each with its time."""

from __future__ import annotations

import contextlib
import time


def say(line: str) -> None:
    """Print a line with the time in UTC; flushed, since the journal reads a pipe.

    A reader that has gone, or a full disk, does not end a service: the line is lost.
    """
    with contextlib.suppress(OSError, ValueError):
        print(f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime())}Z {line}", flush=True)
