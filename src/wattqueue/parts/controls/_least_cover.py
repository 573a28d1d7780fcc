"""Which jobs to slow or park: the least cost that frees so many watts, with a stated bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


def least_cover(cost: Floats, freed: Floats, needed: float) -> Rows:
    """Return the rows that free at least ``needed`` at little cost; all of them where that does not suffice.

    ``cost`` (k,) 0 or more, ``freed`` (k,) above 0. The rows stand in the order of cost for each watt.

    This is the minimum knapsack problem. Two bounds hold, against the least cost possible:

    * less than the greatest cost of a row that is returned is added to it: the rows in order of cost for each watt, up
      to the one that reaches ``needed``, are the best of the relaxed problem but for that last one (Dantzig, Operations
      Research 5, 1957);
    * it is at most twice the least: of all sets that a row completes, with those before it which did not reach
      ``needed`` by themselves, the cheapest is taken (Csirik, Frenk, Labbé and Zhang, Acta Cybernetica 10, 1991).

    Rows that turn out not to be needed are left out, the dearest first. Complexity: O(k log k).
    """
    order = np.argsort(cost / freed, kind="stable")
    if float(freed.sum()) <= needed:
        return np.asarray(order if needed > 0 else order[:0], np.int64)
    kept: list[int] = []
    kept_w = kept_cost = 0.0
    best: list[int] = []
    best_cost = np.inf
    for row in order.tolist():
        if kept_w + freed[row] < needed:
            kept.append(row)
            kept_w, kept_cost = kept_w + float(freed[row]), kept_cost + float(cost[row])
        elif kept_cost + cost[row] < best_cost:
            best, best_cost = [*kept, row], kept_cost + float(cost[row])
    return _without_surplus(cost, freed, needed, best)


def _without_surplus(cost: Floats, freed: Floats, needed: float, rows: list[int]) -> Rows:
    """Return ``rows`` without those that are not needed, in their order."""
    surplus = float(freed[rows].sum()) - needed
    left = set(rows)
    for row in sorted(rows, key=lambda row: -cost[row]):
        if freed[row] <= surplus:
            surplus -= float(freed[row])
            left.remove(row)
    return np.array([row for row in rows if row in left], np.int64)
