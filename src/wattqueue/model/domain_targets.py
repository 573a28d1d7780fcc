"""Load targets of single power domains: their limits as series, with the times from which they are known (rule 22).

A target with a domain lowers that domain's limit from its start to its end, and lets it rise at its ramp afterwards, as
a target of the machine does under the cap (rule 13). Nobody is slowed for it: options for use in targets, and consent,
are about targets of the machine.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError, MachineError, one_of
from wattqueue.model.load_target import OF_CAP, OF_MAXIMUM, LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap, RiseScale, capped
from wattqueue.model.supply import SupplyDomain

Floats = NDArray[np.float64]


def with_domain_targets(machine: Machine, targets: LoadTargets, begin_s: float) -> tuple[Machine, LoadTargets]:
    """Return the machine with targets of its domains in their limits, and the other targets.

    ``begin_s``: when the first job is submitted; a series begins then at the latest.

    Raises: InputError for a domain that is not there; MachineError for a domain without a limit whose maximum is not
    stated, and a target below what the domain draws idle.
    """
    names = [name for name in dict.fromkeys(targets.domain) if name]
    if not names:
        return machine, targets
    known = {domain.name: domain for domain in machine.supply}
    if unknown := next((name for name in names if name not in known), ""):
        row = targets.domain.index(unknown)
        hint = one_of(unknown, known) if known else "the machine states no [[supply]]: leave domain empty"
        raise InputError(f"limits {unknown!r}, which is no power domain", where=targets.place(row), hint=hint)
    for name in names:
        rows = np.flatnonzero(np.array(targets.domain) == name)
        known[name] = _lowered(known[name], machine, targets.take(rows), begin_s)
    machine = replace(machine, supply=tuple(known.values()))
    _ = machine.supply_tree  # refuses limits below idle watts
    return machine, targets.take(targets.of_machine)


def _lowered(domain: SupplyDomain, machine: Machine, targets: LoadTargets, begin_s: float) -> SupplyDomain:
    """Return a domain with its targets in its limit."""
    whole = replace(targets, domain=("",) * len(targets))
    first_s = min((begin_s, *domain.limit_s[:1]))
    if targets.start_s[0] <= first_s:  # the first limit of a series holds before its time, and no target does
        first_s = float(targets.start_s[0]) - 1.0
    alone = _limit_alone(domain, machine, first_s)
    whole = replace(whole, limit=_watts(whole, domain, machine, alone), unit=("W",) * len(whole))
    limit = capped(alone, whole, RiseScale())
    row = np.maximum(whole.begun_at(limit.time_s), 0)
    lowered = limit.cap_w < limit.alone.cap_w
    from_target = lowered | np.concatenate(([False], lowered[:-1]))
    stated = dict(zip(domain.limit_s, domain.known_s, strict=False))
    known = [
        float(whole.announced_s[k]) if of_target else stated.get(time, first_s)
        for time, k, of_target in zip(limit.time_s.tolist(), row.tolist(), from_target.tolist(), strict=True)
    ]
    changes = np.concatenate(([True], np.diff(limit.cap_w) != 0.0))
    times_s, known_s = limit.time_s[changes], np.clip(known, first_s, limit.time_s)[changes]
    return replace(
        domain, limit_w=None, limit_s=tuple(times_s.tolist()), limits_w=tuple(limit.cap_w[changes].tolist()),
        known_s=tuple(known_s.tolist()),
    )  # fmt: skip


def _limit_alone(domain: SupplyDomain, machine: Machine, first_s: float) -> Cap:
    """Return the limit of a domain without targets; of one without a limit its input with all units at maximum."""
    if domain.limit_s:
        times_s = (min(first_s, domain.limit_s[0]), *domain.limit_s[1:])
        return Cap(np.array(times_s, np.float64), np.array(domain.limits_w, np.float64))
    watts = domain.limit_w if domain.limit_w is not None else _maximum_w(domain, machine)
    return Cap(np.array([first_s]), np.array([watts], np.float64))


def _watts(targets: LoadTargets, domain: SupplyDomain, machine: Machine, alone: Cap) -> Floats:
    """Return the limit of each target in watts. Shape (k,)."""
    unit = np.array(targets.unit, object)
    base = np.full(len(targets), 100.0)
    if (unit == OF_MAXIMUM).any():
        base[unit == OF_MAXIMUM] = _maximum_w(domain, machine)
    base[unit == OF_CAP] = alone.at(targets.start_s[unit == OF_CAP])
    return np.asarray(targets.limit * base / 100.0, np.float64)


def _maximum_w(domain: SupplyDomain, machine: Machine) -> float:
    """Return the input of a domain with all its units at their stated maximum, in the scope of the cap."""
    tree, dynamic = machine.supply_tree, machine.cap_scope == "dynamic"
    number = next(k for k, one in enumerate(tree.domains) if one.name == domain.name)
    parts = [machine.partitions[below.partition] for below in tree.below[number]]
    if any(part.max_w is None for part in parts):
        raise MachineError(
            "a load target of a domain needs its limit, or the maximum watts of its nodes",
            where=f"supply {domain.name}",
            hint="state limit_w, or max_w of its partitions",
        )
    most = [(part.max_w or 0.0) - part.idle_w * dynamic for part in machine.partitions]
    return float(tree.input_uw(most)[number]) / 1e6
