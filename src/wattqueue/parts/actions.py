"""What a policy may do. Actions are values: a driver (simulator, Slurm) carries them out or refuses them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StartJob:
    """Start ``job`` (row) on ``nodes`` (unit numbers of the whole machine) of ``partition`` at ``option``."""

    job: int
    partition: int
    nodes: tuple[int, ...]
    option: int


@dataclass(frozen=True, slots=True)
class SetFrequency:
    """Run ``job`` at ``option`` of its partition from now on; remaining work goes on at the new speed."""

    job: int
    option: int


@dataclass(frozen=True, slots=True)
class SetSocketCap:
    """Limit each of ``sockets`` (unit numbers) to ``cap_w`` watts from now on; inf lifts the limit."""

    sockets: tuple[int, ...]
    cap_w: float


@dataclass(frozen=True, slots=True)
class StopNode:
    """Shut a free unit down (time and energy by the machine's figures)."""

    node: int


@dataclass(frozen=True, slots=True)
class WakeNode:
    """Boot a stopped unit (time and energy by the machine's figures)."""

    node: int


@dataclass(frozen=True, slots=True)
class Requeue:
    """Take a running job back to its old place in the queue; it starts again from zero."""

    job: int


Action = StartJob | SetFrequency | SetSocketCap | StopNode | WakeNode | Requeue


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action that was not carried out, and why; comes back in the next view."""

    action: Action
    reason: str
