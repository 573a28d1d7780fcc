"""Is the share of time above a cap that was asked for kept, month by month?

Beyond paper 4. Generated traces of Marconi100 under one constant cap below what the machine would draw: jobs
wait all the time. The first month is for learning; each of the months after it is judged by itself: seconds above
the cap (true power, profiles sampled in the run each ``PHASES_S``) over its length. A policy that was asked for 1 %
keeps it in a month with at most 1 %. How many months did is given with a Clopper-Pearson interval, and what was
left below the cap stands beside it: a guarantee is worth what it costs.

Runs are a campaign (``month_cell``): finished ones are kept in a folder, and the same call resumes after a stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wattqueue.campaign.cell import Row
from wattqueue.campaign.run import run_cells
from wattqueue.campaign.shared import Shared
from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats
from wattqueue.model.steps import Steps
from wattqueue.report.compare.stats import LEVEL, estimate
from wattqueue.study.frame.claim import ClaimTable
from wattqueue.study.frame.report import Part, Progress, StudyReport
from wattqueue.study.frame.samples import Samples
from wattqueue.study.frame.table import Table, with_interval
from wattqueue.study.powercap.month_cell import BREAK, DRIFT, GENERATED, PHASES_S, RAMPS, MonthCell

MONTHS = 3
"""Months of a trace that are judged."""
FIRST_SEED = 1_001
"""Of the traces; the ledger's settings were chosen on traces of seeds 1 to 20."""


class Rule(NamedTuple):
    """A policy and what it was asked for."""

    policy: str
    """Row of the policy."""
    asked: float
    """Per cent of the time that it was asked to stay within."""
    ledger: tuple[tuple[str, float], ...] = ()
    """Options of its ledger that differ from the row."""


RULES: Mapping[str, Rule] = {
    "easy+pc-adaptive-1": Rule("easy+pc-adaptive-1", 1.0),
    "easy+pc-adaptive-0.1": Rule("easy+pc-adaptive-0.1", 0.1),
    "easy+pc-adaptive, 5 %": Rule("easy+pc-adaptive-1", 5.0, (("epsilon", 0.05),)),
    "easy+pc-chance-1": Rule("easy+pc-chance-1", 1.0),
    "easy+pc-chance-0.1": Rule("easy+pc-chance-0.1", 0.1),
    "easy+pc-max": Rule("easy+pc-max", 1.0),
}
"""What is judged; ``max`` promises nothing, and is judged by 1 %."""
ON_ALL_KINDS = ("easy+pc-adaptive-1", "easy+pc-adaptive-0.1")
"""Rules that run on every kind of months; the others on generated ones alone."""


