"""Start what publishes limits: ``python -m wattqueue_agent.limits_guard -c limits.toml``; see ``live.limits_guard``.

It has its own command line to stay small: the standard library, and the client of the broker.
"""

from __future__ import annotations

import argparse
import fcntl
import sys
import time
from pathlib import Path
from typing import BinaryIO

from wattqueue.errors import InputError, WattQueueError
from wattqueue.live.guard.sockets import run
from wattqueue.live.limits_guard.publisher import LimitPublisher
from wattqueue.live.limits_guard.settings import read_limits_settings
from wattqueue_agent.broker import Connection


def main() -> int:
    """Serve until SIGTERM; the exit status is 1 where the settings are wrong."""
    parser = argparse.ArgumentParser(prog="python -m wattqueue_agent.limits_guard", description=__doc__)
    parser.add_argument(
        "-c", "--config", type=Path, required=True, help="The process's own configuration, a TOML file."
    )
    arguments = parser.parse_args()
    try:
        settings = read_limits_settings(arguments.config)
        with _alone(settings.socket.with_suffix(".lock")):
            connection = Connection(settings.broker, settings.broker.user, "state/+")
            connection.open()
            run(LimitPublisher(settings, connection), settings.socket, _say)
    except WattQueueError as error:
        _say(str(error))
        return 1
    return 0


def _alone(path: Path) -> BinaryIO:
    """Return what keeps another process from publishing as long as it is open: two would raise into the same room.

    Raises: InputError where another one publishes, or the file cannot be written. A process that is killed lets go.
    """
    try:
        held = path.open("ab")
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise InputError(f"another process publishes limits, or none may: {error.strerror}", where=path) from error
    return held


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} limits: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
