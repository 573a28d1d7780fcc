"""Trade-off of admission rules, unused power against excess, on traces of their own.

A policy that is above the cap half of the time and below it the other half leaves nothing "unused". So a rule is a
point (left below, above), and one with a margin a line of them; rules are compared at equal left below. The traces have
had no part in the choice of any rule.

Two ledgers read telemetry, ``measured`` and ``in-flight``. It is late and noisy: nodes are read once a minute, so that
the watts of a job are known up to a minute after it began, and each sample has an error; a hundredth of the readings is
lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.campaign.shared import Shared
from wattqueue.model.comparability import Gate, gate_of_draws
from wattqueue.model.jobs import Floats
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.report.compare.stats import estimate
from wattqueue.report.document import Block, Prose
from wattqueue.report.figure import Axis, Drawn
from wattqueue_studies.frame.compare import Compared, ComparisonTable, points_change
from wattqueue_studies.frame.figures import points
from wattqueue_studies.frame.report import Progress
from wattqueue_studies.frame.samples import Samples, never_ran_tables
from wattqueue_studies.powercap import tables
from wattqueue_studies.powercap.cell import IN_FLIGHT, MAX, MEAN, PowercapCell, easy_cells
from wattqueue_studies.powercap.prepare import Prepared, WorkloadSelection, prepare_traces
from wattqueue_studies.powercap.runs import ALL, PowercapRuns, over_traces, run_traces

SEED = 101
"""Seed of the first trace; those of the campaign and of earlier trials are below it."""
RULES = (
    MEAN, MAX, "easy+pc-app", "easy+pc-even", "easy+pc-quantile-1", "easy+pc-quantile-0.1", "easy+pc-chance-1",
    "easy+pc-chance-0.1",
)  # fmt: skip
"""Rules by predictions alone."""
CAPS = (15, 30, 45)
"""Caps in percent of the highest dynamic power: above 50 % all nodes together hardly reach a cap."""
NOW = PowerSensor(20.0, 60.0, noise=0.02, loss=0.01)
"""Telemetry of the latest watts: samples of 20 s as on Marconi100, read once a minute (noise and loss are assumed)."""
RECENT = replace(NOW, average_s=600.0)
"""The same, averaged over ten minutes."""
DEVIATIONS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 6.0)
"""Standard deviations of the margin of a ledger that reads telemetry."""
MARGINS: Mapping[str, tuple[str, PowerSensor]] = {
    "measured now": (MEAN, NOW),
    "measured, 10 min": (MEAN, RECENT),
    "in flight": (IN_FLIGHT, NOW),
}
"""Ledgers that read telemetry: the policy, and what it reads."""
FAMILIES: Mapping[str, tuple[str, ...]] = {
    **{name: tuple(f"{name}, z {z:g}" for z in DEVIATIONS) for name in MARGINS},
    "chance": ("easy+pc-chance-1", "easy+pc-chance-0.1"),
    "quantile": ("easy+pc-quantile-1", "easy+pc-quantile-0.1"),
    **{name.removeprefix("easy+pc-"): (name,) for name in RULES[:4]},
}
"""Lines of the pictures: rules that differ by a margin alone."""
SIDES = {"over_percent": "above", "excess_percent": "highest excess"}
"""What is compared where as much is left below."""
SHOWN_POINTS = 0.005
"""Differences below this print as 0.00 and count as none."""


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """Runs of the frontier's traces, and their means."""

    runs: Sequence[PowercapRuns]
    means: Samples
    """Over all groups of a trace; draws are traces."""

    def parts(self) -> list[Block]:
        """Return the tables."""
        first, last = self.runs[0].choice.seed, self.runs[-1].choice.seed
        count, windows = len(self.runs), self.runs[0].choice.workloads
        title = f"Other rules on {count} unseen traces (seeds {first} to {last}), {windows} windows of each (%)"
        table = tables.averages(self.means, title)
        compared, outside = self.at_equal_left()
        note = (
            "Measured at equal left below: the line of a measured ledger is interpolated, trace by trace, at what the "
            f"other policy leaves. Telemetry: samples of {NOW.sample_s:g} s read each {NOW.poll_s:g} s, noise "
            f"{100 * NOW.noise:g} %, {100 * NOW.loss:g} % of the readings lost. Of a measured ledger the capped hours "
            "alone are simulated, so that it has no turnaround. "
            + (f"Not compared, outside of a line or with jobs that never ran: {'; '.join(outside)}." if outside else "")
        )
        told = Prose("Telemetry, and how policies are compared", [note])
        return [table, compared, *never_ran_tables([self.means]), told]

    def at_equal_left(self) -> tuple[ComparisonTable, list[str]]:
        """Return measured ledgers less rules at equal left below, in points, and the pairs that cannot be compared."""
        rows, outside = [], []
        for family in MARGINS:
            for rule in RULES:
                through = self.gate(family, rule)
                if not through.open:
                    outside.append(f"{family} and {rule} ({through.why})")
                    continue
                changes = {}
                for metric in SIDES:
                    own = self.interpolated(family, metric, self.means.of(ALL, rule, "under_percent"))
                    changes[metric] = points_change(own, self.means.of(ALL, rule, metric))
                if np.isnan([c.size.mean for c in changes.values()]).any():
                    outside.append(f"{family} and {rule}")
                else:
                    rows.append(Compared("", family, rule, changes))
        title = "Measured at equal left below, points of the cap"
        return ComparisonTable.of(rows, SIDES, tuple(SIDES), title, SHOWN_POINTS), outside

    def gate(self, family: str, rule: str) -> Gate:
        """Return whether a line and a rule may be compared: neither left jobs (rule 18 of docs/semantics.md).

        They are compared in shares of the capped hours, at equal energy below the cap, so that runs of whole windows
        and runs of these hours alone may stand beside each other.
        """
        line = [did for name in FAMILIES[family] for did in self.means.work.get((ALL, name), ())]
        return gate_of_draws(self.means.work.get((ALL, rule), ()), line, (rule, family))

    def interpolated(self, family: str, metric: str, under: Floats) -> Floats:
        """Return a metric of a family's line where it leaves ``under``, NaN beyond its ends. Shapes (traces,)."""
        left, value = (
            np.stack([self.means.of(ALL, name, m) for name in FAMILIES[family]], axis=1)
            for m in ("under_percent", metric)
        )
        found = []
        for x, y, at in zip(left, value, under, strict=True):
            order = np.argsort(x, kind="stable")
            found.append(np.interp(at, x[order], y[order], left=np.nan, right=np.nan))
        return np.array(found)

    def pictures(self) -> Iterator[Drawn]:
        """Yield left below against above, and against the highest excess."""
        at = {
            family: {name: self._point(name) for name in names if self._whole(name)}
            for family, names in FAMILIES.items()
            if any(map(self._whole, names))
        }
        for metric, label in SIDES.items():
            drawn = points(
                f"frontier-{metric.removesuffix('_percent')}",
                f"Trade-off: unused power against {label}",
                "Means over traces; lower left is better. A line joins rules that differ by their margin alone. "
                "Rules that left jobs are not drawn.",
                (Axis("left below", "% of the cap"), Axis(label, "% of the cap")),
                {f: {n: (p["under_percent"], p[metric]) for n, p in each.items()} for f, each in at.items()},
            )
            yield drawn, "points"

    def _whole(self, policy: str) -> bool:
        """Return whether a policy ran, and left no job in any run."""
        did = self.means.work.get((ALL, policy), ())
        return bool(did) and all(work.whole for work in did)

    def _point(self, policy: str) -> dict[str, float]:
        return {m: estimate(self.means.of(ALL, policy, m)).mean for m in ("under_percent", *SIDES)}

    def document(self) -> dict[str, Any]:
        """Return traces, averages and comparisons for JSON."""
        compared, outside = self.at_equal_left()
        return {
            "traces": [tables.workloads(run) for run in self.runs],
            "means": self.means.rows(),
            "at_equal_left": compared.document(),
            "not_compared": outside,
        }


