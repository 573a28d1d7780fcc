"""The planner's side of the guard: commands that read, writes, and signs of life go over its socket.

A connection is made when it is needed, and again after it broke. What cannot be asked is an error of the cluster, as
where Slurm does not answer: the round ends, and the next one tries again.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from wattqueue.errors import OutputError
from wattqueue.live.cluster import UNANSWERED, JobFields, Snapshot, Write
from wattqueue.live.files.status import RunDir
from wattqueue.live.guard.wire import Packet, WireError, receive, send
from wattqueue.live.slurm.commands import CommandResult, SlurmError

ANSWER_BYTES = 1_000_000_000
"""Longest frame that the planner reads: ``squeue --json`` prints 3 kB a job."""


@dataclass
class GuardConnection:
    """The connection to the guard of one planner."""

    path: Path
    timeout_s: float = 60.0
    """Longest wait for an answer: a batch of writes takes some seconds on a busy Slurm."""
    name: str = "the guard"
    unit: str = "wattqueue-guard.service"
    """What is asked, and its unit, for messages."""
    _channel: socket.socket | None = None
    _one: threading.Lock = field(default_factory=threading.Lock)
    """An answer belongs to the request before it: sources of telemetry ask from threads of their own."""

    def ask(self, request: Packet) -> Packet:
        """Return the answer to a request.

        Raises: SlurmError where there is none, or where it is an error.
        """
        try:
            with self._one:
                channel = self._channel or self._connect()
                send(channel, request)
                answer = receive(channel, ANSWER_BYTES)
        except (WireError, OSError) as error:
            self.close()
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            what = f"{self.name} gives {UNANSWERED}: {why}"
            raise SlurmError(what, where=self.path, hint=_remedy(error, self.unit)) from error
        if "error" in answer.header:
            raise SlurmError(f"{self.name} refuses: {answer.header['error']}")
        return answer

    def close(self) -> None:
        """End the connection; the next request makes another one."""
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.close()
        self._channel = None

    def _connect(self) -> socket.socket:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        channel.settimeout(self.timeout_s)
        self._channel = channel
        channel.connect(str(self.path))  # where that fails ``ask`` closes it
        return channel


def _remedy(error: Exception, unit: str) -> str:
    """Return what a person does about a guard that gives no answer."""
    if isinstance(error, PermissionError):
        return "this account may not enter the folder of the socket: it needs the mode 0711"
    if isinstance(error, OSError) and not isinstance(error, TimeoutError):
        return f"nobody listens there: systemctl start {unit}, and look into its journal"
    return "its journal says why; it serves root, its own account, and the one that `planner` of guard.toml names"


@cache
def connection_to(path: Path) -> GuardConnection:
    """Return the one connection of this process to a guard, which serves one planner at a time."""
    return GuardConnection(path)


@dataclass
class GuardedCommands:
    """Slurm's commands as the guard runs them; those that write are refused (``live.slurm.commands.Slurm``)."""

    guard: GuardConnection

    def run(self, argv: Sequence[str]) -> CommandResult:
        """Run one command to its end. Raises: SlurmError."""
        answer = self.guard.ask(Packet({"do": "read", "argv": list(argv)}))
        header = answer.header
        return CommandResult(int(header["code"]), answer.text, str(header["err"]), float(header["took_s"]))


@dataclass
class GuardWriter:
    """Writes that the guard carries out (``live.slurm.cluster.SnapshotWriter``)."""

    guard: GuardConnection

    def observed(self, snapshot: Snapshot) -> None:
        """Nothing to do: the guard keeps the lists that it read itself."""

    def apply(self, write: Write) -> None:
        """Have one write carried out. Raises: SlurmError."""
        (error,) = self.apply_batch([write])
        if error:
            raise SlurmError(error)

    def apply_batch(self, writes: Sequence[Write]) -> list[str]:
        """Have writes carried out in their order; return the error of each."""
        try:
            answer = self.guard.ask(Packet({"do": "write", "writes": [to_json(write) for write in writes]}))
        except SlurmError as error:
            return [str(error)] * len(writes)
        errors = answer.header.get("errors")
        if not isinstance(errors, list) or len(errors) != len(writes):
            return ["the guard's answer has another number of errors"] * len(writes)
        return [str(error) for error in errors]


def to_json(write: Write) -> dict[str, Any]:
    """Return a write as an object of JSON, which ``messages.from_json`` reads."""
    found: dict[str, Any] = {"kind": write.kind}
    for one in fields(write):
        value = getattr(write, one.name)
        if isinstance(value, JobFields):
            value = {name: given for name, given in value._asdict().items() if given is not None}
        if one.name != "reduces_power" and value is not None:
            found[one.name] = value
    return found


def send_lines(guard: GuardConnection, body: str) -> str:
    """Have the data file of job_submit.lua say these lines; return what the guard changed. Raises: SlurmError."""
    told = guard.ask(Packet({"do": "submit-data"}, body)).header.get("told")
    return "; ".join(map(str, told)) if isinstance(told, list) else ""


@dataclass
class GuardedRunDir(RunDir):
    """A planner's run folder: lease, heartbeat and the withheld figure are the guard's, in a folder of its own."""

    guard: GuardConnection = field(default_factory=lambda: GuardConnection(Path()))

    def take_lease(self, now_s: float) -> None:
        """Nothing to do: the guard takes the right to write."""

    def beat(self, mode: str, now_s: float, every_s: float) -> None:
        """Tell the guard that a round has ended. Raises: OutputError."""
        if mode == "control":
            try:
                self.guard.ask(Packet({"do": "alive"}))
            except SlurmError as error:
                raise OutputError(error.what, where=error.where, hint=error.hint) from error

    def withhold(self, watts: int, now_s: float) -> None:
        """Nothing to do: the guard stores what it wrote itself."""

    def away(self) -> None:
        """Tell the guard that the planner ends; a guard that is gone has removed its heartbeat itself."""
        with contextlib.suppress(SlurmError):
            self.guard.ask(Packet({"do": "away"}))
