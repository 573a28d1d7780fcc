"""Drain and stop nodes during a load target (node stop of paper 5): a busy node stops when its job ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.parts.actions import Action, DrainNode, WakeNode

if TYPE_CHECKING:
    from wattqueue.policy.view import View


class TargetDrain:
    """At the begin of a load target, drain as many nodes as it takes for the others to be busy within it.

    Idle nodes first, which stop at once, then those whose jobs are expected to end first. No job is touched: until they
    have ended power may be above the target, which is unserved energy. Without a target every node is woken, and a
    drain that is under way is taken back.

    Raises: PolicyError in a run whose cap does not cover idle nodes, or where a partition states no ``max_w``.
    Reference: paper 5, section 2.1 ("node stop"). Which nodes and how many is not in the text: assumed.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("targets", "switch-off")
    period_s: float = 0.0
    events: frozenset[str] = frozenset({"signal"})

    def act(self, view: View) -> Sequence[Action]:
        """Return nodes to drain or to wake."""
        start = view.machine.node_start
        if view.target_w == np.inf:
            asleep = np.concatenate((view.units_off, view.units_draining))
            return [WakeNode(int(start[node])) for node in np.unique(view.machine.node_of_unit[asleep])]
        busy_w, off_w = _node_watts(view)
        on = np.zeros(view.machine.nodes, np.bool_)
        on[view.machine.node_of_unit[view.units_on]] = True
        needed = float(np.where(on, busy_w, off_w).sum()) - view.target_w
        nodes = np.flatnonzero(on)
        nodes = nodes[np.argsort(_busy_until(view)[nodes], kind="stable")]
        freed = busy_w[nodes] - off_w[nodes]
        before = np.cumsum(freed) - freed
        return [DrainNode(int(start[node])) for node in nodes[before < needed]]


def _node_watts(view: View) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the watts of each node with all units busy, and off. Shapes (N,). Raises: PolicyError as the class."""
    machine = view.machine
    if machine.cap_scope != "machine" or any(part.max_w is None for part in machine.partitions):
        raise PolicyError(
            "target-drain stops nodes for their watts, which the cap must cover and the machine must state",
            where=machine.name,
            hint='use cap_scope = "machine" and state max_w',
        )
    parts = machine.partitions
    busy = np.concatenate([np.full(p.nodes, (p.max_w or 0.0) * p.units / p.nodes) for p in parts])
    return busy, np.concatenate([np.full(p.nodes, p.off_w) for p in parts])


def _busy_until(view: View) -> NDArray[np.float64]:
    """Return when the last job of each node is expected to end, -inf for idle nodes. Shape (N,)."""
    until = np.full(view.machine.nodes, -np.inf)
    for job in view.running.tolist():  # by expected end: the last one of a node is written last
        until[view.machine.node_of_unit[view.job_units(job)]] = view.expected_end_s[job]
    return until
