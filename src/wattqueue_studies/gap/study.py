"""The study: bound, best known schedule and every row on the same windows; what is lost by what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.comparability import WorkDone
from wattqueue.model.jobs import Floats
from wattqueue.policy.oracles import oracles_of
from wattqueue.policy.policy import load_policy
from wattqueue.report.compare.stats import Estimate, estimate, with_interval
from wattqueue.report.document import Block, Table
from wattqueue_studies.bound.assess import Search, bounded, measures_of, wait_ratio, window_problem
from wattqueue_studies.bound.policy_run import replayed_policy
from wattqueue_studies.bound.store import TURNAROUND, bound_figures
from wattqueue_studies.bound.study import summary
from wattqueue_studies.frame.claim import ClaimTable
from wattqueue_studies.frame.published import claims_file, published
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples, Trial, TrialFigures, sweep
from wattqueue_studies.gap.cases import AREA_ROWS, ROWS, WATT_ROWS, GapCase, cases_of
from wattqueue_studies.runtimes.study import RecordedTrace

PACKAGE = "wattqueue_studies.gap"
TOLD = published(PACKAGE)
"""The design (claims.toml)."""
BOUND, BEST = "bound", "best known"
"""Rows that are no policies."""
TURNAROUND_S, GAP, ABOVE, WAIT_RATIO = "turnaround_s", "gap_percent", "above_cap", "wait_ratio"
DEFAULT = Search(tries=40_000, steps=7_000)
"""How much is searched in a window; chosen for the time that it takes, before the first run."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Differences that have one reason.

    Attributes:
        text: The reason.
        pairs: The row that lacks something, and the row that has it.
        capped: Whether they exist under the cap only.
    """

    text: str
    pairs: Sequence[Sequence[str]]
    capped: bool = False


def designed() -> list[Losses]:
    """Return the differences that the study looks at (claims.toml)."""
    return [Losses(**entry) for entry in claims_file(PACKAGE)["losses"].values()]


@dataclass(frozen=True, slots=True)
class GapStudy:
    """How far rows are from the bound, and why.

    Attributes:
        traces: Recorded traces with their nodes.
        generated: Whether generated jobs are looked at, with and without a cap.
        window: Jobs of a window.
        windows: Windows of each workload, drawn by seeds 1, 2, ...
        search: How much is searched in each window.
        threads: Windows at a time.
    """

    traces: Sequence[RecordedTrace] = ()
    generated: bool = True
    window: int = 200
    windows: int = 10
    search: Search = DEFAULT
    threads: int = 2

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Simulate and bound all windows. Raises: InputError for a trace that cannot be used, or no workload."""
        seeds = range(1, self.windows + 1)
        cases = cases_of(self.traces, self.window, seeds, generated=self.generated)
        if not cases:
            raise InputError("nothing to bound", where="--trace", hint="give a trace, or leave out --no-generated")
        return self.report(
            [
                sweep(self._draw, {name: case}, (*case.rows, BEST, BOUND), seeds, threads=self.threads,
                      progress=None if progress is None else _after(progress, k, len(cases)))
                for k, (name, case) in enumerate(cases.items())
            ]
        )  # fmt: skip

    def _draw(self, case: GapCase, seed: int) -> Trial:
        """Return the figures of all rows on a window: they need each other's schedules."""
        return window_figures(case, seed, self.search).__getitem__

    def report(self, every: Sequence[Samples]) -> StudyReport:
        """Return a table of rows for each workload, and that of losses."""
        losses = [row for samples in every for row in loss_rows(samples)]
        parts: list[Block] = [ratio_table(every), *map(row_table, every), *loss_tables(losses)]
        figures: dict[str, Any] = {
            "window": self.window, "windows": self.windows, "tries": self.search.tries, "steps": self.search.steps,
            "losses": [row.document() for row in losses], "results": [row for one in every for row in one.rows()],
        }  # fmt: skip
        claims = judged(every)
        about = f"{len(every)} workloads, {self.windows} windows of {self.window} jobs each, seeds 1 to {self.windows}."
        return TOLD.report(
            claims, about=about, lede=f"Expectations stated before the run: {claims.summary}.", parts=parts,
            figures=figures, simulated=every, origin="recorded traces, generated jobs",
        )  # fmt: skip


def _after(progress: Progress, done: int, parts: int) -> Progress:
    """Return what tells the progress of one of several parts as that of the whole."""
    return lambda finished, every: progress(done * every + finished, parts * every)


def judged(every: Sequence[Samples]) -> ClaimTable:
    """Return what was expected of the workloads that were simulated."""
    found = [
        claim.judge(samples)
        for claim in TOLD.claims
        for samples in every
        if samples.settings[0] in claim.on and {claim.policy, claim.over} <= set(samples.policies)
    ]
    return ClaimTable(found, TOLD.draws)


