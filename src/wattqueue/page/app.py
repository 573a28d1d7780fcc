"""Paths, tokens and headers of the operator page. It answers GET and HEAD, and changes nothing.

Who has the token sees names of users and jobs: a proxy sends it as ``Authorization: Bearer``, a browser without one
asks for it (``/names``: HTTP Basic, any user, the token as password). Without a token the page is served without names;
a wrong one is answered by 401 and no more.

A page of another site could ask in the name of its reader under a name that it points at this host (DNS rebinding), so
requests to a host that is not listed are refused.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import gzip
import hashlib
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from wattqueue.page.feed import Feed, Stream
from wattqueue.report.html import echarts_version, part
from wattqueue.version import __version__

SCRIPTS = ("theme.js", "core.js", "charts.js")
"""Scripts of the reports that the page uses."""
OWN = ("live.js", "live.css")
KINDS = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "html": "text/html; charset=utf-8"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""On every answer."""
LOOK_S = 1.0
"""How often the files are looked at while somebody reads."""
Access = Literal["wrong", "plain", "names"]
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Asset:
    """A file of the page, plain and compressed."""

    kind: str
    plain: bytes
    packed: bytes
    tag: str


def assets() -> dict[str, Asset]:
    """Return the files of the page by their names; the page itself is ``page.html``."""
    own = files("wattqueue.page") / "assets"
    texts = {name: part(f"page/{name}") for name in SCRIPTS}
    texts |= {"report.css": part("page/report.css"), "echarts.js": part("vendor/echarts.min.js")}
    texts |= {name: (own / name).read_text(encoding="utf-8") for name in OWN}
    html = (own / "page.html").read_text(encoding="utf-8")
    texts["page.html"] = html.replace("{{version}}", __version__).replace("{{echarts}}", echarts_version())
    return {name: _asset(name, text) for name, text in texts.items()}


def _asset(name: str, text: str) -> Asset:
    plain = text.encode()
    packed = gzip.compress(plain, 9, mtime=0)
    return Asset(KINDS[name.rpartition(".")[2]], plain, packed, f'"{hashlib.sha256(plain).hexdigest()[:20]}"')


@dataclass
class Page:
    """The application of a page. Without a token nobody sees names."""

    feed_of: Callable[[str | None], Feed]
    """The feed of an instant that a reader asks for (``events?at=``); a controller has one for all."""
    token: str = ""
    hosts: tuple[str, ...] = ()
    """Names under which the page may be asked for; empty: any."""
    open_names: bool = False
    """Whether everybody sees names."""
    ending: Callable[[], bool] = lambda: False
    """Whether the server ends, and streams with it."""
    _one: asyncio.Lock | None = None

    def __post_init__(self) -> None:
        """Read and compress the files of the page, once."""
        self.assets = assets()

    def app(self) -> Starlette:
        """Return the application (ASGI)."""
        return Starlette(routes=[
            Route("/", self._guarded(self._page)), Route("/events", self._guarded(self._events)),
            Route("/names", self._guarded(self._names)), Route("/static/{name}", self._guarded(self._static)),
        ])  # fmt: skip

    def _guarded(self, answer: Callable[[Request, bool], Awaitable[Response]]) -> Endpoint:
        """Return an endpoint that looks at host and token first, and adds the headers."""

        async def guarded(request: Request) -> Response:
            host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
            if self.hosts and host not in self.hosts:
                response: Response = Response("wrong host\n", 421)
            elif (access := self.access(request.headers)) == "wrong":
                response = Response(status_code=401, headers={"WWW-Authenticate": 'Basic realm="WattQueue"'})
            else:
                response = await answer(request, access == "names")
            response.headers.update(HEADERS)
            return response

        return guarded

    def access(self, headers: Mapping[str, str]) -> Access:
        """Return what a request may see, by its token. The token is compared in constant time."""
        given = headers.get("authorization")
        if given is None:
            return "names" if self.open_names else "plain"
        scheme, _, value = given.partition(" ")
        if scheme.lower() == "basic":
            try:
                value = base64.b64decode(value, validate=True).decode().partition(":")[2]
            except (binascii.Error, ValueError):
                return "wrong"
        right = scheme.lower() in ("basic", "bearer") and self.token != ""
        return "names" if right and hmac.compare_digest(value.encode(), self.token.encode()) else "wrong"

    async def _page(self, request: Request, _names: bool) -> Response:
        return self._answer(request, "page.html")

    async def _static(self, request: Request, _names: bool) -> Response:
        name = request.path_params["name"]
        return self._answer(request, name) if name in self.assets else Response(status_code=404)

    async def _names(self, _request: Request, names: bool) -> Response:
        """Let a browser ask for the token, and go back to the page."""
        if names or not self.token:
            return RedirectResponse("./", 303)
        return Response(status_code=401, headers={"WWW-Authenticate": 'Basic realm="WattQueue"'})

    def _answer(self, request: Request, name: str) -> Response:
        """Return a file, or that it has not changed."""
        one = self.assets[name]
        headers = {"ETag": one.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == one.tag:
            return Response(status_code=304, headers=headers)
        packed = "gzip" in request.headers.get("accept-encoding", "")
        if packed:
            headers["Content-Encoding"] = "gzip"
        return Response(one.packed if packed else one.plain, media_type=one.kind, headers=headers)

    async def _events(self, request: Request, names: bool) -> Response:
        packed = "gzip" in request.headers.get("accept-encoding", "")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        if packed:
            headers["Content-Encoding"] = "gzip"
        if request.method == "HEAD":
            return Response(media_type="text/event-stream", headers=headers)
        feed = await asyncio.to_thread(self.feed_of, request.query_params.get("at"))
        stream = self._stream(Stream(feed, names, packed))
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def _stream(self, stream: Stream) -> AsyncIterator[bytes]:
        """Yield what is new, about once a second, until the reader goes or the server ends."""
        while not self.ending():
            await self._look(stream.feed)
            data = stream.news(time.time())
            if data:
                yield data
            await asyncio.sleep(LOOK_S)

    async def _look(self, feed: Feed) -> None:
        """Look at the files, at most once a second for all readers."""
        if self._one is None:
            self._one = asyncio.Lock()
        async with self._one:
            now_s = time.time()
            if not 0.0 <= now_s - feed.looked_s < 0.9 * LOOK_S:
                await asyncio.to_thread(feed.look, now_s)
