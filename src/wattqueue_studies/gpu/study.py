"""The study: errors of watts and times at limits that were not fitted, workload by workload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.gpu_limits import HELD_WITHIN, LimitedRun
from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Table
from wattqueue_studies.frame.claim import ClaimTable
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples
from wattqueue_studies.gpu.fit import FittedWorkload, KindOfGpu, across, unknown_kind
from wattqueue_studies.gpu.zeus import MeasuredGpu, Workload, read_zeus

TOLD = published("wattqueue_studies.gpu")
"""Published figures and what was expected (claims.toml)."""
ONE, TWO, NETWORKS = "one limit", "two limits", "two limits, new network"
THIRD, THIRD_WATTS = "two kinds of GPU", "two kinds of GPU, and watts without a limit"
TASKS = (ONE, TWO, NETWORKS, THIRD, THIRD_WATTS)
"""What is fitted before others are predicted; rows of the tables."""
WATTS, TIME = "watts_percent", "time_percent"
Errors = dict[tuple[str, str, str], np.ndarray[Any, np.dtype[np.float64]]]


@dataclass(frozen=True, slots=True)
class GpuStudy:
    """Predictions of watts and run times under GPU limits.

    Attributes:
        files: Measurements of Zeus, one CSV for each kind of GPU.
    """

    files: Sequence[Path]

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Fit and predict. Raises: InputError for no file, and one that cannot be used."""
        if not self.files:
            raise InputError("no measurements", where="--measured", hint="give zeus_v100.csv and its like")
        gpus = [read_zeus(path) for path in self.files]
        errors: Errors = {}
        for k, gpu in enumerate(gpus):
            if progress:
                progress(k, len(gpus))
            errors |= of_limits(gpu)
            others = [other for other in gpus if other is not gpu]
            if len(others) > 1:
                errors |= of_kinds(gpu, others)
        return report(gpus, Samples(errors, scores=True))


def of_limits(gpu: MeasuredGpu) -> Errors:
    """Return errors at limits that were not fitted, by task and figure; kinds are fitted on other workloads alone."""

    def same_network(key: Workload) -> tuple[str, ...]:
        return key[:2]

    def same_workload(key: Workload) -> tuple[str, ...]:
        return key

    kinds = {group: _left_out(gpu, group) for group in (same_workload, same_network)}
    found: Errors = {}
    for task, group, ones in ((ONE, same_workload, True), (TWO, same_workload, False), (NETWORKS, same_network, False)):
        each = []
        for key, run in gpu.runs.items():
            kind = kinds[group][group(key)]
            trusted = run.above(kind.floor_w)
            fitted = FittedWorkload.of(kind, trusted)
            if ones:
                fitted = replace(fitted, kept=1.0, exponent=1.0)
            each.append(_errors(fitted, trusted, slice(1, -1)))
        found |= _columns(gpu.name, task, each)
    return found


def _left_out(gpu: MeasuredGpu, group: Callable[[Workload], tuple[str, ...]]) -> dict[tuple[str, ...], KindOfGpu]:
    """Return a kind for each group of workloads, fitted on all others."""
    return {
        own: KindOfGpu.of(run for key, run in gpu.runs.items() if group(key) != own)
        for own in dict.fromkeys(map(group, gpu.runs))
    }


def of_kinds(gpu: MeasuredGpu, others: Sequence[MeasuredGpu]) -> Errors:
    """Return errors on a kind of GPU that was fitted on no cell of it, over the workloads that all have."""
    common = [key for key in gpu.runs if all(key in other.runs for other in others)]
    if not common:
        return {}
    kinds = [(other.greatest_w, KindOfGpu.of(other.runs.values()), other) for other in others]
    assumed = unknown_kind([(rated, kind, other.runs.values()) for rated, kind, other in kinds], gpu.greatest_w)
    found: Errors = {}
    for task in (THIRD, THIRD_WATTS):
        each = []
        for key in common:
            known = [
                (rated, FittedWorkload.of(kind, other.runs[key].above(kind.floor_w))) for rated, kind, other in kinds
            ]
            fitted, run = across(known, gpu.greatest_w, assumed), gpu.runs[key].above(assumed.floor_w)
            if task == THIRD_WATTS:
                fitted = replace(fitted, demand_w=float(run.watts[-1]))
            each.append(_errors(fitted, run, slice(0, -1)))
        found |= _columns(gpu.name, task, each)
    return found


