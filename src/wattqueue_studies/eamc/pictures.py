"""Figure 5 of paper 1: the share of jobs on their best partition, as box plots over seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wattqueue.report.figure import Axis, Drawn
from wattqueue.report.figures import boxes
from wattqueue.report.figures.boxes import Box
from wattqueue_studies.eamc.choices import SHARES
from wattqueue_studies.eamc.tables import BEST, TOLD
from wattqueue_studies.frame.samples import Samples


def figure_5(conservative: Samples, easy: Samples, policies: Sequence[str]) -> Iterator[Drawn]:
    """Yield one picture per workload and panel: all jobs, and those whose best partition is p2."""
    for share in SHARES:
        for metric, whose in ((BEST, "all jobs"), (f"{BEST}_p2", "jobs whose best partition is p2")):
            setting, shown, marks = f"p1/p2, {share} %", dict[str, Box](), list[float | None]()
            for policy in (p for p in policies if p != "base-slurm"):
                for name, samples in ((policy, conservative), (f"{policy}, EASY", easy)):
                    shown[name] = Box.of(samples.of(setting, policy, metric))
                    marks.append(TOLD.figure(setting, policy, metric) if name == policy else None)
            picture = boxes.figure(
                f"{metric.replace('_', '-')}-{share}",
                f"Jobs on their best partition: {setting}, {whose}",
                "Figure 5: share by seed; Base Slurm has 100 %. A triangle marks what the text prints.",
                Axis("share of jobs", "%"),
                shown,
                published=marks,
                rows="policy",
            )
            yield picture, "boxes"
