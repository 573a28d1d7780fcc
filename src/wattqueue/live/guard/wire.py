"""Frames over a local socket: a header in JSON, and a text beside it.

A frame is two lengths (unsigned, 32 bits, network order), the header, and the text in UTF-8. The text of a frame is
what a command printed: it is no part of the JSON, since a list of 10,000 jobs would be quoted and parsed for nothing.
Both sides bound what they read before they read it.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, NamedTuple

from wattqueue.errors import WattQueueError

_LENGTHS = struct.Struct("!II")
REQUEST_BYTES = 5_000_000
"""Longest frame that the guard reads: some 10,000 writes, or the data file of job_submit.lua."""


class WireError(WattQueueError):
    """The other process has gone, or sent what is no frame."""


class Packet(NamedTuple):
    """A header and a text."""

    header: dict[str, Any]
    text: str = ""


def send(channel: socket.socket, frame: Packet) -> None:
    """Send one frame. Raises: WireError where the other side has gone."""
    header, text = json.dumps(frame.header).encode(), frame.text.encode("utf-8", "replace")
    try:
        channel.sendall(_LENGTHS.pack(len(header), len(text)) + header + text)
    except OSError as error:
        raise WireError(f"nothing could be sent: {error.strerror or error}") from error


def receive(channel: socket.socket, most_bytes: int) -> Packet:
    """Return the next frame of at most so many bytes. Raises: WireError where there is none."""
    lengths = _LENGTHS.unpack(_exactly(channel, _LENGTHS.size))
    if sum(lengths) > most_bytes:
        raise WireError(f"a frame of {sum(lengths):,} bytes is longer than {most_bytes:,}")
    header, text = (_exactly(channel, length) for length in lengths)
    try:
        found = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise WireError("a frame whose header is no JSON") from error
    if not isinstance(found, dict):
        raise WireError("a frame whose header is no object")
    return Packet(found, text.decode("utf-8", "replace"))


def _exactly(channel: socket.socket, length: int) -> bytes:
    """Return so many bytes. Raises: WireError where fewer come."""
    pieces, left = [], length
    while left:
        try:
            piece = channel.recv(min(left, 1 << 20))
        except OSError as error:
            raise WireError(f"nothing could be read: {error.strerror or error}") from error
        if not piece:
            raise WireError("the connection was closed")
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