def _errors(fitted: FittedWorkload, run: LimitedRun, scored: slice) -> tuple[float, float]:
    """Return the mean absolute errors of watts and times of some limits of a workload, in per cent."""
    watts, time = fitted.predict(run.limit_w[scored])
    true_w, true_s = run.watts[scored], run.time_s[scored] / run.time_s[-1]
    return float(100.0 * np.mean(np.abs(watts / true_w - 1.0))), float(100.0 * np.mean(np.abs(time / true_s - 1.0)))


def _columns(name: str, task: str, each: Sequence[tuple[float, float]]) -> Errors:
    """Return errors of workloads as columns of watts and of times."""
    return {(name, task, metric): np.array([row[k] for row in each]) for k, metric in enumerate((WATTS, TIME))}


def report(gpus: Sequence[MeasuredGpu], errors: Samples) -> StudyReport:
    """Return the errors of each task, the floors, and the claims."""
    claims = judged(errors)
    tables = [error_table(errors, metric) for metric in (WATTS, TIME)]
    floors = [(gpu, KindOfGpu.of(gpu.runs.values())) for gpu in gpus]
    figures = {
        "gpus": [
            {
                "name": gpu.name, "workloads": len(gpu.runs), "floor_w": kind.floor_w, "idle_w": kind.idle_w,
                "share": kind.curve.share, "time": kind.curve.time,
            }
            for gpu, kind in floors
        ],
        "errors": errors.rows("task"),
    }  # fmt: skip
    return TOLD.report(
        claims,
        about=", ".join(f"{len(gpu.runs)} workloads on {gpu.name.upper()}" for gpu in gpus) + ".",
        lede=f"Watts and run times of training jobs under GPU power limits. {claims.summary}.",
        parts=[*tables, floor_table(floors), curve_table(floors)],
        figures=figures,
        origin="measurements of Zeus (NSDI 2023)",
    )


def judged(errors: Samples) -> ClaimTable:
    """Return the claims of the kinds and tasks that there are."""
    there = {(setting, task) for setting, task, _ in errors.values}
    kept = [claim for claim in TOLD.claims if all((setting, claim.policy) in there for setting in claim.on)]
    return ClaimTable([claim.judge(errors) for claim in kept], TOLD.draws)


def error_table(errors: Samples, metric: str) -> Table:
    """Return the mean absolute error of each task on each kind, with intervals over workloads."""
    tasks = [task for task in TASKS if task in errors.policies]
    rows = [[task, *(_cell(errors, gpu, task, metric) for gpu in errors.settings)] for task in tasks]
    title = f"{TOLD.labels[metric]}: mean over workloads, per cent"
    return Table(("fitted on", *(name.upper() for name in errors.settings)), rows, title)


def _cell(errors: Samples, gpu: str, task: str, metric: str) -> str:
    if (gpu, task, metric) not in errors.values:
        return "–"
    return with_interval(estimate(errors.of(gpu, task, metric)), "", 1)


def floor_table(floors: Sequence[tuple[MeasuredGpu, KindOfGpu]]) -> Table:
    """Return the lowest limit of each kind that is trusted, and what was drawn at limits below it."""
    rows = []
    for gpu, kind in floors:
        lowest = min(float(run.limit_w[0]) for run in gpu.runs.values())
        at = [float(run.watts[0]) for run in gpu.runs.values() if run.limit_w[0] == lowest]
        above = sum(watts > lowest * (1.0 + HELD_WITHIN) for watts in at)
        cells = (f"{kind.floor_w:g}", f"{kind.idle_w:.1f}", f"{lowest:g}", f"{max(at):.1f}", f"{above} of {len(at)}")
        rows.append([gpu.name.upper(), *cells])
    heads = ("GPU", "floor W", "least W\ndrawn", "lowest\nlimit W", "greatest W\nat it", "workloads\nabove it")
    note = f"A limit is trusted if no workload draws more than {100 * HELD_WITHIN:g} % above it, nor at any higher one."
    return Table(heads, rows, "The floor below which a limit is not trusted", note)


def curve_table(floors: Sequence[tuple[MeasuredGpu, KindOfGpu]]) -> Table:
    """Return the pooled curves: run time over that without a limit, by the share of the watts above idle."""
    shares = np.arange(0.3, 1.0, 0.1)
    rows = [[gpu.name.upper(), *(_time_cell(kind, share) for share in shares)] for gpu, kind in floors]
    return Table(("GPU", *(f"{share:.1f}" for share in shares)), rows, "Run time by the share of watts above idle left")


def _time_cell(kind: KindOfGpu, share: float) -> str:
    """Return a point of a curve; none below its lowest point."""
    if share < kind.curve.share[0]:
        return "–"
    return f"{float(kind.curve.time_factor(np.array([share]))[0]):.3f}"
