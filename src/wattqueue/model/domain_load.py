"""The jobs of a schedule by power domain: who draws through a rack, a row, a feed (rule 22 of docs/semantics.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import HeldUnits, Schedule
from wattqueue.model.steps import Steps


@dataclass(frozen=True, slots=True, eq=False)
class DomainLoad:
    """The jobs of one domain that has a limit.

    Attributes:
        name: Its name.
        limit_w: Its limit.
        idle_w: Its input while no job runs.
        job: Rows of the jobs that have units there. Shape (k,).
        units: Units of each, each counted with what is lost on the way. Shape (k,).
    """

    name: str
    limit_w: float
    idle_w: float
    job: NDArray[np.int64]
    units: Floats

    def input_w(self, begin_s: float, span: tuple[Floats, Floats], unit_w: Floats) -> Steps:
        """Return the domain's input over time, from ``begin_s`` on, when no job has started.

        ``span``: start and end of each job, (n,) each; ``unit_w`` (n,): what a unit of each adds beside idle.
        """
        start_s, end_s = (times[self.job] for times in span)
        added = self.units * unit_w[self.job]
        changes = Steps.of_changes(np.concatenate(([begin_s], start_s, end_s)), np.concatenate(([0.0], added, -added)))
        return Steps(changes.time_s, changes.value + self.idle_w)


def domain_loads(machine: Machine, schedule: Schedule, limit_w: Floats) -> list[DomainLoad]:
    """Return the jobs of each domain with a limit. ``limit_w`` (D,): the limits to compare with, inf for none."""
    tree, idle = machine.supply_tree, machine.supply_idle_uw / 1e6
    held = HeldUnits.of(schedule)
    found = []
    for k in np.flatnonzero(np.isfinite(limit_w)):
        gain = np.zeros(len(tree.of_unit))
        for part in tree.below[k]:
            here = slice(int(machine.unit_start[part.partition]), int(machine.unit_start[part.partition + 1]))
            gain[here] += np.where(tree.of_unit[here] == part.own, part.gain, 0.0)
        total = np.concatenate(([0.0], np.cumsum(gain)))
        units = np.bincount(held.job, total[held.high + 1] - total[held.low], len(schedule.state))
        rows = np.flatnonzero(units > 1e-9)
        found.append(
            DomainLoad(
                tree.domains[k].name, float(limit_w[k]), float(idle[k]), rows, np.asarray(units[rows], np.float64)
            )
        )
    return found


def added_w(machine: Machine, schedule: Schedule, unit_w: Floats) -> Floats:
    """Return what units of jobs add to a domain beside its idle input, never less than nothing. Shape as ``unit_w``.

    ``unit_w`` (n, ...): watts of a unit of each job. Idle watts count in a domain unless the cap is one of jobs alone.
    """
    idle = np.array(machine.unit_net_idle_w)
    there = np.where(schedule.option >= 0, idle[machine.option_partition[schedule.option]], 0.0)
    return np.asarray(np.maximum(unit_w - there.reshape(-1, *[1] * (unit_w.ndim - 1)), 0.0), np.float64)
