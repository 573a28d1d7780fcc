"""Switch idle nodes off where their watts let a waiting job start, and on again where one needs them (PAS)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from wattqueue.parts.actions import Action, StopNode, WakeNode

if TYPE_CHECKING:
    from wattqueue.policy.view import View


class IdleOff:
    """Look at the first entry of the queue only, after each event.

    It has nodes enough but not the watts, at the lowest frequency of its window: idle nodes that it does not need are
    switched off, as many as give the missing watts, if all of them together do. Time and watts of a shutdown are the
    machine's figures; watts count as free when it is over. It lacks nodes: nodes that are off are switched on, as far
    as the cap has watts for their boot. Where nothing waits, nothing is switched: off nodes would delay the next job.

    Under a cap that does not cover idle nodes there is nothing to gain, and nothing is switched.

    Reference: paper 3, section 4.1 ("in case resources remain idle, nodes can be turned off"). Which nodes, how many
    and when they return is not in the text: assumed.
    """

    period_s: float = 0.0
    events: frozenset[str] = frozenset({"arrival", "completion", "signal", "node"})

    def act(self, view: View) -> Sequence[Action]:
        """Return nodes to stop or to wake."""
        queue = view.queue
        if not len(queue) or view.available_w == math.inf or view.machine.cap_scope != "machine":
            return []
        entry = int(queue[0])
        job, p = view.entry_job(entry), view.entry_partition(entry)
        lacking = int(view.jobs.nodes[job]) - int(view.free[p])
        if lacking > 0:
            return self._wake(view, p, lacking)
        missing_w = view.net_watts(job, view.entry_options(entry)[-1]) - view.available_w
        return self._stop(view, p, -lacking, missing_w) if missing_w > 0 else []

    def _stop(self, view: View, p: int, surplus: int, missing_w: float) -> list[Action]:
        """Return nodes of partition ``p`` to stop, of which ``surplus`` units are not needed."""
        part = view.machine.partitions[p]
        per_node = part.units // part.nodes
        gain_w = part.idle_w * per_node - part.off_w
        if gain_w <= 0:
            return []
        first = self._first_unit(view, p)
        stopping = view.units_stopping
        under_way = len(stopping[(stopping >= first) & (stopping < first + part.units)]) // per_node
        wanted = math.ceil(missing_w / gain_w) - under_way
        if wanted > surplus // per_node:
            return []
        # The last nodes first: placement fills a partition from its lowest unit.
        found: list[Action] = []
        for unit in range(first + part.units - per_node, first - 1, -per_node):
            if len(found) >= wanted:
                break
            if all(view.unit_is_free(each) for each in range(unit, unit + per_node)):
                found.append(StopNode(unit))
        return found if len(found) >= wanted else []

    def _wake(self, view: View, p: int, lacking: int) -> list[Action]:
        """Return nodes of partition ``p`` to wake for ``lacking`` units, as many as the cap has watts for."""
        part = view.machine.partitions[p]
        per_node = part.units // part.nodes
        first = self._first_unit(view, p)
        off, booting = (
            units[(units >= first) & (units < first + part.units)] for units in (view.units_off, view.units_booting)
        )
        nodes = np.unique((off - first) // per_node)
        wanted = math.ceil((lacking - len(booting)) / per_node)
        boot_w = max(part.boot_w, part.idle_w * per_node) - part.off_w
        if boot_w > 0:
            wanted = min(wanted, math.floor(view.available_w / boot_w))
        return [WakeNode(int(first + node * per_node)) for node in nodes[: max(0, wanted)]]

    def _first_unit(self, view: View, p: int) -> int:
        """Return the first unit of a partition."""
        return sum(part.units for part in view.machine.partitions[:p])
