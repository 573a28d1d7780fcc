"""Figures 4 and 5 of paper 4, over all traces, and the highest excess."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from wattqueue.campaign.cell import Row
from wattqueue.model.jobs import Floats
from wattqueue.policy.oracles import marked_policy
from wattqueue.report.figure import Axis, Drawn
from wattqueue.report.figures import boxes
from wattqueue.report.figures.boxes import Box
from wattqueue_studies.frame.samples import Samples
from wattqueue_studies.powercap.cell import HIGHEST_DYNAMIC_W, QUANTILES
from wattqueue_studies.powercap.runs import KEPT, PowercapRuns


def pictures(runs: Sequence[PowercapRuns], samples: Samples) -> Iterator[Drawn]:
    """Yield Figure 4, one picture per policy, then Figure 5 without the workloads left out and with them, the excess.

    In Figure 4 a box left of its mark leaves power unused; the part of a box right of it is above the cap.
    ``samples`` are those of all windows.
    """
    caps = samples.settings
    rows = [row for run in runs for row in run.rows]
    for policy in samples.policies:
        drawn = boxes.figure(
            f"power-{policy.replace('+', '-')}",
            f"Figure 4: power under {marked_policy(policy)}",
            "Power above idle over the capped hours of all workloads, by cap; the triangle is the cap.",
            Axis("power", "% of the highest dynamic power"),
            {f"cap {cap} %": Box.of(pooled_percent(rows, policy, float(cap))) for cap in caps},
            published=[float(cap) for cap in caps],
            mark="cap",
            rows="cap",
        )
        yield drawn, "boxes"
    turnaround = "Mean turnaround of a workload under a cap against the same workload under EASY without one"
    kept = np.concatenate([run.groups(KEPT).any(axis=1) for run in runs])
    fewer = samples.take(np.flatnonzero(kept).tolist())
    cost, excess = Axis("change of mean turnaround", "%"), Axis("highest excess", "% of the cap")
    gone = f"{turnaround}, without the workload of each trace on which capping helps most."
    for key, title, says, shown, metric, axis in (
        ("turnaround-29", "Figure 5: cost in turnaround", gone, fewer, "turnaround_change_percent", cost),
        ("turnaround", "All workloads", f"{turnaround}.", samples, "turnaround_change_percent", cost),
        ("excess", "Highest excess", "Greatest power above the cap in a run.", samples, "excess_percent", excess),
    ):
        found = {marked_policy(p): Box.of(shown.grid(p, metric).ravel()) for p in shown.policies}
        yield boxes.figure(key, title, says, axis, found, rows="policy", from_zero=False), "boxes"


def pooled_percent(rows: Sequence[Row], policy: str, cap: float) -> Floats:
    """Return power of all workloads at one cap, in percent of the highest dynamic power. Shape (k,).

    Each run contributes the same number of values, interpolated from the quantiles that its row keeps.
    """
    runs = [r for r in rows if r["policy"] == policy and r["cap_percent"] == cap]
    at = np.linspace(0.005, 0.995, 100)
    read = [np.interp(at, QUANTILES, np.array(r["power_w_quantiles"], np.float64)) for r in runs]
    return 100.0 * np.concatenate(read) / HIGHEST_DYNAMIC_W
