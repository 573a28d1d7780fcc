"""The naive twin of certificates: by their definition, tick by tick, in exact fractions."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from tests.reference.bounds import best_set, cheapest_start
from wattqueue_studies.bound.certificate import Certificate
from wattqueue_studies.bound.instance import Instance


def _slopes(certificate: Certificate, instance: Instance, option: int, job: int) -> Iterator[Fraction]:
    scale, own = 1 << certificate.shift, certificate.own
    for k in range(len(certificate.edge) - 1):
        paid = sum(int(a) * int(p) for a, p in zip(instance.amount[option], certificate.price[:, k], strict=True))
        place = k - int(own.low[job])
        if instance.amount[option, own.resource] and 0 <= place < int(own.first[job + 1] - own.first[job]):
            paid += int(own.value[own.first[job] + place])
        yield Fraction(paid, scale)


def certificate_value(certificate: Certificate, instance: Instance, until: int) -> Fraction:
    """What prices prove, in ticks: by its definition, tick by tick; no start after ``until`` is cheapest."""
    scale, edge = 1 << certificate.shift, certificate.edge.tolist()
    total = Fraction(0)
    for job in range(len(instance)):
        costs = []
        for o in range(int(instance.first[job]), int(instance.first[job + 1])):
            slope = list(_slopes(certificate, instance, o, job))
            least, _ = cheapest_start(edge, slope, int(instance.release[job]), int(instance.run[o]), until)
            pay = int(instance.run[o]) if certificate.objective.ends else 0
            costs.append(least + pay + Fraction(int(instance.energy_mj[o]) * certificate.objective.energy_rate, scale))
        total += min(costs)
    own = certificate.own
    for k, (low, high) in enumerate(pairwise(edge)):
        free = [[_at(instance, i, t) for t in range(low, high)] for i in range(len(instance.free))]
        total -= sum(Fraction(int(certificate.price[i, k]), scale) * sum(column) for i, column in enumerate(free))
        items = [j for j in range(len(instance)) if 0 <= k - int(own.low[j]) < int(own.first[j + 1] - own.first[j])]
        worth = [Fraction(int(own.value[own.first[j] + k - own.low[j]]), scale) for j in items]
        nodes = [
            min(
                (
                    int(a) // own.unit
                    for a in instance.amount[instance.first[j] : instance.first[j + 1], own.resource]
                    if a
                ),
                default=0,
            )
            for j in items
        ]
        total -= (high - low) * Fraction(best_set(worth, nodes, -(-max(free[own.resource]) // own.unit)))  # type: ignore[arg-type]
    return total


def _at(instance: Instance, resource: int, tick: int) -> int:
    row = max(k for k, t in enumerate(instance.time.tolist()) if t <= tick)
    return int(instance.free[resource, row])
