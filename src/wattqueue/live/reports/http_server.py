"""The server of what a controller offers over HTTP: metrics, status, a webhook."""

from __future__ import annotations

import sys
from http.server import ThreadingHTTPServer
from typing import Any


class QuietServer(ThreadingHTTPServer):
    """InstantResult each request in a thread of its own; a client that goes away in between is no error.

    Python's server writes a traceback for it, into the journal of the service.
    """

    daemon_threads = True
    """A client that hangs must not keep the controller from ending."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report a request that failed, unless its connection did."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)