def window_figures(case: GapCase, seed: int, search: Search) -> Mapping[str, TrialFigures]:
    """Return the figures of each row on a window, of the best known schedule and of the bound.

    Raises: InputError for a window that cannot be bounded.
    """
    window = case.windows[seed]
    inputs = case.inputs_of(window)
    problem = window_problem(inputs, window)
    runs = {name: replayed_policy(replace(inputs, policy=make()), window, problem) for name, make in case.rows.items()}
    ran = {name: run for name, (run, _) in runs.items() if run is not None}
    kept = {name for name in ran if not runs[name][1].broken and not runs[name][1].above_cap}
    mean_s = {name: float(np.mean(run.end_s - problem.jobs.release_s)) for name, run in ran.items()}
    core = bounded(problem, [run.order() for run in ran.values()], search)
    best_s = min([*(measures_of(problem, one)[TURNAROUND] for one in core.found), *(mean_s[name] for name in kept)])
    bound_s = bound_figures(core.instance, {TURNAROUND: core.proven.certificate})[TURNAROUND]
    run_s = float(np.mean(problem.jobs.least(problem.jobs.run_s)))

    def figures(mean_s: float, *, defined: bool, work: WorkDone) -> TrialFigures:
        gap, waits = 100.0 * (mean_s / bound_s - 1.0) if defined else np.nan, wait_ratio(bound_s, mean_s, run_s)
        return TrialFigures({TURNAROUND_S: mean_s, GAP: gap, ABOVE: float(not defined), WAIT_RATIO: waits}, work)

    unknown = WorkDone(len(window.jobs), 0, "", "")
    found_figures = {
        name: figures(mean_s.get(name, np.nan), defined=name in kept, work=unknown if run is None else run.work)
        for name, (run, _) in runs.items()
    }
    whole = next((run.work for run in ran.values()), unknown)
    known = {BEST: figures(best_s, defined=True, work=whole), BOUND: figures(bound_s, defined=True, work=whole)}
    return {**found_figures, **known}


@dataclass(frozen=True, slots=True)
class LossRow:
    """What one row loses to another on one workload.

    Attributes:
        setting: The workload.
        reason: What the loss is of.
        row: The row that lacks something.
        over: The row that has it.
        loss: Difference of mean turnarounds in per cent of the bound, over the windows.
        above: Windows in which one of the rows exceeded the cap.
    """

    setting: str
    reason: str
    row: str
    over: str
    loss: Estimate
    above: int

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        loss = None if np.isnan(self.loss.mean) else self.loss.document()
        return {
            "setting": self.setting, "reason": self.reason, "row": self.row, "over": self.over, "windows": self.loss.n,
            "loss_percent": loss, "windows_above_cap": self.above,
        }  # fmt: skip


def loss_rows(samples: Samples) -> Iterator[LossRow]:
    """Yield the differences of the design on one workload."""
    (setting,) = samples.settings
    bound = samples.of(setting, BOUND, TURNAROUND_S)
    for losses in designed():
        for row, over in losses.pairs:
            if not {row, over} <= set(samples.policies):
                continue
            own, other = samples.pair(setting, row, over, TURNAROUND_S)
            above = samples.of(setting, row, ABOVE) + samples.of(setting, over, ABOVE)
            yield LossRow(
                setting, losses.text, row, over, estimate(100.0 * (own - other) / bound), int((above > 0).sum())
            )


def loss_tables(rows: Sequence[LossRow]) -> Iterator[Table]:
    """Yield a table for each reason: pairs of rows by workload."""
    for losses in designed():
        own = [row for row in rows if row.reason == losses.text]
        settings = list(dict.fromkeys(row.setting for row in own))
        found = {(row.row, row.over, row.setting): row for row in own}
        pairs = list(dict.fromkeys((row.row, row.over) for row in own))
        cells = [
            [f"{row} less {over}", *(_loss_cell(found.get((row, over, setting))) for setting in settings)]
            for row, over in pairs
        ]
        if cells:
            title = f"Lost by {losses.text}: per cent of the bound"
            note = "Signed, paired by window, with 95 % intervals; negative: a gain. * above the cap in some windows."
            yield Table(("row less row", *map(_broken, settings)), cells, title, note)


def _loss_cell(row: LossRow | None) -> str:
    """Return a loss with its interval, marked where a row exceeded the cap."""
    if row is None or np.isnan(row.loss.mean):
        return "–"
    return with_interval(row.loss, digits=1) + ("*" if row.above else "")


def _broken(name: str) -> str:
    """Return a head with a second line behind its comma."""
    return name.replace(", ", ",\n", 1)


def row_table(samples: Samples) -> Table:
    """Return all rows on a workload: mean turnaround, and how far each is from the bound."""
    (setting,) = samples.settings
    rows = []
    for name in samples.policies:
        gaps = samples.of(setting, name, GAP)
        defined = gaps[np.isfinite(gaps)]
        figures = [f"{v:,.1f}" for v in summary(defined).values()] if len(defined) else ["–"] * 3
        mean_s = samples.of(setting, name, TURNAROUND_S).mean()
        rows.append([_marked(name), "–" if np.isnan(mean_s) else f"{mean_s:,.0f}", *figures, str(len(defined))])
    heads = ("row", "mean\nturnaround s", "above bound\nleast %", "median %", "mean %", "windows")
    note = (
        "Windows: those in which the row kept the cap by the true watts, of which the gaps are. No turnaround: in some "
        "window a job never ran under the row."
    )
    return Table(heads, rows, f"{setting}: above the bound", note)


def _marked(name: str) -> str:
    """Return a row's name, marked where it knows the future (a row under the cap also knows watts)."""
    knows = name in AREA_ROWS or (name in (*ROWS, *WATT_ROWS) and oracles_of(load_policy(name)))
    return f"{name} (oracle)" if knows else name


def ratio_table(every: Sequence[Samples]) -> Table:
    """Return of each workload how near the bound and the best known schedule are."""
    rows = []
    for samples in every:
        (setting,) = samples.settings
        ratio: Floats = samples.of(setting, BOUND, TURNAROUND_S) / samples.of(setting, BEST, TURNAROUND_S)
        waits = samples.of(setting, BEST, WAIT_RATIO)
        rows.append([setting, *(f"{v:.3f}" for values in (ratio, waits) for v in summary(values).values())])
    heads = ("workload", "bound/best\nleast", "median", "mean", "wait ratio\nleast", "median", "mean")
    return Table(heads, rows, "Bound and best known schedule")
