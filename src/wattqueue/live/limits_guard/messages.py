"""Messages of agents and to agents (``live.agents``), read and written with the standard library alone.

Reading is strict: whatever is missing, unknown, of another type or beyond its bound makes the whole message unreadable.
Only what decides about limits is kept of it.
"""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

MOST_BYTES = 1 << 16
"""A longer message is refused unread."""
STATED = frozenset({
    "version", "node", "instance", "number", "time_s", "metered", "power_w", "limits", "low", "high", "counts",
})  # fmt: skip
"""What the state of a node has; problems and counters may be missing."""
MAY_HAVE = STATED | {"problems", "counters"}
MOST_LIMITS = 256
"""Limits of one node, at most."""
LONGEST, LARGEST, LATEST_S = 128, 1e11, 2.0**33
"""Longest name, largest watts or hertz, latest time: as in ``live.agents``."""


class Arrived(NamedTuple):
    """A message, and the node that its topic names."""

    node: str
    text: bytes


def pending(arrived: queue.SimpleQueue[Arrived]) -> Iterator[Arrived]:
    """Yield the messages of a connection that wait, until none is left."""
    with suppress(queue.Empty):
        while True:
            yield arrived.get_nowait()


class BrokerAddress(Protocol):
    """Where a broker is, and who connects (``live.agents.BrokerSection`` says what each means)."""

    @property
    def host(self) -> str:
        """Return the name of its host."""
        ...

    @property
    def port(self) -> int:
        """Return its port."""
        ...

    @property
    def cluster(self) -> str:
        """Return the first part of the topics."""
        ...

    @property
    def user(self) -> str | None:
        """Return the name at the broker."""
        ...

    @property
    def password_file(self) -> Path | None:
        """Return the file that holds the password."""
        ...

    @property
    def ca_file(self) -> Path | None:
        """Return the certificate of the authority."""
        ...


class NodeState(NamedTuple):
    """What an agent states about the limits of its node."""

    node: str
    instance: str
    number: int
    time_s: float
    metered: tuple[str, ...]
    limits: Mapping[str, float]
    low: Mapping[str, float]
    high: Mapping[str, float]


def read_state(text: bytes) -> NodeState:
    """Read the state of a node. Raises: ValueError for anything else."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"a message of {len(text)} bytes")
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("no JSON") from error
    if not isinstance(found, dict) or not STATED <= found.keys() <= MAY_HAVE or found["version"] != 1:
        raise ValueError("no state of a node")
    number, time_s, metered = found["number"], _number(found["time_s"]), found["metered"]
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**63 or time_s > LATEST_S:
        raise ValueError("no number of a message, or no time")
    if not isinstance(metered, list):
        raise ValueError("no list of parts")  # noqa: TRY004  whatever is wrong with a message is one kind of error
    limits, low, high = (values_of(found[name]) for name in ("limits", "low", "high"))
    if low.keys() != high.keys():
        raise ValueError("a limit with one bound alone")
    names = tuple(map(_name, metered))
    return NodeState(_name(found["node"]), _name(found["instance"]), number, time_s, names, limits, low, high)


def values_of(found: object) -> dict[str, float]:
    """Return limits by name, in watts or hertz. Raises: ValueError for anything else."""
    if not isinstance(found, dict) or len(found) > MOST_LIMITS:
        raise ValueError("no values by name")
    return {_name(name): _number(value) for name, value in found.items()}


def _name(found: object) -> str:
    if not isinstance(found, str) or not 1 <= len(found) <= LONGEST:
        raise ValueError("no name")
    return found


def _number(found: object) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0.0 <= found <= LARGEST:
        raise ValueError("no number")
    return float(found)


def desired(node: str, number: int, expires_s: float, limits: Mapping[str, float]) -> bytes:
    """Return the message that asks a node for limits (``live.agents.Desired``)."""
    content = {"version": 1, "node": node, "number": number, "expires_s": expires_s, "limits": dict(limits)}
    return json.dumps(content).encode()
