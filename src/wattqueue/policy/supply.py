"""Which power domains can limit a run, and what they are not combined with (rule 22 of docs/semantics.md).

A domain whose limit is never below its input with all units at the most that they can draw never binds. It is left out
before a run: a machine whose domains are all left out is scheduled as one without a tree, to the same nodes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import MachineError, PolicyError
from wattqueue.model.machine import Machine, Partition
from wattqueue.parts.contracts import Floats, Prediction


def greatest_unit_w(machine: Machine, prediction: Prediction, *, learns: bool) -> Floats:
    """Return the most that a unit of each partition can be counted at; inf where nothing bounds it. Shape (P,).

    ``learns``: predictions to come are not in the table; the stated maximum bounds them (``require_within``).
    """
    found = np.zeros(len(machine.partitions))
    for p, part in enumerate(machine.partitions):
        options = slice(int(machine.option_start[p]), int(machine.option_start[p + 1]))
        watts = prediction.power_w[:, options]
        predicted = float(watts[np.isfinite(watts)].max(initial=0.0))
        if prediction.unit_factor is not None:
            units = prediction.unit_factor[:, machine.unit_start[p] : machine.unit_start[p + 1]]
            predicted *= float(units[np.isfinite(units)].max(initial=1.0))
        found[p] = np.inf if learns and part.max_w is None else greatest_w(part, predicted)
    return found


def greatest_w(part: Partition, predicted_w: float) -> float:
    """Return the most that a unit can draw: the maximum as stated or predicted, or its share of a boot or shutdown."""
    moving = max(part.boot_w, part.shutdown_w, part.off_w) / part.units_per_node
    return max(part.max_w or 0.0, predicted_w, part.idle_w, moving)


def can_bind(machine: Machine, unit_w: Floats) -> NDArray[np.bool_]:
    """Return which domains can hold a job back if units are counted at no more than ``unit_w`` (P,). Shape (D,)."""
    tree, dynamic = machine.supply_tree, machine.cap_scope == "dynamic"
    watts = [w - part.idle_w * dynamic for w, part in zip(unit_w, machine.partitions, strict=True)]
    limit = np.array([domain.least_limit_w for domain in tree.domains], np.float64)
    if not np.isfinite(watts).all():
        return np.isfinite(limit)
    found: NDArray[np.bool_] = limit * 1e6 < tree.input_uw(watts)
    return found


def require_supply(policy: str, driver: str, machine: Machine, prediction: Prediction, *, learns: bool) -> None:
    """Refuse domains that can bind where a driver does not test them. ``learns``: as in ``greatest_unit_w``.

    Raises: PolicyError naming the first such domain.
    """
    if not machine.supply:
        return
    binds = can_bind(machine, greatest_unit_w(machine, prediction, learns=learns))
    if binds.any():
        name = machine.supply_tree.domains[int(np.argmax(binds))].name
        raise PolicyError(
            f"{int(binds.sum())} power domains can hold jobs back, which {driver} does not test yet ({name} is one)",
            where=policy,
            hint="state limits that the greatest watts of their units keep (max_w), or leave [[supply]] out",
        )


def require_begun(machine: Machine, begin_s: float) -> None:
    """Raise MachineError for a series of limits that begins after ``begin_s``, when the first job is submitted."""
    for domain in machine.supply:
        if domain.limit_s and domain.limit_s[0] > begin_s:
            raise MachineError(
                f"its limit begins at {domain.limit_s[0]:,.15g} s, and jobs are submitted from {begin_s:,.15g} s on",
                where=f"supply {domain.name}",
                hint="add a row for the begin of the jobs",
            )


def require_within(policy: str, machine: Machine, power_uw: NDArray[np.int64]) -> None:
    """Refuse a run in which an estimator that learns predicted more of a unit than bounds the domains left out.

    ``power_uw`` (rows, O) are all its predictions.

    Raises: PolicyError naming partition and watts.
    """
    for p, part in enumerate(machine.partitions):
        options = slice(int(machine.option_start[p]), int(machine.option_start[p + 1]))
        most_w = float(power_uw[:, options].max(initial=0)) / 1e6
        if part.max_w is not None and most_w > greatest_w(part, 0.0):
            raise PolicyError(
                f"predicted {most_w:,.15g} W of a unit of {part.name}, above its stated maximum of "
                f"{part.max_w:,.15g} W: power domains that were left out, since they cannot bind below it, might have",
                where=policy,
                hint="raise max_w in the machine file",
            )
