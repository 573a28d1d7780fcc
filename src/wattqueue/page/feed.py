"""Send sections to each reader when they changed, compressed, within a budget of bytes.

One look at the files serves all readers: ``Feed.look`` is called about once a second while somebody reads, and a
section's text is made once. Each reader has a stream (``Stream``) that knows what it has been sent. What says whether
the controller works is sent at once; the rest as the budget allows, so that a busy queue costs later rows and no more
bytes. A stream is compressed as one, so that rows which were sent before cost a few bytes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Source = Callable[[float], tuple[dict[str, Any], dict[str, Any]]]
"""Returns the sections without names and with them, at a time in seconds since the epoch."""
BUDGET_BYTES, BURST_BYTES = 24_000, 6_000
"""What a stream may send in a minute, and at once, after its first sections: together the 30 kB of the page."""
QUIET_S = 15.0
"""After so long without anything new a stream sends the time: who reads knows that it is there."""
FIRST = ("run", "now", "health")
"""Sections that are sent whatever the budget says."""


@dataclass
class Feed:
    """The last sections of a source, as texts."""

    source: Source
    at_s: float | None = None
    """The instant that is shown; None: now."""
    texts: tuple[dict[str, str], dict[str, str]] = field(default_factory=lambda: ({}, {}))
    rows: list[list[Any]] = field(default_factory=list)
    """The history, which is sent row by row."""
    looked_s: float = -1.0
    _values: tuple[dict[str, Any], dict[str, Any]] = field(default_factory=lambda: ({}, {}))

    def look(self, now_s: float) -> None:
        """Take the sections of now."""
        self.looked_s = now_s
        values = self.source(now_s)
        if values[0] is self._values[0]:
            return
        self._values = values
        self.rows = values[0]["history"]
        self.texts = _texts(values[0]), _texts(values[1])


def _texts(sections: dict[str, Any]) -> dict[str, str]:
    return {
        name: json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        for name, value in sections.items()
        if name != "history"
    }


@dataclass
class Stream:
    """What one reader has been sent. ``packed``: whether its bytes are compressed (gzip)."""

    feed: Feed
    names: bool
    packed: bool
    _sent: dict[str, str] = field(default_factory=dict)
    _row_s: float = -1.0
    """Time of the last row of the history that was sent."""
    _left: float = BURST_BYTES
    _at_s: float | None = None
    _said_s: float = 0.0

    def __post_init__(self) -> None:
        """Begin the compressed stream."""
        self._packer = zlib.compressobj(6, zlib.DEFLATED, 31)

    def news(self, now_s: float) -> bytes:
        """Return what is new for this reader; empty where nothing is."""
        begins = self._at_s is None
        if self._at_s is not None:
            self._left = min(self._left + (now_s - self._at_s) * BUDGET_BYTES / 60.0, float(BURST_BYTES))
        self._at_s = now_s
        data = b"".join(self._pack(event, free=begins) for event in self._events(now_s, begins=begins))
        if not data and now_s - self._said_s >= QUIET_S:
            data = self._pack(self._time(now_s), free=True)
        self._said_s = now_s if data else self._said_s
        return data

    def _events(self, now_s: float, *, begins: bool) -> Iterator[str]:
        """Yield events of what changed, as far as the budget reaches."""
        texts = self.feed.texts[self.names]
        for name in (*FIRST, *(name for name in texts if name not in FIRST)):
            text = texts.get(name)
            if text is None or self._sent.get(name) == text or not (begins or name in FIRST or self._left > 0.0):
                continue
            self._sent[name] = text
            if name == "now":
                yield self._time(now_s)
            yield f"event: {name}\ndata: {text}\n\n"
        rows = [row for row in self.feed.rows if row[0] > self._row_s]
        if rows and (begins or self._left > 0.0):
            self._row_s = rows[-1][0]
            yield f"event: rows\ndata: {json.dumps(rows, separators=(',', ':'))}\n\n"

    def _time(self, now_s: float) -> str:
        shown_s = now_s if self.feed.at_s is None else self.feed.at_s
        return f"event: time\ndata: {shown_s:.0f}\n\n"

    def _pack(self, event: str, *, free: bool) -> bytes:
        data = event.encode()
        if self.packed:
            data = self._packer.compress(data) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        self._left -= 0 if free else len(data)
        return data
