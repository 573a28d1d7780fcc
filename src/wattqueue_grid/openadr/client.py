"""Requests to a VTN: OAuth client credentials, TLS, pages, bounds on what is read, errors without secrets.

The token is fetched before the first request, again when most of its time has passed, and once more where the VTN
refuses it. No redirect is followed, and no proxy of the environment is used: both could carry the token elsewhere.
Every text of a VTN that reaches an error passes ``Secrets.hide``, since a VTN may repeat what it was sent.

Reference: OpenADR 3.1.0, OpenAPI document; RFC 6749, 4.4 (client credentials).
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from wattqueue.errors import InputError, WattQueueError
from wattqueue.formats.json_text import read_json
from wattqueue.model.plain_numbers import is_whole
from wattqueue_grid.openadr.objects import TokenAnswer, parse
from wattqueue_grid.openadr.section import OpenADRSection, require_encrypted

if TYPE_CHECKING:
    import httpx

PAGE = 50
"""Most objects of an answer (``limit``)."""
MOST_PAGES = 200
MOST_BYTES = 8 << 20
"""Most bytes of an answer."""
RENEW_SHARE = 0.8
"""Share of a token's time after which it is renewed."""
DEFAULT_TOKEN_S = 3600.0
"""Time of a token whose answer states none."""


class VtnError(WattQueueError):
    """The VTN did not answer, or refused a request. ``status`` is that of HTTP, 0 without an answer."""

    def __init__(self, what: str, *, where: str, status: int = 0, retry_s: float | None = None) -> None:
        self.status, self.retry_s = status, retry_s
        super().__init__(what, where=where)


@dataclass
class Secrets:
    """Texts that must not be shown."""

    texts: set[str] = field(default_factory=set, repr=False)

    def add(self, text: str) -> None:
        """Hide a text from now on."""
        if text:
            self.texts.add(text)

    def hide(self, text: str) -> str:
        """Return a text as one printable line of at most 200 letters, with every secret replaced by ``***``."""
        for secret in sorted(self.texts, key=len, reverse=True):
            text = text.replace(secret, "***")
        return "".join(letter if letter.isprintable() else " " for letter in text)[:200]


