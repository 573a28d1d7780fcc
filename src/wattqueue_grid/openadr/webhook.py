"""A webhook: the VTN calls it when an event changes, and the VEN then looks at once.

A call must carry the bearer token that the subscription stated, which is drawn at each start and kept nowhere. The
content of a call is not acted on: it only has to be a notification.

Reference: OpenADR 3.1.0, schemas ``notification`` and ``subscriptionRequest``; user guide, 6.3.1.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from wattqueue.errors import InputError
from wattqueue.formats.json_text import read_json
from wattqueue.live.reports.metrics import QuietServer
from wattqueue.model.plain_numbers import is_whole
from wattqueue_grid.openadr.client import VtnClient
from wattqueue_grid.openadr.objects import SubscriptionObject, parse
from wattqueue_grid.openadr.section import CallbackSection, OpenADRSection

MOST_BYTES = 1 << 20
"""Most bytes of a call."""
TIMEOUT_S = 10.0
"""After so long a connection that stands still is closed."""
OBJECTS, OPERATIONS = ["EVENT", "PROGRAM"], ["CREATE", "UPDATE", "DELETE"]


@dataclass
class Webhook:
    """Listens for the VTN's calls, in a thread.

    Attributes:
        section: Where it listens, and the URL that the VTN calls.
        wake: Called for each notification.
        counts: Calls, by what became of them.
    """

    section: CallbackSection
    wake: Callable[[], None]
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    counts: Counter[str] = field(default_factory=Counter)
    subscription_id: str = ""
    _server: QuietServer | None = None

    def open(self) -> None:
        """Begin to listen. Raises: InputError where the address cannot be used."""
        try:
            self._server = QuietServer((self.section.address, self.section.port), _handler_of(self))
        except OSError as error:
            where = f"{self.section.address}:{self.section.port}"
            raise InputError(f"the webhook cannot listen: {error.strerror}", where=where) from error
        threading.Thread(target=self._server.serve_forever, name="openadr-webhook", daemon=True).start()

    @property
    def port(self) -> int:
        """Return the port that it listens on."""
        return self._server.server_port if self._server is not None else 0

    def subscribe(self, client: VtnClient, section: OpenADRSection) -> None:
        """Subscribe to changes, in place of an earlier subscription of the same URL. Raises: VtnError, InputError."""
        operation = {
            "objects": OBJECTS,
            "operations": OPERATIONS,
            "callbackUrl": self.section.url,
            "bearerToken": self.token,
        }
        client.secrets.add(self.token)
        body = {"clientName": section.ven_name, "objectOperations": [operation]}
        if section.targets:
            body["targets"] = list(section.targets)
        for raw in client.all_of("/subscriptions", clientName=section.ven_name):
            old = parse(SubscriptionObject, raw)
            if any(one.callback_url == self.section.url for one in old.operations):
                self.subscription_id = old.id
                client.put(f"/subscriptions/{old.id}", body)
                return
        self.subscription_id = parse(SubscriptionObject, client.post("/subscriptions", body)).id

    def unsubscribe(self, client: VtnClient) -> None:
        """End the subscription. Raises: VtnError."""
        if self.subscription_id:
            client.delete(f"/subscriptions/{self.subscription_id}")
            self.subscription_id = ""

    def close(self) -> None:
        """End listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def take(self, path: str, authorization: str, body: bytes) -> int:
        """Take a call; returns the status to answer."""
        if path != (urlsplit(self.section.url).path or "/"):
            return self._count(404, "another path")
        if not hmac.compare_digest(authorization.encode(), f"Bearer {self.token}".encode()):
            return self._count(401, "without our token")
        try:
            note = read_json(body)
            known = (
                note["objectType"] in OBJECTS and note["operation"] in OPERATIONS and isinstance(note["object"], dict)
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            return self._count(400, "not a notification")
        if known:
            self.wake()
        return self._count(200, "taken" if known else "of other objects")

    def _count(self, status: int, what: str) -> int:
        self.counts[what] += 1
        return status


def _handler_of(hook: Webhook) -> type[BaseHTTPRequestHandler]:
    """Return the class that answers calls."""

    class _Handler(BaseHTTPRequestHandler):
        timeout = TIMEOUT_S

        def do_POST(self) -> None:
            """Answer a call."""
            stated = self.headers.get("Content-Length", "")
            if not is_whole(stated) or int(stated) > MOST_BYTES:
                self._answer(hook._count(413, "too long"))  # noqa: SLF001 - one piece with it
                return
            body = self.rfile.read(int(stated))
            path = urlsplit(self.path).path
            self._answer(hook.take(path, self.headers.get("Authorization", ""), body))

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing: ``counts`` has the figures, and a line holds what a stranger sent."""

    return _Handler
