"""What the process that publishes limits of nodes says of those in force (``live.limits_guard``), as the guard asks it.

It is another process with rights of its own, so the guard takes its word; where it gives none, nodes count at most.
"""

from __future__ import annotations

import contextlib
import math
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from wattqueue.live.guard.wire import REQUEST_BYTES, Packet, WireError, receive, send

MOST_S, QUIET_S = 0.5, 10.0
"""Longest wait for an answer, and how long nothing is asked after there was none."""


class LimitsTold(NamedTuple):
    """Which limits are in force; the default where nothing is known."""

    below_w: Mapping[str, float] = {}
    """By how much each limited node draws less than its maximum; every one has been read back."""
    holds: bool = False
    """Whether all limits that may be in force sum to no more than the cap."""


@dataclass
class LimitsReader:
    """Asks at a local socket."""

    path: Path
    clock: Callable[[], float] = time.monotonic
    _failed_s: float = -math.inf

    def ask(self) -> LimitsTold:
        """Return what is told; nothing where there is no answer within ``MOST_S``, or one that is none."""
        if self.clock() - self._failed_s < QUIET_S:
            return LimitsTold()
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        with channel, contextlib.suppress(OSError, WireError, AttributeError, TypeError, ValueError, KeyError):
            channel.settimeout(MOST_S)
            channel.connect(str(self.path))
            send(channel, Packet({"do": "limits"}))
            told = receive(channel, REQUEST_BYTES).header
            below_w = {str(name): max(0.0, float(watts)) for name, watts in told["below_w"].items()}
            return LimitsTold(below_w, told.get("holds") is True)
        self._failed_s = self.clock()
        return LimitsTold()
