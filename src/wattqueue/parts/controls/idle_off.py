"""Switch idle nodes off where their watts let a waiting job start, and on again where one needs them (PAS)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from wattqueue.parts.actions import Action, StopNode, WakeNode

if TYPE_CHECKING:
    from wattqueue.model.machine import Partition
    from wattqueue.policy.view import View


class IdleOff:
    """Look at the first entry of each partition, in queue order, after each event.

    It has nodes enough but not the watts, at the lowest frequency of its window: idle nodes that it does not need are
    switched off, as many as give the missing watts, if all of them together do; those of its own partition first. It
    lacks nodes: nodes of its partition that are off are switched on, as far as the cap has watts for their boot beside
    the entries before it that have what they need. The first entry that gets something done ends it. Idle nodes of a
    partition whose first entry waits for nodes, or comes before, stay on. Where nothing waits, nothing is switched: off
    nodes would delay the next job.

    Time and watts of a shutdown are the machine's figures; watts count as free when it is over. Under a cap that does
    not cover idle nodes there is nothing to gain, and nothing is switched.

    Reference: paper 3, section 4.1 ("in case resources remain idle, nodes can be turned off"). Which nodes, how many
    and when they return is not in the text: assumed.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("limit", "switch-off")
    period_s: float = 0.0
    events: frozenset[str] = frozenset({"arrival", "completion", "signal", "node"})
    switches_off: bool = True

    def act(self, view: View) -> Sequence[Action]:
        """Return nodes to stop or to wake."""
        if view.available_w == math.inf or view.machine.cap_scope != "machine":
            return []
        needed: set[int] = set()
        fits_w: dict[int, float] = {}
        for entry in map(int, view.heads):
            job, p = view.entry_job(entry), view.entry_partition(entry)
            lacking = int(view.jobs.nodes[job]) - int(view.free[p])
            net_w = 0.0 if lacking > 0 else view.net_watts(job, view.entry_options(entry)[-1])
            if lacking > 0:
                # Not from what jobs before it need: their nodes were switched off for these watts.
                if woken := self._wake(view, p, lacking, view.available_w - sum(fits_w.values())):
                    return woken
            elif net_w > view.available_w:
                stopped = self._stop(view, p, -lacking, net_w - view.available_w, needed)
                if stopped is not None:
                    return stopped
            else:
                fits_w[job] = net_w
            needed.add(p)
        return []

    def _stop(self, view: View, p: int, surplus: int, missing_w: float, needed: set[int]) -> list[Action] | None:
        """Return nodes to stop for an entry of partition ``p``, which does not need ``surplus`` of its free units.

        Empty where enough are stopping; None where no more nodes give the missing watts.
        """
        machine = view.machine
        order = [p, *(q for q in range(len(machine.partitions)) if q != p)]
        stopping = np.histogram(view.units_stopping, machine.unit_start)[0].tolist()
        under_way = [units // part.units_per_node for units, part in zip(stopping, machine.partitions, strict=True)]
        missing_w -= sum(under_way[q] * self._gain_w(machine.partitions[q]) for q in order[1:])
        found: list[Action] = []
        for q in order:
            part, own = machine.partitions[q], q == p
            gain_w = self._gain_w(part)
            if gain_w <= 0 or (q in needed and not own):
                continue
            wanted = math.ceil(missing_w / gain_w) - (under_way[q] if own else 0)
            if wanted <= 0:
                return found
            most = surplus // part.units_per_node if own else part.nodes
            nodes = self._idle_nodes(view, q, min(wanted, most))
            found += map(StopNode, nodes)
            if len(nodes) == wanted:
                return found
            missing_w -= (len(nodes) + (under_way[q] if own else 0)) * gain_w
        return None

    def _gain_w(self, part: Partition) -> float:
        """Return the watts that an idle node of a partition draws more than one that is off."""
        return part.idle_w * part.units_per_node - part.off_w

    def _idle_nodes(self, view: View, p: int, most: int) -> list[int]:
        """Return the first units of at most so many idle nodes of a partition.

        The last nodes first: placement fills a partition from its lowest unit.
        """
        per_node = view.machine.partitions[p].units_per_node
        first, end = view.machine.unit_start[p : p + 2].tolist()
        found: list[int] = []
        for unit in range(end - per_node, first - 1, -per_node):
            if len(found) >= most:
                break
            if all(view.unit_is_free(each) for each in range(unit, unit + per_node)):
                found.append(unit)
        return found

    def _wake(self, view: View, p: int, lacking: int, free_w: float) -> list[Action]:
        """Return nodes of partition ``p`` to wake for ``lacking`` units, as many as ``free_w`` watts let boot."""
        part = view.machine.partitions[p]
        per_node = part.units_per_node
        first, end = view.machine.unit_start[p : p + 2].tolist()
        off, booting = (units[(units >= first) & (units < end)] for units in (view.units_off, view.units_booting))
        nodes = np.unique((off - first) // per_node)
        wanted = math.ceil((lacking - len(booting)) / per_node)
        boot_w = max(part.boot_w, part.idle_w * per_node) - part.off_w
        if boot_w > 0:
            wanted = min(wanted, math.floor(free_w / boot_w))
        return [WakeNode(int(first + node * per_node)) for node in nodes[: max(0, wanted)]]
