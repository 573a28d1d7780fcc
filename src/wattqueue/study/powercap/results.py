"""From rows of runs to the figures of section 6.5: averages over (workload, cap) groups, excess, changes.

Every average gives each (workload, cap) group the same weight. Intervals are over workloads only: the thirteen caps of
one workload are not independent, so they are averaged first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.campaign.cell import Row
from wattqueue.errors import EngineError
from wattqueue.model.jobs import Floats
from wattqueue.report.compare.stats import Estimate, estimate
from wattqueue.study.powercap.published import CLAIMS, EASY, LEFT_OUT, POLICIES, PublishedFigure

METRICS = (
    "unused_percent", "under_percent", "over_percent", "over_time_percent", "excess_percent",
    "turnaround_change_percent", "broken",
)  # fmt: skip
"""Figures of a policy in each group; means over groups have the same names."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """One policy's figures by (workload, cap).

    ``unused_percent``: 1 - mean power / cap, below 0 where more was drawn. ``under_percent`` and ``over_percent``:
    means over time of what was left below the cap and drawn above it, relative to the cap; unused = under - over.
    ``over_time_percent``: time above. ``excess_percent``: highest power above the cap, 0 where it was kept.
    ``turnaround_change_percent``: mean turnaround against EASY without a cap. ``broken``: 100 where the cap was
    exceeded, else 0.
    """

    policy: str
    """The policy."""
    workloads: tuple[int, ...]
    """Numbers of the workloads, the rows."""
    caps: tuple[float, ...]
    """Caps in percent of the highest dynamic power, the columns."""
    values: dict[str, Floats]
    """Figures by metric, in percent. Shapes (workloads, caps)."""

    def without(self, workloads: Iterable[int]) -> Groups:
        """Return the groups without some workloads."""
        out = set(workloads)
        keep = [i for i, w in enumerate(self.workloads) if w not in out]
        kept = tuple(self.workloads[i] for i in keep)
        return Groups(self.policy, kept, self.caps, {k: v[keep] for k, v in self.values.items()})

    def mean(self, metric: str) -> float:
        """Return the mean over the groups."""
        return float(self.values[metric].mean())

    def interval(self, metric: str) -> Estimate:
        """Return the mean over the groups with a 95 % interval over workloads."""
        return estimate(self.values[metric].mean(axis=1))


def groups_of(rows: Sequence[Row]) -> dict[str, Groups]:
    """Return the figures of every policy except the baseline. Raises: EngineError for a row without its figures."""
    base = {int(str(r["window"])): _number(r, "turnaround_s_mean") for r in rows if r["policy"] == EASY}
    found = {}
    for policy in dict.fromkeys(str(r["policy"]) for r in rows if r["policy"] != EASY):
        own = {(int(str(r["window"])), _number(r, "cap_percent")): r for r in rows if r["policy"] == policy}
        workloads, caps = sorted({w for w, _ in own}), sorted({c for _, c in own})
        table = [[_figures(own[w, c], base[w]) for c in caps] for w in workloads]
        values = {m: np.array([[cell[m] for cell in line] for line in table]) for m in METRICS}
        found[policy] = Groups(policy, tuple(workloads), tuple(caps), values)
    return found


def _figures(row: Row, base_turnaround_s: float) -> dict[str, float]:
    """Return the figures of one run in percent."""
    cap = _number(row, "cap_w")
    excess = 100.0 * _number(row, "excess_w") / cap
    return {
        "unused_percent": 100.0 * (1.0 - _number(row, "power_w_mean") / cap),
        "under_percent": 100.0 * _number(row, "under_w_mean") / cap,
        "over_percent": 100.0 * _number(row, "over_w_mean") / cap,
        "over_time_percent": 100.0 * _number(row, "over_share"),
        "excess_percent": excess,
        "turnaround_change_percent": 100.0 * (_number(row, "turnaround_s_mean") / base_turnaround_s - 1.0),
        "broken": 100.0 * (excess > 0.0),
    }


def _number(row: Row, name: str) -> float:
    """Return a number of a row. Raises: EngineError if it is none."""
    value = row[name]
    if not isinstance(value, float | int):
        raise EngineError(f"{name} of a capped run is {value!r}", where=f"window {row['window']}, {row['policy']}")
    return float(value)


def left_out(groups: dict[str, Groups], count: int = LEFT_OUT) -> tuple[int, ...]:
    """Return the workloads on which capping helps most: lowest mean change of turnaround over caps and policies.

    Args:
        groups: Figures by policy; only the paper's own policies count.
        count: How many workloads to leave out.

    The paper leaves out one workload because "powercapping greatly increases scheduling performance on it". Empty if
    no workload would remain.
    """
    own = [groups[p] for p in POLICIES if p in groups]
    if not own or len(own[0].workloads) <= count:
        return ()
    change = np.mean([g.values["turnaround_change_percent"].mean(axis=1) for g in own], axis=0)
    order: NDArray[np.intp] = np.argsort(change, kind="stable")
    return tuple(own[0].workloads[i] for i in order[:count])


def claim_rows(groups: dict[str, Groups]) -> list[dict[str, Any]]:
    """Return each printed figure beside ours, with all workloads and without those left out; differences in points."""
    gone = left_out(groups)
    found = []
    for claim in CLAIMS:
        if claim.policy not in groups:
            continue
        whole = groups[claim.policy]
        ours, fewer = value_of(whole, claim), value_of(whole.without(gone), claim)
        found.append({"claim": claim, "ours": ours, "difference": ours - claim.percent, "without": fewer})
    return found


def value_of(group: Groups, claim: PublishedFigure) -> float:
    """Return our figure for a printed one."""
    if claim.metric.endswith("_median"):
        return float(np.median(group.values[claim.metric.removesuffix("_median")]))
    return group.mean(claim.metric)
