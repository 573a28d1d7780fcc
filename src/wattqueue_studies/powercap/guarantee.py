"""Is the share of time above a cap that was asked for kept, month by month?

Beyond paper 4. Generated traces of Marconi100 under one constant cap below what the machine would draw: jobs
wait all the time. The first month is for learning; each of the months after it is judged by itself: seconds above
the cap (true power, profiles sampled in the run each ``PHASES_S``) over its length. A policy that was asked for 1 %
keeps it in a month with at most 1 %. How many months did is given with a Clopper-Pearson interval, and what was
left below the cap stands beside it: a guarantee is worth what it costs.

What it costs is also compared with a constant margin: a part of the cap that is never used. For each kind of months and
each share that was asked for it is the least of ``MARGINS`` with which ``CHOSEN_IF`` of the months keep the share, on
traces of other seeds; on the judged traces stands the mean wait over all jobs with either.

Runs are a campaign (``month_cell``): finished ones are kept in a folder, and the same call resumes after a stop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wattqueue.campaign.cell import Row
from wattqueue.campaign.run import run_cells
from wattqueue.campaign.shared import Shared
from wattqueue.errors import InputError
from wattqueue.model.comparability import WorkDone
from wattqueue.model.jobs import Floats
from wattqueue.model.steps import Steps
from wattqueue.report.compare.stats import LEVEL, estimate, with_interval
from wattqueue.report.document import Block, Table
from wattqueue_studies.frame.claim import ClaimTable
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples, never_ran_rows, never_ran_tables
from wattqueue_studies.powercap.cell import MEAN
from wattqueue_studies.powercap.month_cell import BREAK, DRIFT, GENERATED, PHASES_S, RAMPS, MonthCell

MONTHS = 3
"""Months of a trace that are judged."""
FIRST_SEED = 1_001
"""Of the traces; the ledger's settings were chosen on traces of seeds 1 to 20."""


CHOICE_SEED = 1
"""Of the first trace on which a constant margin is chosen."""
MARGINS = tuple(range(5, 91, 5))
"""Constant margins, in per cent of the cap."""
CHOSEN_IF = 0.95
"""Share of the months of the other traces that must keep what was asked."""
LEAST_RAMPS = 10
"""With fewer ramps begun in the judged months, a kind of months with ramps has tested nothing."""


class Rule(NamedTuple):
    """A policy and what it was asked for."""

    policy: str
    """Row of the policy."""
    asked: float
    """Per cent of the time that it was asked to stay within."""
    ledger: tuple[tuple[str, float], ...] = ()
    """Options of its ledger that differ from the row."""
    margin_percent: float = 0.0
    """Constant margin, per cent of the cap."""


