"""Beyond paper 4: quantile and chance-constrained admission, and whether a policy beats ``mean`` on both sides.

Both sides are what lies between power and cap: ``under_percent``, what was left below it (mean over time), and
``excess_percent``, the highest power above it. Mean power does not show this: a policy that is above the cap half
of the time and below it for the other half leaves nothing "unused". Rules were chosen on the trace of the study's
seed and are compared on hold-out workloads of another trace; only the pasts of those calibrate them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wattqueue.model.jobs import Floats
from wattqueue.report.compare.stats import Paired, paired
from wattqueue.report.text_table import table
from wattqueue.study.powercap.published import MEAN
from wattqueue.study.powercap.results import Groups
from wattqueue.study.powercap.study import PowercapStudyResult
from wattqueue.study.powercap.text import averages

BEYOND = (
    "easy+pc-app", "easy+pc-even", "easy+pc-quantile-1", "easy+pc-quantile-0.1", "easy+pc-chance-1",
    "easy+pc-chance-0.1",
)  # fmt: skip
SHOWN_POINTS = 0.005
"""Differences below this print as 0.00 and count as none."""
SIDES = ("under_percent", "excess_percent")
"""Metrics of the two sides: left below the cap, highest excess above it."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A policy compared with ``mean``: differences in points of the cap, workloads paired; below 0 is better."""

    policy: str
    """The policy."""
    under: Paired
    """Difference of what is left below the cap."""
    excess: Paired
    """Difference of the highest excess."""

    @property
    def outcome(self) -> str:
        """Return whether both sides are better: yes, no, or not significant (an interval includes 0)."""
        sides = (self.under.difference, self.excess.difference)
        if not all(side.mean < -SHOWN_POINTS for side in sides):
            return "no"
        return "yes" if all(side.high is not None and side.high < 0 for side in sides) else "not significant"

    def document(self) -> dict[str, Any]:
        """Return the comparison for JSON."""
        found: dict[str, Any] = {"policy": self.policy, "beats_mean_on_both_sides": self.outcome}
        for name, side in (("under", self.under), ("excess", self.excess)):
            d = side.difference
            found[f"{name}_difference_percent"] = {"mean": d.mean, "low": d.low, "high": d.high}
        return found


def verdicts(groups: Mapping[str, Groups]) -> list[PairedDifference]:
    """Compare each policy of ours with ``mean``, over the workloads of one study."""
    found = []
    for policy in (p for p in BEYOND if p in groups):
        pairs = [paired(by_workload(groups[MEAN], side), by_workload(groups[policy], side)) for side in SIDES]
        under, excess = pairs
        if under is not None and excess is not None:
            found.append(PairedDifference(policy, under, excess))
    return found


def by_workload(group: Groups, metric: str) -> Floats:
    """Return the mean over the caps of each workload. Shape (workloads,)."""
    means: Floats = group.values[metric].mean(axis=1)
    return means


def beyond_lines(hold_out: PowercapStudyResult) -> Iterator[str]:
    """Yield averages on hold-out workloads, and the comparisons with ``mean``."""
    groups = hold_out.groups
    count = len(next(iter(groups.values())).workloads)
    yield f"Hold-out: {count} workloads of another generated trace (seed {hold_out.choice.seed}), not used to build"
    yield from averages(groups.values())
    yield ""
    yield "Against easy+pc-mean there, points of the cap, workloads paired: what is left below the cap; highest excess"
    yield from table(("policy", "left below", "highest excess", "better on both sides"), map(_cells, verdicts(groups)))


def _cells(verdict: PairedDifference) -> list[str]:
    """Return the cells of one comparison: differences with 95 % intervals, and the outcome."""
    sides = (verdict.under.difference, verdict.excess.difference)
    shown = [f"{s.mean:+.2f}" + ("" if s.low is None else f" [{s.low:+.2f}, {s.high:+.2f}]") for s in sides]
    return [verdict.policy, *shown, verdict.outcome]
