"""What can be limited on a node, whatever its interface: a name, a range, the value in force, and a way to set it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from wattqueue.errors import WattQueueError

Unit = Literal["W", "Hz"]


class LimitError(WattQueueError):
    """A limit that could not be read or set; the one before stays in force."""


class Bounds(NamedTuple):
    """The values that the hardware takes, both ends included."""

    low: float
    high: float


class Limit(Protocol):
    """A limit of one part of the node, such as a processor package or a GPU.

    ``name`` is unique on the node (``package-0``, ``policy4``, ``gpu-GPU-6d9a...``); ``unit`` is the unit of values.
    """

    name: str
    unit: Unit

    def range(self) -> Bounds:
        """Return what the hardware takes. Raises: LimitError where it cannot be read."""
        ...

    def read(self) -> float:
        """Return the limit in force. Raises: LimitError where it cannot be read."""
        ...

    def write(self, value: float) -> None:
        """Set the limit. Raises: LimitError where it cannot be written."""
        ...


def read_number(path: Path) -> int:
    """Return the whole number in a file of /sys. Raises: LimitError where there is none."""
    text = read_word(path)
    try:
        return int(text)
    except ValueError as error:
        raise LimitError(f"holds {text[:40]!r}, no whole number", where=path) from error


def read_word(path: Path) -> str:
    """Return the text in a file of /sys, without the line break. Raises: LimitError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise LimitError(f"cannot be read: {error.strerror}", where=path) from error
    except UnicodeDecodeError as error:
        raise LimitError("is not text", where=path) from error


def write_number(path: Path, value: int) -> None:
    """Write a whole number into a file of /sys, in place: such files cannot be renamed over.

    Raises: LimitError where it is not taken.
    """
    try:
        path.write_text(str(value))
    except OSError as error:
        hint = "run the agent as a user who may write it" if isinstance(error, PermissionError) else None
        raise LimitError(f"cannot be set to {value}: {error.strerror}", where=path, hint=hint) from error