RULES: Mapping[str, Rule] = {
    "easy+pc-adaptive-1": Rule("easy+pc-adaptive-1", 1.0),
    "easy+pc-adaptive-0.1": Rule("easy+pc-adaptive-0.1", 0.1),
    "easy+pc-app-adaptive-1": Rule("easy+pc-app-adaptive-1", 1.0),
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
        choice: Traces on which a constant margin is chosen for each share asked of a rule that runs on all kinds; 0
            for no constant margin.
        workers: Processes, None for one per core.
    """

    folder: Path
    traces: int = 20
    months: int = MONTHS
    cap_percent: float = 40.0
    load: float = 0.8
    ramps: Steps | None = None
    rules: Sequence[str] = tuple(RULES)
    choice: int = 4
    workers: int | None = None
    constant: dict[tuple[str, str], Rule] = field(default_factory=dict, init=False)
    """By kind and name: the constant margins that were chosen; filled by ``simulate``."""

    def simulate(self, progress: Progress | None = None) -> Samples:
        """Run every trace under every rule.

        Raises: InputError for no trace, or no month; CampaignError, OutputError.
        """
        if self.traces < 1 or self.months < 1:
            raise InputError("months to judge need a trace and a month", where="traces, months", hint="1 or more")
        shared, ramps = Shared(self.folder), ""
        if self.ramps is not None:
            ramps = shared.put_arrays({"time_s": self.ramps.time_s, "value": self.ramps.value})
        cells = []
        for kind in (GENERATED, DRIFT, BREAK, *(RAMPS if ramps else ())):
            rules = {name: RULES[name] for name in self.rules if kind == GENERATED or name in ON_ALL_KINDS}
            for asked in sorted({RULES[name].asked for name in rules if name in ON_ALL_KINDS} if self.choice else ()):
                name, margin = f"constant margin, {asked:g} %", self._margin(kind, asked, shared, ramps, progress)
                self.constant[kind, name] = rules[name] = Rule(MEAN, asked, margin_percent=margin)
            seeds = range(FIRST_SEED, FIRST_SEED + self.traces)
            cells += [self._cell(kind, seed, name, rules[name], ramps) for seed in seeds for name in rules]
        rows = run_cells(cells, shared=shared, store=self.folder, workers=self.workers, progress=progress).to_dicts()
        return month_samples(rows)

    def _cell(self, kind: str, seed: int, name: str, rule: Rule, ramps: str) -> MonthCell:
        """Return a run of a rule on a trace."""
        return MonthCell(
            kind, seed, name, rule.policy, self.months, self.cap_percent, self.load, rule.ledger,
            ramps if kind in RAMPS else "", rule.margin_percent,
        )  # fmt: skip

    def _margin(self, kind: str, asked: float, shared: Shared, ramps: str, progress: Progress | None) -> float:
        """Return the least constant margin that keeps a share on other traces, in per cent; the greatest if none does.

        By bisection: a greater margin is taken to keep it more often.
        """

        def keeps(margin: int) -> bool:
            rule = Rule(MEAN, asked, margin_percent=float(margin))
            name = f"constant margin {margin}"
            seeds = range(CHOICE_SEED, CHOICE_SEED + self.choice)
            cells = [self._cell(kind, seed, name, rule, ramps) for seed in seeds]
            found = run_cells(cells, shared=shared, store=self.folder, workers=self.workers, progress=progress)
            over = judged(month_samples(found.to_dicts()), kind, name)
            return bool((over <= asked).mean() >= CHOSEN_IF)

        return float(MARGINS[least(MARGINS, keeps)])

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Simulate, and count the months that kept what was asked."""
        return self.report(self.simulate(progress))

    def report(self, samples: Samples) -> StudyReport:
        """Return a table for each kind of trace."""
        kept = {
            kind: {p: judged(samples, kind, p) for s, p, m in samples.values if (s, m) == (kind, "under_percent")}
            for kind in samples.settings
        }
        known = {
            kind: {rule: RULES.get(rule) or self.constant[kind, rule] for rule in found} for kind, found in kept.items()
        }
        parts: list[Block] = [month_table(samples, kind, kept[kind], known[kind]) for kind in samples.settings]
        parts += never_ran_tables([samples])
        first = next(iter(kept))
        lede = "; ".join(
            f"{rule}: {sum(found <= known[first][rule].asked)} of {len(found)} months"
            for rule, found in kept[first].items()
        )
        figures = {
            "constant_margin_percent": {
                f"{k}: {name}": rule.margin_percent for (k, name), rule in self.constant.items()
            },
            "months": {kind: {p: v.tolist() for p, v in by.items()} for kind, by in kept.items()},
            "rows": samples.rows("rule"),
            "never_ran": never_ran_rows([samples]),
        }
        return StudyReport.of(
            "powercap",
            ("Is the share of time above the cap kept?", "Beyond paper 4"),
            about=(
                f"{self.traces} generated traces a kind (marconi, load {self.load:g}, seeds from {FIRST_SEED}), "
                f"{self.months} months of each after a month to learn, under a constant cap of {self.cap_percent:g} "
                f"% of the highest dynamic power; profiles sampled each {PHASES_S:g} s. Waits are over all jobs; one "
                f"that never started counts up to the end of the run. Constant margins: chosen on {self.choice} "
                f"other traces a kind (seeds from {CHOICE_SEED})."
            ),
            lede=lede,
            claims=ClaimTable((), "traces"),
            parts=parts,
            figures=figures,
        )


def month_samples(rows: Sequence[Row]) -> Samples:
    """Return the figures of the runs: settings are kinds of months, draws are traces."""
    values: dict[tuple[str, str, str], list[float]] = {}
    work: dict[tuple[str, str], list[WorkDone]] = {}
    for row in rows:
        work.setdefault((str(row["kind"]), str(row["rule"])), []).append(WorkDone.of_row(row))
        for metric, value in row.items():
            if isinstance(value, float) and metric != "seed":
                values.setdefault((str(row["kind"]), str(row["rule"]), metric), []).append(value)
    found = {key: np.array(each) for key, each in values.items()}
    return Samples(found, {key: tuple(did) for key, did in work.items()})


def judged(samples: Samples, kind: str, policy: str) -> Floats:
    """Return the time above the cap of every month in per cent. Shape (traces * months,)."""
    names = [m for s, p, m in samples.values if (s, p) == (kind, policy) and m.startswith("over_time_percent")]
    return np.concatenate([samples.of(kind, policy, name) for name in names])


def least(values: Sequence[int], keeps: Callable[[int], bool]) -> int:
    """Return the number of the first value that keeps, of the last one if none does; all behind it are taken to."""
    return min(bisect_left(values, True, key=keeps), len(values) - 1)


def month_table(samples: Samples, kind: str, kept: Mapping[str, Floats], rules: Mapping[str, Rule]) -> Table:
    """Return the months that kept what was asked, and what that costs, by rule."""
    constant = {rule.asked: name for name, rule in rules.items() if rule.margin_percent}
    rows = []
    for name, over in kept.items():
        rule = rules[name]
        good = int((over <= rule.asked).sum())
        low, high = clopper_pearson(good, len(over))
        ramps = [samples.of(kind, name, "ramps").sum()] if kind in RAMPS else []
        months, interval = f"{good} of {len(over)}", f"{100 * low:.1f} to {100 * high:.1f}"
        if any(count < LEAST_RAMPS for count in ramps):
            months, interval = "not tested", "–"
        wait, lost = samples.of(kind, name, "wait_h").mean(), samples.of(kind, name, "not_started").sum()
        other = np.nan
        if rule.asked in constant and samples.gate(kind, name, constant[rule.asked]).open:
            other = samples.of(kind, constant[rule.asked], "wait_h").mean()
        rows.append([
            f"{name}: {rule.margin_percent:g} %" if rule.margin_percent else name, f"{rule.asked:g}",
            f"{over.mean():.3f}", f"{over.max():.3f}", months, interval,
            with_interval(estimate(samples.of(kind, name, "under_percent")), sign=""),
            f"{samples.of(kind, name, 'excess_percent').max():.0f}", f"{'≥ ' if lost else ''}{wait:.0f}",
            f"{wait / other:.2f}" if other > 0.0 else "–", f"{lost:.0f}",
            f"{samples.of(kind, name, 'not_started_fit').sum():.0f}", *(f"{count:.0f}" for count in ramps),
        ])  # fmt: skip
    heads = (
        "policy", "asked,\n% of time", "above,\nmean", "worst\nmonth", "months\nkept", "95 %\ninterval, %",
        "left\nbelow, %", "highest\nexcess, %", "mean\nwait, h", "over constant\nmargin", "never\nstarted",
        "of which\nfit", *(("ramps\nbegun",) if kind in RAMPS else ()),
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
