"""Report to systemd that the controller is up and still making rounds (the protocol of ``sd_notify``).

With ``WatchdogSec=`` in the unit, systemd kills a service that has not sent ``WATCHDOG=1`` for so long, and
``Restart=always`` starts it again. That covers what no code inside a process can notice: a process that hangs.

Reference: sd_notify(3), systemd.service(5) (WatchdogSec, NotifyAccess).
"""

from __future__ import annotations

import contextlib
import os
import socket


def notify(state: str) -> bool:
    """Send ``state`` (``READY=1``, ``WATCHDOG=1``, ``STOPPING=1``) to systemd; whether there was someone to send it to.

    Never raises: without systemd, or with a full socket, the controller works all the same.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    where = "\0" + address[1:] if address.startswith("@") else address  # @: an abstract socket, which has no file
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as client:
        client.settimeout(1.0)
        client.sendto(state.encode(), where)
        return True
    return False
