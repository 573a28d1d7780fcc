"""Figure 1 of paper 2: power over time under one budget, for three kinds of policies, on one draw of sockets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.model.metrics import CapSums, cap_sums, span
from wattqueue.model.steps import Steps
from wattqueue.report.document import Table
from wattqueue.report.figure import Drawn, axis_of_time, power_axis
from wattqueue_studies.frame.figures import curves
from wattqueue_studies.variability.knowledge import BASE
from wattqueue_studies.variability.trial import BudgetCase

BUDGET_W, TRAFFIC, SEED = 15_000.0, "heavy", 0
"""Budget of Figure 1; the text names no traffic: the one that keeps the machine full is shown."""
SHOWN = {
    BASE: "conservative",
    "slurm-pe, best": "agnostic, best socket",
    "slurm-pe, median": "agnostic, median socket",
    "slurm-vtp": "variability-aware",
}
"""Policies of the figure, by the paper's names; the text does not say which socket the agnostic one profiled."""
BINS = 400


@dataclass(frozen=True, slots=True, eq=False)
class PowerTrace:
    """Power of one policy over time.

    Attributes:
        highest_w: Highest power in each of ``BINS`` equal bins until the last policy's last end; 0 after its own.
        mean_w: Mean power in each bin.
        end_s: Seconds from the first submission to the last end.
        sums: What the budget was used for, and exceeded by.
    """

    highest_w: Floats
    mean_w: Floats
    end_s: float
    sums: CapSums


@dataclass(frozen=True, slots=True, eq=False)
class PowerOverTime:
    """Figure 1: traces by policy, over ``end_s`` seconds."""

    traces: dict[str, PowerTrace]
    end_s: float

    @classmethod
    def of(cls, case: BudgetCase) -> PowerOverTime:
        """Simulate the policies of the figure on the sockets of ``SEED``."""
        simulated = case.simulations(SEED)
        runs = {name: simulated(name) for name in SHOWN}
        spans = {name: span(run.jobs, run.schedule) for name, (run, _) in runs.items()}
        begin, end = min(b for b, _ in spans.values()), max(e for _, e in spans.values())
        edge_s = np.linspace(begin, end, BINS + 1)
        traces = {}
        for name, (run, power) in runs.items():
            steps = Steps(power.time_s, power.jobs_w)
            sums = cap_sums(power, run.machine, run.cap, *spans[name])
            traces[name] = PowerTrace(steps.maxima(edge_s), steps.means(edge_s), spans[name][1] - begin, sums)
        return cls(traces, end - begin)

    def table(self) -> Table:
        """Return how long each policy took, and how it used the budget."""
        rows = [
            [
                f"{SHOWN[name]} ({name})",
                f"{t.end_s / 60:.0f} min",
                f"{t.sums.used_j / t.end_s / 1e3:.2f}",
                f"{t.highest_w.max() / 1e3:.2f}",
                f"{100 * t.sums.over_s / t.end_s:.2f}",
            ]
            for name, t in self.traces.items()
        ]
        heads = ("policy", "last end", "mean kW", "highest\nkW", "above budget\n% of time")
        title = f"Figure 1: power under {BUDGET_W / 1e3:g} kW, {TRAFFIC} traffic"
        return Table(heads, rows, title, f"One draw of sockets (seed {SEED}). The page draws power over time.")

    def picture(self) -> Drawn:
        """Return the highest power of each bin over time."""
        lines = {SHOWN[name]: t.highest_w for name, t in self.traces.items()} | {"budget": np.full(BINS, BUDGET_W)}
        says = f"Highest power in {BINS} bins of {self.end_s / BINS:.0f} s; {TRAFFIC} traffic, one draw of sockets."
        axes = axis_of_time(self.end_s, None), power_axis(max(float(v.max()) for v in lines.values()))
        return curves("power", "Figure 1: power under 15 kW", says, axes, lines, self.end_s), "overlay"

    def document(self) -> dict[str, Any]:
        """Return the traces for JSON."""
        named = {
            name: {"highest_w": t.highest_w.tolist(), "mean_w": t.mean_w.tolist(), "end_s": t.end_s, **t.sums._asdict()}
            for name, t in self.traces.items()
        }
        return {"budget_w": BUDGET_W, "traffic": TRAFFIC, "seed": SEED, "bin_s": self.end_s / BINS, "policies": named}
