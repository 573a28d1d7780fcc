"""Serve a few accounts at a local socket, one request after another; what answers is a ``Service``.

An account is known by the kernel's word for the process at the other end, so the socket itself is open to all.
"""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import struct
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from wattqueue.errors import InputError
from wattqueue.live.guard.place import PlannerPlace
from wattqueue.live.guard.wire import REQUEST_BYTES, Packet, WireError, receive, send

CONNECTIONS = 8
"""Connections at once."""
FRAME_S = 30.0
"""Longest time that a frame may take: a planner that stops within one must not keep the next one away."""
_PEER = struct.Struct("3i")


class Service(Protocol):
    """What answers requests."""

    place: PlannerPlace
    allowed: Collection[int | None]
    """User ids that may connect."""

    def answer_to(self, asker: socket.socket, request: Packet) -> Packet:
        """Return the answer to a request of a connection."""
        ...

    def due(self, *, quiet: bool) -> float:
        """Do what is due, and say how long to wait for a request. ``quiet``: none came in the time before."""
        ...

    def end(self) -> None:
        """Clean up."""
        ...


def peer_uid(channel: socket.socket) -> int:
    """Return the user id of the process at the other end."""
    found: tuple[int, int, int] = _PEER.unpack(channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return found[1]


def listen(path: Path) -> socket.socket:
    """Return a socket that listens at a path; what a process that was killed left there is removed.

    Raises: InputError where nothing can listen there, as in a folder that does not exist.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        path.chmod(0o666)  # who may speak is decided by the account at the other end
        listener.listen(4)
    except OSError as error:  # one of a long path has no number
        listener.close()
        raise InputError(f"nothing can listen here: {error.strerror or error}", where=path) from error
    return listener


def serve(service: Service, listener: socket.socket, say: Callable[[str], None], stopped: Callable[[], bool]) -> None:
    """Serve whoever may connect until ``stopped``. Raises what ``service.due`` raises."""
    quiet = False
    with selectors.DefaultSelector() as waiting, contextlib.ExitStack() as last:
        waiting.register(listener, selectors.EVENT_READ)
        last.callback(lambda: [key.data.close() for key in [*waiting.get_map().values()] if key.data is not None])
        while not stopped():
            ready = waiting.select(timeout=service.due(quiet=quiet))
            quiet = not ready
            for key, _ in ready:
                if key.data is None:
                    channel, _ = listener.accept()
                    if peer_uid(channel) in service.allowed and len(waiting.get_map()) <= CONNECTIONS:
                        channel.settimeout(FRAME_S)
                        waiting.register(channel, selectors.EVENT_READ, channel)
                        continue
                    say(f"user {peer_uid(channel)} may not connect, or too many do")
                    channel.close()
                elif error := _answer(service, key.data):
                    if service.place.holder is key.data:  # others connect for a question
                        say(f"planner: {error}")
                    waiting.unregister(key.data)
                    service.place.leave(key.data)
                    key.data.close()


def _answer(service: Service, channel: socket.socket) -> str:
    """Answer one request; return why the connection has ended, empty where it goes on."""
    try:
        send(channel, service.answer_to(channel, receive(channel, REQUEST_BYTES)))
    except WireError as error:
        return error.what
    return ""


def run(service: Service, path: Path, say: Callable[[str], None]) -> None:
    """Serve at a path until SIGTERM or SIGINT."""
    ends: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, _: ends.append(n))
    with listen(path) as listener:
        say(f"listening at {path}")
        try:
            serve(service, listener, say, lambda: bool(ends))
        finally:
            service.end()
            path.unlink(missing_ok=True)
