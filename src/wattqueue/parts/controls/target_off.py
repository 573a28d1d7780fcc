"""Turn idle nodes off during a load target where their watts let a waiting job start (node stop of paper 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from wattqueue.parts.actions import Action, WakeNode
from wattqueue.parts.controls.idle_off import IdleOff

if TYPE_CHECKING:
    from wattqueue.policy.view import View


class TargetOff(IdleOff):
    """During a load target as ``IdleOff``, also after starts; without one every node that is off is switched on.

    Reference: paper 5, section 2.1 ("node stop": nodes turned off or idling). Which nodes, how many and when they
    return is not in the text: assumed.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("targets", "switch-off")
    events: frozenset[str] = frozenset({"arrival", "completion", "signal", "node", "start"})
    switches_off: bool = False

    def act(self, view: View) -> Sequence[Action]:
        """Return nodes to stop or to wake."""
        if view.target_w < np.inf:
            return super().act(view)
        nodes = np.unique(view.machine.node_of_unit[view.units_off])
        return [WakeNode(int(view.machine.node_start[node])) for node in nodes]