@dataclass
class VtnClient:
    """A client of one VTN. Several threads may use it.

    Attributes:
        section: Where the VTN is, and as whom it is asked.
        secret: The client secret.
        offset_s: How far the VTN's clock is ahead of ours, None until it answered.
    """

    section: OpenADRSection
    secret: str = field(repr=False)
    clock: Callable[[], float] = time.time
    offset_s: float | None = None
    secrets: Secrets = field(default_factory=Secrets)
    _http: httpx.Client | None = field(default=None, repr=False)
    _token: str = field(default="", repr=False)
    _token_until_s: float = 0.0
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def __post_init__(self) -> None:
        self.secrets.add(self.secret)

    def get(self, path: str, **params: Any) -> Any:
        """Return the JSON of an object. Raises: VtnError."""
        return self._ask("GET", path, params=params)

    def all_of(self, path: str, **params: Any) -> Iterator[Any]:
        """Yield the objects of a list, page by page. Raises: VtnError."""
        seen: set[str] = set()
        for _ in range(MOST_PAGES):
            rows = self._ask("GET", path, params={**params, "skip": len(seen), "limit": PAGE})
            if not isinstance(rows, list):
                raise VtnError("the answer is no list", where=f"GET {path}")
            fresh = {str(row.get("id") if isinstance(row, dict) else row): row for row in rows}
            fresh = {key: row for key, row in fresh.items() if key not in seen}
            # Not until a page is short: a VTN may have shorter pages than it was asked for, or repeat one for ever.
            if not fresh:
                return
            seen |= fresh.keys()
            yield from fresh.values()
        raise VtnError(f"more than {MOST_PAGES * PAGE} objects", where=f"GET {path}")

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Create an object, and return it. Raises: VtnError."""
        return self._ask("POST", path, json=body)

    def put(self, path: str, body: dict[str, Any]) -> Any:
        """Replace an object, and return it. Raises: VtnError."""
        return self._ask("PUT", path, json=body)

    def delete(self, path: str) -> Any:
        """Delete an object, and return what it was. Raises: VtnError."""
        return self._ask("DELETE", path)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._http is not None:
                self._http.close()
                self._http = None

    def token(self) -> str:
        """Return a token that is valid, fetched if need be. Raises: VtnError."""
        with self._lock:
            if not self._token or self.clock() >= self._token_until_s:
                self._fetch_token()
            return self._token

    def _fetch_token(self) -> None:
        """Fetch a token. The server's address may come from the VTN, and must be encrypted as that of the VTN."""
        url = self.section.token_url
        if url is None:
            stated = self._send("GET", f"{self.section.vtn}/auth/server", "GET /auth/server")
            try:
                url = require_encrypted(str(stated["tokenURL"]))
            except (KeyError, TypeError, ValueError) as error:
                raise VtnError(f"no tokenURL that can be used: {error}", where="GET /auth/server") from None
        form = {"grant_type": "client_credentials", "client_id": self.section.client_id, "client_secret": self.secret}
        if self.section.scope:
            form["scope"] = self.section.scope
        where = "POST (token)"
        try:
            answer = parse(TokenAnswer, self._send("POST", url, where, data=form))
        except InputError as error:
            raise VtnError(self.secrets.hide(error.what), where=where) from None
        if answer.token_type.lower() != "bearer":
            raise VtnError("the token is of another type than Bearer", where=where)
        self._token = answer.access_token
        self.secrets.add(answer.access_token)
        lasts_s = DEFAULT_TOKEN_S if answer.expires_in is None else answer.expires_in
        self._token_until_s = self.clock() + RENEW_SHARE * max(lasts_s, 0.0)

    def _ask(self, method: str, path: str, **content: Any) -> Any:
        """Send a request with the token; once more with a new one where the VTN refuses it."""
        url, where = f"{self.section.vtn}{path}", f"{method} {path}"
        used = self.token()
        try:
            return self._send(method, url, where, token=used, **content)
        except VtnError as error:
            if error.status != 401:
                raise
        with self._lock:
            if self._token == used:
                self._token = ""
        return self._send(method, url, where, token=self.token(), **content)

    def _send(self, method: str, url: str, where: str, token: str = "", **content: Any) -> Any:
        """Send a request, and return the JSON of its answer. Raises: VtnError for everything that can go wrong."""
        import httpx

        # no compression: a few bytes could become very many
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        try:
            sent_s = self.clock()
            with self._client().stream(method, url, headers=headers, **content) as answer:
                body = b""
                for part in answer.iter_bytes():
                    body += part
                    if len(body) > MOST_BYTES:
                        raise VtnError(f"the answer has more than {MOST_BYTES >> 20} MiB", where=where)
                    if self.clock() - sent_s > 3 * self.section.timeout_s:
                        raise VtnError("the answer comes too slowly", where=where)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # The name alone says what a timeout is; other texts may repeat a URL, never a header or a body.
            text = self.secrets.hide(str(error))
            raise VtnError(f"{type(error).__name__}{f': {text}' if text else ''}", where=where) from None
        self._compare_clocks(answer.headers.get("Date", ""), sent_s)
        if not answer.is_success:
            retry_s = _seconds(answer.headers.get("Retry-After", ""))
            what = f"HTTP {answer.status_code}: {self._reason(body)}"
            raise VtnError(what, where=where, status=answer.status_code, retry_s=retry_s)
        try:
            return read_json(body)
        except (ValueError, RecursionError):
            raise VtnError("the answer is not JSON", where=where) from None

    def _reason(self, body: bytes) -> str:
        """Return what a refusal says: the problem's detail or title, or OAuth's error."""
        try:
            problem = read_json(body)
        except (ValueError, RecursionError):
            problem = None
        keys = ("detail", "title", "error_description", "error")
        texts = [problem[key] for key in keys if isinstance(problem.get(key), str)] if isinstance(problem, dict) else []
        return self.secrets.hide(texts[0]) if texts else "no reason stated"

    def _compare_clocks(self, date: str, sent_s: float) -> None:
        """Take the VTN's clock from an answer; it is in whole seconds, of the time after the request was sent."""
        try:
            stated_s = parsedate_to_datetime(date).timestamp()
        except (TypeError, ValueError):
            return
        middle_s = (sent_s + self.clock()) / 2.0
        self.offset_s = stated_s + 0.5 - middle_s

    def _client(self) -> httpx.Client:
        """Return the connection. Raises: InputError where the authority's certificate cannot be used."""
        import httpx

        with self._lock:
            if self._http is None:
                self._http = httpx.Client(
                    timeout=self.section.timeout_s,
                    verify=trusted(self.section),
                    trust_env=False,
                    follow_redirects=False,
                )
            return self._http


def trusted(section: OpenADRSection) -> ssl.SSLContext:
    """Return whom TLS trusts. Raises: InputError where the file of an authority cannot be used."""
    try:
        return ssl.create_default_context(cafile=None if section.ca_file is None else str(section.ca_file))
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"no certificate: {error}", where=section.ca_file, hint="a file in PEM format") from error


def _seconds(text: str) -> float | None:
    """Return the seconds of a Retry-After; None for a date or nothing."""
    return float(text) if is_whole(text) and len(text) < 8 else None
