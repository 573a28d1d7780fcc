"""Tell from the run folder whether a controller works, starts, is blind, hangs, or has ended.

The status file stays when its controller ends, so its age alone does not say why it is old. The controller names its
process (``ProcessId``) in what it writes: a reader on the same host looks whether that very process is there. One on
another host knows the age only.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from wattqueue.errors import OutputError
from wattqueue.live.files.lease import AHEAD_S, replace_text
from wattqueue.live.files.status import compiling_since, heartbeat_of

BLIND = "blind"
"""File of the run folder: when the cluster could not be observed last, and why."""
OLD_S = 20.0
"""Age from which a status is old: it is written every 5 s, and a round with many starts takes some seconds."""
BLIND_S = 120.0
"""Age from which ``blind`` says nothing more: several times the longest wait between two rounds."""
State = Literal["none", "starting", "works", "ahead", "blind", "hung", "stopped", "stale", "dead"]


class ProcessId(NamedTuple):
    """One process: a number that was given out again has another time of its start."""

    host: str
    pid: int
    started: int
    """Ticks of the kernel's clock; 0 where they cannot be read."""

    @classmethod
    def own(cls) -> ProcessId:
        """Return this process."""
        return cls(socket.gethostname(), os.getpid(), _stat(os.getpid())[1])


class Liveness(NamedTuple):
    """Whether a controller works, and what a person should know about it."""

    state: State
    text: str
    detail: str = ""
    """Words of others (of the cluster), which may name what not every reader should see."""

    @property
    def works(self) -> bool:
        """Whether what is shown is of now."""
        return self.state == "works"


def note_blind(folder: Path, why: str, now_s: float) -> None:
    """Note that the cluster could not be observed. Readers alone depend on it: a full disk is no matter."""
    with suppress(OutputError):
        replace_text(folder / BLIND, f"{int(now_s)} {' '.join(why.split())[:200]}\n")


def liveness_of(
    folder: Path, beats: Path, status: Mapping[str, Any] | None, process: ProcessId | None, now_s: float, away_s: float
) -> Liveness:
    """Return whether the controller of a run folder works.

    Args:
        folder: The run folder.
        beats: The folder of the heartbeat, a guard's where there is one.
        status: The last status; None where there is none.
        process: Who wrote last; None where that is not known.
        now_s: Seconds since the epoch.
        away_s: Age of the heartbeat from which Slurm schedules alone.
    """
    since_s = compiling_since(folder, now_s)
    if since_s is not None:
        text = f"The controller is starting: it compiles since {_at(since_s)}. Until its first round Slurm schedules "
        return Liveness("starting", text + "alone, under the pool as it was left.")
    if status is None:
        return Liveness("none", "No controller has written into this run folder yet.")
    there = None if process is None else _is_there(process)
    age_s, then = now_s - float(status["time_s"]), f"{_last(status)} {_alone(beats, status, now_s, away_s)}".rstrip()
    if there == "":
        pid = process.pid if process is not None else 0
        return Liveness("dead", f"The controller has ended: process {pid} is gone. {then}")
    if age_s < -AHEAD_S:
        return Liveness("ahead", f"What the controller wrote is {-age_s:.0f} s in the future: set the clock.")
    if age_s <= OLD_S:
        return Liveness("works", "")
    return _silent(folder, status, age_s, there, then)


def _silent(folder: Path, status: Mapping[str, Any], age_s: float, there: str | None, then: str) -> Liveness:
    """Return why a controller that may be there has written nothing for a time; ``then``: what follows."""
    blind = _blind(folder, float(status["time_s"]), float(status["time_s"]) + age_s)
    if blind:
        return Liveness("blind", f"The controller runs and cannot observe the cluster. {then}", blind)
    if there is None:
        return Liveness("stale", f"The controller has written nothing for {_span(age_s)}. {then}")
    if there == "T":
        return Liveness("stopped", f"The controller's process was stopped (SIGSTOP). {then}")
    return Liveness("hung", f"The controller hangs: its process is there and writes nothing. {then}")


def _alone(beats: Path, status: Mapping[str, Any], now_s: float, away_s: float) -> str:
    """Return what the cluster does meanwhile."""
    if status.get("mode") != "control":
        return "It controlled nothing in its mode."
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in heartbeat_of(beats, "control", now_s, away_s).problems)


def _last(status: Mapping[str, Any]) -> str:
    return f"What is shown is of {_at(status['time_s'])}."


def _blind(folder: Path, after_s: float, now_s: float) -> str:
    """Return why the cluster could not be observed since a time; empty where nothing says so."""
    try:
        at, _, why = (folder / BLIND).read_text(errors="replace").strip().partition(" ")
        return (why or "no reason") if float(at) >= after_s and now_s - float(at) <= BLIND_S else ""
    except (OSError, ValueError):
        return ""


def _is_there(process: ProcessId) -> str | None:
    """Return the kernel's letter for a process; empty for one that is gone, None where that is not known."""
    if process.host != socket.gethostname():
        return None
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        pass  # it belongs to somebody else, and is there
    state, started = _stat(process.pid)
    if process.started and started and started != process.started:
        return ""
    return "" if state in ("Z", "X") else state or "?"


def _stat(pid: int) -> tuple[str, int]:
    """Return state and time of the start of a process; ("", 0) where they cannot be read."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[0], int(fields[19])
    except (OSError, ValueError, IndexError):
        return "", 0


def _at(time_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_s))


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else _hours(seconds)


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"
