"""How many nodes the power domains of a machine feed where nothing runs: a job that needs more never starts there.

At the least watts of a node (its lowest frequency), as for jobs that the whole budget is too small for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels.codes import microwatts
from wattqueue.live.table import LiveJobs
from wattqueue.live.world import Layout
from wattqueue.model.machine import Machine
from wattqueue.model.supply_binding import most_fed

Limits = tuple[tuple[float, float], ...]
"""Of each power domain the limit in force and the highest from then on, in watts; inf for none."""


def limits_from(machine: Machine, now_s: float) -> Limits:
    """Return the limits of a machine's power domains at a time, and their highest from then on."""
    domains = machine.supply_tree.domains if machine.supply else ()
    return tuple((domain.limit_at(now_s), domain.highest_from(now_s)) for domain in domains)


class Fed(NamedTuple):
    """How many nodes of a partition its power domains feed at the least watts of a node, where nothing runs."""

    now: int
    """Under the limits in force."""
    most: int
    """Under the highest limits from now on."""
    domain: str
    """Name of the domain that holds back most now."""


def fed_by(layout: Layout, units: Sequence[int], least_w: int, limits: Limits) -> Fed | None:
    """Return how many of some units the power domains feed where nothing runs, each with so many net watts."""
    if not limits:
        return None
    of_unit = Counter(layout.machine.supply_tree.of_unit[units].tolist())
    own, unit_uw = [of_unit[k] for k in range(len(limits))], microwatts(least_w)
    now, domain = most_fed(layout.machine, own, unit_uw, [pair[0] for pair in limits])
    most, _ = most_fed(layout.machine, own, unit_uw, [pair[1] for pair in limits])
    return Fed(now, most, domain) if now < len(units) else None


def node_net_w(layout: Layout, row: int) -> tuple[int, int]:
    """Whole net watts of a node of a machine partition: at its maximum, and at its lowest frequency."""
    machine = layout.machine
    factor = machine.option_dynamic_factor[machine.option_start[row] : machine.option_start[row + 1]]
    most = layout.most_net_w(row)
    idle = machine.partitions[row].idle_w if machine.cap_scope == "jobs" else 0.0
    return most, min(most, math.ceil(idle + (most - idle) * float(factor.min())))


def fed_partitions(layout: Layout, limits: Limits) -> list[Fed | None]:
    """Return how many nodes of each partition of the machine are fed; None for all."""
    first = layout.first.tolist()
    return [
        fed_by(layout, range(first[p], first[p + 1]), node_net_w(layout, p)[1], limits)
        for p in range(len(layout.machine.partitions))
    ]


def never_start(jobs: LiveJobs, fed: Sequence[Fed | None]) -> NDArray[np.int64]:
    """Return the slots of the queued jobs that no partition they may use ever feeds, as the limits stand now."""
    queue = jobs.queue
    nodes, allowed, fits = jobs.nodes[queue], jobs.allowed[queue], np.zeros(len(queue), np.bool_)
    for p, one in enumerate(fed):
        fits |= (allowed >> p & 1 == 1) & (True if one is None else nodes <= one.most)
    found: NDArray[np.int64] = queue[~fits & (allowed != 0)]
    return found
