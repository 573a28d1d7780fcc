"""Drain nodes for a control (``DrainNode``), power them down when their jobs have ended, and take it back (rule 16).

A drain of this controller is stored before the node is drained, and its reason in the resource manager says whose it
is. Only such drains are taken back: a node that somebody else drained before, or drained again since, stays drained.
A drained node that has become idle is powered down where that can be done; elsewhere it idles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wattqueue.kernels import codes
from wattqueue.live.apply import WriteResult
from wattqueue.live.cluster import Node, SetDrain, Snapshot
from wattqueue.live.goal import NodeGoal
from wattqueue.live.state.memory import ControllerState
from wattqueue.live.world import Layout
from wattqueue.policy.round import Round

WHY = "a control of the policy"
FOREIGN = "somebody else drained it"
"""Beginning of a driver's error for a drain that is not this controller's any more."""


@dataclass
class Draining:
    """The nodes of one cluster that the controller drained."""

    layout: Layout
    memory: ControllerState

    def sync(self, nodes: Iterable[Node]) -> None:
        """Forget the nodes that take jobs again, and those that are gone."""
        if self.memory.drained:
            found = {node.name: node for node in nodes}
            back = [n for n in self.memory.drained if n not in found or (found[n].power == "on" and found[n].usable)]
            self.memory.undrain(back)

    def goals(self, now: Round, snapshot: Snapshot) -> tuple[NodeGoal, ...]:
        """Return what follows from the actions of a round, and which drained nodes are idle."""
        names, known = self.layout.names, self.memory.drained
        woken = {names[unit] for unit, state in now.powered.items() if state == codes.UNIT_BOOTING}
        back = {names[unit] for unit in now.undrained} | (woken & known.keys())
        out = [
            NodeGoal(names[unit], state == codes.UNIT_BOOTING, WHY)
            for unit, state in now.powered.items()
            if names[unit] not in back
        ]
        out += [NodeGoal(names[unit], None, WHY, drained=True) for unit in now.drained]
        out += [NodeGoal(name, True if name in woken else None, WHY, drained=False) for name in sorted(back)]
        nodes = snapshot.by_node if known else {}
        idle = [n for n in known if n in nodes and nodes[n].state == "drained" and n not in back]
        return (*out, *(NodeGoal(name, False, "its jobs have ended", drained=True) for name in sorted(idle)))

    def note(self, outcomes: Iterable[WriteResult]) -> None:
        """Forget the nodes whose drain has become somebody else's."""
        writes = [(o.write, o.error) for o in outcomes if isinstance(o.write, SetDrain)]
        self.memory.undrain([write.target for write, error in writes if not write.on and FOREIGN in error])
