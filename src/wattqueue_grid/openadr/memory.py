"""What a VEN keeps across a restart: its events, which of them it opted out of, and which reports were sent.

An event that was read stays in force while the VTN cannot be asked, also after a restart. The file holds no secret; it
can be read by its owner alone, since events may be confidential.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, PrivateAttr

from wattqueue.errors import InputError
from wattqueue.formats.atomic_write import atomic_text
from wattqueue.formats.bounded import Instant
from wattqueue.formats.json_text import read_json
from wattqueue_grid.openadr.objects import VtnEvent, VtnProgram, parse

MEMORY, OPTED_OUT, LOCK = "openadr.json", "openadr-opted-out", "openadr.lock"
"""Files in the run folder: what the VEN keeps; ids of events that people opted out of, one a line; the lock of it."""


class KnownEvent(BaseModel):
    """An event as the VTN sent it last."""

    model_config = ConfigDict(extra="forbid")

    raw: dict[str, Any]
    known_s: Instant
    """When this version of it was first read."""
    first_s: Instant
    """When its first version was read."""
    cancelled_s: Instant | None = None
    """When it was found deleted before its end."""
    _event: VtnEvent | None = PrivateAttr(None)

    @property
    def event(self) -> VtnEvent:
        """Return the event. It was parsed before it was kept."""
        if self._event is None:
            self._event = parse(VtnEvent, self.raw)
        return self._event


class VenMemory(BaseModel):
    """All that is kept. Events of another VTN or client are not: ``of`` names both."""

    model_config = ConfigDict(extra="forbid")

    of: str = ""
    events: dict[str, KnownEvent] = {}
    programs: dict[str, dict[str, Any]] = {}
    sent: dict[str, Instant] = {}
    """When each report was sent, by its key."""
    states: dict[str, str] = {}
    """The operating state that was reported last, by event where it is an opt-out, else by request."""

    @property
    def program_objects(self) -> dict[str, VtnProgram]:
        """Return the programs by id."""
        return {key: parse(VtnProgram, raw) for key, raw in self.programs.items()}


def load_memory(folder: Path, of: str) -> tuple[VenMemory, str]:
    """Return what was kept, and why it could not be read: then it is empty, as after a change of the VTN."""
    path = folder / MEMORY
    try:
        memory = VenMemory.model_validate(read_json(path.read_bytes()))
        for known in memory.events.values():
            _ = known.event
        _ = memory.program_objects
    except FileNotFoundError:
        return VenMemory(of=of), ""
    except (OSError, ValueError, RecursionError, InputError) as error:
        return VenMemory(of=of), f"{path} cannot be read, its events are read again: {type(error).__name__}"
    return (memory, "") if memory.of == of else (VenMemory(of=of), "")


def save_memory(memory: VenMemory, folder: Path) -> None:
    """Write what is kept. Raises: OutputError."""
    atomic_text(folder / MEMORY, memory.model_dump_json(indent=1), mode=0o600)


def opted_out(folder: Path) -> set[str]:
    """Return the ids of events that people opted out of. Raises: InputError where the file cannot be read."""
    try:
        return set((folder / OPTED_OUT).read_text(encoding="utf-8").split())
    except FileNotFoundError:
        return set()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("cannot be read", where=folder / OPTED_OUT, hint="one event id a line") from error


def opt(folder: Path, event_id: str, *, out: bool) -> None:
    """Opt out of an event, or in again. Raises: InputError, OutputError."""
    ids = opted_out(folder)
    ids = ids | {event_id} if out else ids - {event_id}
    atomic_text(folder / OPTED_OUT, "".join(f"{one}\n" for one in sorted(ids)), mode=0o600)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the VEN's lock: two processes of one VEN would overwrite what the other keeps, and report twice.

    Raises: InputError where another process holds it, or the folder cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(f"the folder cannot be used: {error.strerror}", where=folder) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        hint = "a controller with [openadr] runs it already: see wattqueue live status"
        raise InputError("this VEN runs in another process", where=folder, hint=hint) from error
    finally:
        os.close(lock)
