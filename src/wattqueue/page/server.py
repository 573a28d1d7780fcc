"""Serve the operator page: a bounded number of connections, of which those that stand still are closed.

uvicorn bounds requests, not connections: one that sends nothing, or half a request, stays for ever. So the protocol of
a connection (``Bounded``) closes those beyond the most that are allowed, those whose request does not come, and those
whose reader does not take what it asked for.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import ClassVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from wattqueue.errors import InputError
from wattqueue.page.app import Page

HEAD_S = 10.0
"""A request must be there after so long, also the next one on a connection."""
STALLED_S = 15.0
"""A reader must take what was sent within this time."""
BACKLOG = 2048
"""Connections that wait to be taken."""
FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\nRetry-After: 10\r\n\r\n"


class Bounded(H11Protocol):
    """One connection; the class itself holds the bounds."""

    most: ClassVar[int] = 100
    """Most connections at a time."""
    _idle: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or close it where there are enough."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self.connections.discard(self)
            transport.write(FULL)
            transport.close()
            return
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        super().data_received(data)
        self._expect()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is there."""
        super().on_response_complete()
        self._expect()

    def _expect(self) -> None:
        """Close the connection unless a request comes in time; more bytes of its head give it no more time."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, which its type leaves out
        if cycle is not None and not cycle.response_complete:
            if self._idle is not None:
                self._idle.cancel()
            self._idle = None
        elif self._idle is None:
            self._idle = self.loop.call_later(HEAD_S, self.transport.abort)

    def pause_writing(self) -> None:
        """Note that the reader does not take what is sent."""
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Note that it takes it again."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        for timer in (self._idle, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)


def local_names(address: str) -> tuple[str, ...]:
    """Return the names under which this host is asked for at an address."""
    return ("localhost", "127.0.0.1", "::1", address.strip("[]").lower())


def serve(page: Page, address: str, port: int, most: int, say: Callable[[str], None]) -> None:
    """Serve a page until SIGINT or SIGTERM.

    Raises: InputError where the address or port cannot be used.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen(BACKLOG)  # from here on nobody is refused: who starts this process waits for the line below
    except OSError as error:
        listener.close()
        hint = "is another page served there, or the port in use?"
        raise InputError(f"cannot listen: {error.strerror}", where=f"{address}:{port}", hint=hint) from error
    bounded = type("BoundedTo", (Bounded,), {"most": most})
    config = uvicorn.Config(
        page.app(), http=bounded, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
        timeout_graceful_shutdown=5, loop="asyncio",
        backlog=BACKLOG,
    )  # fmt: skip
    host = f"[{address}]" if ":" in address else address
    say(f"the page is at http://{host}:{listener.getsockname()[1]}/")
    server = uvicorn.Server(config)
    page.ending = lambda: server.should_exit
    try:
        server.run(sockets=[listener])
    finally:
        listener.close()