@dataclass(frozen=True, slots=True)
class FrontierStudy:
    """The frontier of rules by predictions and by measurements.

    Attributes:
        folder: Keeps workloads and finished runs.
        choice: How the workloads of a trace are chosen; its seed is that of the first trace.
        traces: Traces, with seeds that follow each other.
        caps: Caps in percent of the highest dynamic power.
        workers: Processes, None for one per core.
    """

    folder: Path
    choice: WorkloadSelection = field(default_factory=lambda: WorkloadSelection(seed=SEED))
    traces: int = 10
    caps: Sequence[float] = CAPS
    workers: int | None = None

    def run(self, progress: Progress | None = None) -> Frontier:
        """Run all rules on all traces.

        Raises: CampaignError, also for a trace with too few busy hours; OutputError.
        """
        shared = Shared(self.folder)
        made = prepare_traces(self.choice, self.traces, shared, RULES, self.workers)
        cells = [(choice, prepared, self._cells(prepared)) for choice, prepared in made]
        runs = run_traces(cells, shared, self.workers, progress)
        return Frontier(runs, over_traces(runs))

    def _cells(self, prepared: Prepared) -> list[PowercapCell]:
        """Return the runs of a trace, workload by workload, the baseline of each first."""
        cells = []
        for base in easy_cells(prepared.trace):
            known = {rule: prepared.ledger_options(rule, base.window) for rule in RULES}
            cells.append(base)
            for cap in self.caps:
                at = replace(base, cap_percent=cap)
                cells += [replace(at, policy=rule, ledger=known[rule]) for rule in RULES]
                cells += [
                    replace(at, policy=policy, called=name, sensor=sensor, ledger=(("deviations", z),))
                    for family, (policy, sensor) in MARGINS.items()
                    for name, z in zip(FAMILIES[family], DEVIATIONS, strict=True)
                ]
        return cells