@dataclass(frozen=True, slots=True)
class GuaranteeStudy:
    """Months under a constant cap.

    Attributes:
        folder: Keeps finished runs.
        traces: Generated traces of each kind.
        months: Months of each trace that are judged; one more goes before them.
        cap_percent: Cap in per cent of the highest dynamic power.
        load: Work of a trace over what the machine can do.
        ramps: Power of a real machine over time, for the months with ramps; None leaves these out.
        rules: Names of the rules, of ``RULES``.
        workers: Processes, None for one per core.
    """

    folder: Path
    traces: int = 20
    months: int = MONTHS
    cap_percent: float = 40.0
    load: float = 0.8
    ramps: Steps | None = None
    rules: Sequence[str] = tuple(RULES)
    workers: int | None = None

    def simulate(self, progress: Progress | None = None) -> Samples:
        """Run every trace under every rule.

        Raises: InputError for no trace, or no month; CampaignError, OutputError.
        """
        if self.traces < 1 or self.months < 1:
            raise InputError("months to judge need a trace and a month", where="traces, months", hint="1 or more")
        shared, ramps = Shared(self.folder), ""
        if self.ramps is not None:
            ramps = shared.put_arrays({"time_s": self.ramps.time_s, "value": self.ramps.value})
        cells = [
            MonthCell(
                kind, FIRST_SEED + k, name, RULES[name].policy, self.months, self.cap_percent, self.load,
                RULES[name].ledger, ramps if kind in RAMPS else "",
            )
            for kind in (GENERATED, DRIFT, BREAK, *(RAMPS if ramps else ()))
            for k in range(self.traces)
            for name in self.rules
            if kind == GENERATED or name in ON_ALL_KINDS
        ]  # fmt: skip
        rows = run_cells(cells, shared=shared, store=self.folder, workers=self.workers, progress=progress).to_dicts()
        return month_samples(rows)

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Simulate, and count the months that kept what was asked."""
        return self.report(self.simulate(progress))

    def report(self, samples: Samples) -> StudyReport:
        """Return a table for each kind of trace."""
        kept = {
            kind: {p: judged(samples, kind, p) for s, p, m in samples.values if (s, m) == (kind, "under_percent")}
            for kind in samples.settings
        }
        parts: list[Part] = [month_table(samples, kind, kept[kind]) for kind in samples.settings]
        lede = "; ".join(
            f"{rule}: {sum(found <= RULES[rule].asked)} of {len(found)} months"
            for rule, found in next(iter(kept.values())).items()
        )
        figures = {
            "months": {kind: {p: v.tolist() for p, v in by.items()} for kind, by in kept.items()},
            "rows": samples.rows("rule"),
        }
        return StudyReport(
            name="powercap",
            title="Is the share of time above the cap kept?",
            paper="Beyond paper 4",
            about=(
                f"{self.traces} generated traces a kind (marconi, load {self.load:g}, seeds from {FIRST_SEED}), "
                f"{self.months} months of each after a month to learn, under a constant cap of {self.cap_percent:g} "
                f"% of the highest dynamic power; profiles sampled each {PHASES_S:g} s."
            ),
            lede=lede,
            claims=ClaimTable((), "traces"),
            parts=parts,
            figures=figures,
        )


def month_samples(rows: Sequence[Row]) -> Samples:
    """Return the figures of the runs: settings are kinds of months, draws are traces."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        for metric, value in row.items():
            if isinstance(value, float) and metric != "seed":
                values.setdefault((str(row["kind"]), str(row["rule"]), metric), []).append(value)
    return Samples({key: np.array(found) for key, found in values.items()})


def judged(samples: Samples, kind: str, policy: str) -> Floats:
    """Return the time above the cap of every month in per cent. Shape (traces * months,)."""
    names = [m for s, p, m in samples.values if (s, p) == (kind, policy) and m.startswith("over_time_percent")]
    return np.concatenate([samples.of(kind, policy, name) for name in names])


def month_table(samples: Samples, kind: str, kept: Mapping[str, Floats]) -> Table:
    """Return the months that kept what was asked, and what was left, by rule."""
    rows = []
    for rule, over in kept.items():
        asked = RULES[rule].asked
        good = int((over <= asked).sum())
        low, high = clopper_pearson(good, len(over))
        left = estimate(samples.of(kind, rule, "under_percent"))
        ramps = [f"{samples.of(kind, rule, 'ramps').mean():.0f}"] if kind in RAMPS else []
        rows.append([
            rule, f"{asked:g}", f"{over.mean():.3f}", f"{over.max():.3f}", f"{good} of {len(over)}",
            f"{100 * low:.1f} to {100 * high:.1f}", with_interval(left, sign=""),
            f"{samples.of(kind, rule, 'excess_percent').max():.0f}",
            f"{samples.of(kind, rule, 'wait_h').mean():.0f}", *ramps,
        ])  # fmt: skip
    heads = (
        "policy", "asked,\n% of time", "above,\nmean", "worst\nmonth", "months\nkept", "95 %\ninterval, %",
        "left\nbelow, %", "highest\nexcess, %", "mean\nwait, h", *(("ramps\na trace",) if kind in RAMPS else ()),
    )  # fmt: skip
    return Table(heads, rows, f"Months under the cap: {kind}")


def clopper_pearson(kept: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a probability of which ``kept`` of ``count`` trials came true.

    Reference: Clopper and Pearson, Biometrika 26 (1934).
    """
    from scipy.stats import beta

    tail = (1.0 - LEVEL) / 2.0
    low = float(beta.ppf(tail, kept, count - kept + 1)) if kept else 0.0
    high = float(beta.ppf(1.0 - tail, kept + 1, count - kept)) if kept < count else 1.0
    return low, high
