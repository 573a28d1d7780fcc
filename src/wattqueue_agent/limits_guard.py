"""Start what publishes limits: ``python -m wattqueue_agent.limits_guard -c limits.toml``; see ``live.limits_guard``.

It has its own command line to stay small: the standard library, and the client of the broker.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from wattqueue.errors import WattQueueError
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
        connection = Connection(settings.broker, settings.broker.user, "state/+")
        connection.open()
        run(LimitPublisher(settings, connection), settings.socket, _say)
    except WattQueueError as error:
        _say(str(error))
        return 1
    return 0


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} limits: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
