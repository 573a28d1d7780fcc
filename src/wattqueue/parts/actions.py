"""Actions: what a policy may do, as values that a driver carries out or refuses.

Parts never change the state of a run. A scheduling pass and the controls return actions; the driver (the simulator, a
fake cluster, Slurm) carries each one out, or returns a ``Refusal`` with the reason, which the next view lists.

What an action takes (nodes, watts) counts at once. What it frees counts when the driver has confirmed it: at once in
the simulator, in live operation when a later observation shows it (rule 2 of docs/semantics.md). An action that
raises watts (``SetFrequency`` upwards, a raised ``SetDeviceLimits``, ``WakeNode``) is refused where a predicted ledger
has no room for it (rule 14).

``job`` is the name of a job, as ``view.job_id(row)`` gives it: a row is a position in one table, and live operation
has another table in each round. ``node`` and ``nodes`` are unit numbers over the whole machine, partition by partition.
Power is switched by the node: where units are sockets or cores, ``node`` is any unit of it (``Machine.node_of_unit``);
``option`` is a (partition, frequency) as counted by ``Machine.option_start``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class StartJob:
    """Start a queued job on free units of one partition.

    ``nodes`` are distinct, free, of ``partition``, and as many as the job asks for.
    """

    job: str
    partition: int
    nodes: tuple[int, ...]
    option: int


@dataclass(frozen=True, slots=True)
class SetFrequency:
    """Run a job at another option of its partition from now on.

    The remaining work, and with it the walltime that is left, stretches or shrinks with the new speed (rule 3 of
    docs/semantics.md), so that a slower job is not killed for it.
    """

    job: str
    option: int


@dataclass(frozen=True, slots=True, eq=False)
class SetDeviceLimits:
    """Limit each of some devices to its watts from now on; ``inf`` lifts a limit.

    ``devices`` are numbers over the whole machine (``Machine.device_of_unit``), ``caps_w`` the limit of each, as many.
    One action of any length: it is carried out as a whole or refused as a whole.
    """

    devices: Sequence[int] | NDArray[np.integer]
    caps_w: Sequence[float] | NDArray[np.float64]

    def __eq__(self, other: object) -> bool:
        """Return whether the other action sets the same limits: a comparison of arrays has no truth value."""
        if not isinstance(other, SetDeviceLimits):
            return NotImplemented
        return np.array_equal(self.devices, other.devices) and np.array_equal(self.caps_w, other.caps_w)

    def __hash__(self) -> int:
        """Return a hash of the limits."""
        return hash((tuple(self.devices), tuple(self.caps_w)))


@dataclass(frozen=True, slots=True)
class StopNode:
    """Shut a free node down, with all its units. Its time and watts are the machine's (``shutdown_s``, ``off_w``)."""

    node: int


@dataclass(frozen=True, slots=True)
class WakeNode:
    """Boot a stopped node. It is free after the machine's ``boot_s`` and draws ``boot_w`` until then."""

    node: int


@dataclass(frozen=True, slots=True)
class Requeue:
    """Stop a running job and put it back at its old place in the queue; it starts again with the work that is kept.

    Kept is at most what it has done, in seconds at reference speed: ``inf`` keeps all of it. Whether work can be kept
    is the job's own business (a checkpoint): whoever acts must know.
    """

    job: str
    checkpointed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Suspend:
    """Suspend a running job: it keeps its units, which draw idle watts, and does no work until it is resumed."""

    job: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Continue a suspended job at its option; refused where a predicted ledger has no room for its watts."""

    job: str


@dataclass(frozen=True, slots=True)
class DrainNode:
    """Have a node take no new job, and shut it down when its jobs have ended; ``WakeNode`` takes that back."""

    node: int


@dataclass(frozen=True, slots=True)
class DelayStart:
    """Start a waiting job no earlier than ``until_s``; until then it holds no place at the head of the queue.

    Refused unless its user consents, and states a ``latest_end_s`` that the job can still meet when it starts then;
    by a rule of the site (a budget) it needs no consent. A time that is over lets the job start again.
    """

    job: str
    until_s: float
    by_site: bool = False


Action = (
    StartJob
    | SetFrequency
    | SetDeviceLimits
    | StopNode
    | WakeNode
    | Requeue
    | Suspend
    | Resume
    | DrainNode
    | DelayStart
)
"""Every kind of action."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action that the driver did not carry out, and why; listed in the next view."""

    action: Action
    reason: str
