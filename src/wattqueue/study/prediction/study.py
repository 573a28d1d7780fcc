"""Section 6.3 of paper 4 on generated jobs and on real rows: who predicts best, and what that hangs on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue import SCHEMA_VERSION, __version__
from wattqueue.formats.archer2 import read_archer2
from wattqueue.formats.eurora import read_eurora
from wattqueue.formats.machine_toml import load_machine
from wattqueue.formats.workload import Workload
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.parts.estimator._weekly import WEEK_S
from wattqueue.study.prediction.evaluate import Clock, evaluate_all
from wattqueue.study.prediction.published import REGRESSORS, SHORTEST_S, published
from wattqueue.study.prediction.scores import Score
from wattqueue.workload.marconi import generate

Tell = Callable[[str], None]

DRIFTS, SPREADS = (0.0, 1.0, 2.0), (0.5, 1.0, 2.0)
SENSITIVITY_JOBS = 100_000
SENSITIVITY = ("last-job", "history-mean", "linear", "linear-svr", "sgd")
KNOBS = tuple(f"history-mean:alpha={alpha}" for alpha in (0.5, 1, 2)) + tuple(
    f"history-mean:alpha={alpha}:window_s={days * 86_400}" for days in (1, 7, 30) for alpha in (1, 2)
)
TABLES = ("rows", "knobs", "sensitivity", "blinded")
PLAUSIBLE_W = 200.0
"""A node of ARCHER2 (two EPYC 7742) does not run a benchmark below this: such a figure is a counter's glitch."""
DAILY = ":period_s=86400"
"""Eurora's rows span five days: what is trained every week in the paper is trained every day there."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One estimator on one data set: its score, beside the printed MAPE where there is one."""

    data: str
    target: str
    score: Score
    published_percent: float | None = None
    setting: dict[str, float] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """For JSON."""
        more = {"published_percent": self.published_percent} | self.setting
        return {"data": self.data, "target": self.target, "estimator": self.score.name} | more | self.score.figures()


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """All tables of the study, and what must be known to read them."""

    rows: list[Row]
    knobs: list[Row]
    sensitivity: list[Row]
    blinded: list[Row]
    notes: list[str]
    about: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        tables = {name: [r.document() for r in getattr(self, name)] for name in TABLES}
        head = {"schema_version": SCHEMA_VERSION, "wattqueue": __version__, "study": "prediction"}
        return head | self.about | tables | {"notes": self.notes}


def run_study(
    eurora: Path | None,
    archer2: Path | None,
    *,
    jobs: int,
    seed: int,
    sensitivity_jobs: int = SENSITIVITY_JOBS,
    clock: Clock,
    tell: Tell,
) -> Result:
    """Generated nine months, the history's own knobs, drift and spread, and the real rows that are at hand.

    Raises: InputError where a file cannot be used.

    Reference: paper 4, sections 6.1 to 6.3, Figure 3.
    """
    machine = load_machine("marconi100")
    real = (
        None if eurora is None else read_eurora(eurora),
        None if archer2 is None else read_archer2(archer2),
    )  # before the long part, so that a wrong path is said at once
    trace, short, shared = as_in_6_1(generate(np.random.default_rng(seed), jobs=jobs))
    notes = [
        f"Generated: {len(trace):,} jobs of {users(trace):,} users, seed {seed}.",
        f"Left out as in 6.1: {short:,} runs under a minute, {shared:,} jobs on shared nodes (the generator has none).",
    ]
    if np.ptp(trace.submit_s) < WEEK_S:
        notes.append(
            "Generated: less than a week, so that no model was ever trained: regressors answer as history does."
        )
    rows: list[Row] = []
    for target in ("mean", "max"):
        names = ["naive", "last-job", f"history-{target}", *REGRESSORS, "gradient-quantiles"]
        rows += _rows("generated", trace, machine, names, target, seed, clock, _prefixed(tell, f"{target}: "))
    knobs = _rows("generated", trace, machine, list(KNOBS), "mean", seed, clock, tell)
    fewer = min(jobs, sensitivity_jobs)
    table = sensitivity(fewer, machine, seed, clock, tell)
    few, _, _ = as_in_6_1(generate(np.random.default_rng(seed), jobs=fewer))
    hidden = blinded(few, np.random.default_rng(seed))
    blind = _rows("generated", hidden, machine, list(SENSITIVITY), "mean", seed, clock, _prefixed(tell, "blinded: "))
    measured, more = real_rows(*real, seed, clock, tell)
    about = {"jobs": len(trace), "users": users(trace), "seed": seed, "sensitivity_jobs": fewer}
    return Result(rows + measured, knobs, table, blind, notes + more, about)


def as_in_6_1(jobs: Jobs) -> tuple[Jobs, int, int]:
    """Without runs under a minute and jobs known to have shared a node, and how many those were."""
    short = np.minimum(jobs.runtime_s, jobs.walltime_s) < SHORTEST_S
    alone = jobs.extra.get("alone")
    shared = np.zeros(len(jobs), np.bool_) if alone is None else np.asarray(alone == "no", np.bool_) & ~short
    return jobs.take(~short & ~shared), int(short.sum()), int(shared.sum())


def users(jobs: Jobs) -> int:
    """How many users have jobs."""
    return len(np.unique(jobs.user.codes[jobs.user.codes >= 0]))


def sensitivity(jobs: int, machine: Machine, seed: int, clock: Clock, tell: Tell) -> list[Row]:
    """Errors while habits drift more or less, and users' jobs differ more or less."""
    found = []
    for drift in DRIFTS:
        for spread in SPREADS:
            trace, _, _ = as_in_6_1(generate(np.random.default_rng(seed), jobs=jobs, drift=drift, spread=spread))
            before = f"drift {drift:g}, spread {spread:g}: "
            names = list(SENSITIVITY)
            for row in _rows("generated", trace, machine, names, "mean", seed, clock, _prefixed(tell, before)):
                setting = {"drift": drift, "spread": spread}
                found.append(Row(row.data, row.target, row.score, setting=setting))
    return found


def blinded(jobs: Jobs, rng: np.random.Generator) -> Jobs:
    """The same jobs and ends, but what they ask for says nothing: sizes shuffled, one walltime for all."""
    run = np.minimum(jobs.runtime_s, jobs.walltime_s)
    return replace(
        jobs,
        nodes=jobs.nodes[rng.permutation(len(jobs))],
        runtime_s=run,
        walltime_s=np.full(len(jobs), float(run.max(initial=1.0))),
    )


def real_rows(
    eurora: Workload | None, archer2: Workload | None, seed: int, clock: Clock, tell: Tell
) -> tuple[list[Row], list[str]]:
    """The real rows that are at hand; a data set that was not given is said to be missing."""
    rows: list[Row] = []
    notes: list[str] = []
    unit = plain_machine(1)
    if eurora is None:
        notes.append("Eurora: not given (--eurora FILE).")
    else:
        names = ["last-job", "history-mean", *(name + DAILY for name in (*REGRESSORS, "gradient-quantiles"))]
        trace, short, _ = as_in_6_1(eurora.jobs)
        notes.append(f"Eurora: {len(trace):,} jobs; {short:,} runs under a minute left out, jobs on shared nodes not.")
        notes += ["Eurora's rows span five days: models are trained every day.", *eurora.notes]
        rows += _rows("Eurora (a predictor's watts)", trace, unit, names, "mean", seed, clock, tell)
    if archer2 is None:
        notes.append("ARCHER2: not given (--archer2 FILE).")
        return rows, notes
    watts = archer2.jobs.mean_power_w if archer2.jobs.mean_power_w is not None else np.zeros(len(archer2.jobs))
    glitches = int((watts < PLAUSIBLE_W).sum())
    notes.append(
        f"ARCHER2: {len(archer2.jobs)} steps with joules, {len(archer2.unusable)} left out, too few to train on."
    )
    notes.append(
        f"ARCHER2: {glitches} steps below {PLAUSIBLE_W:g} W a node are glitches of the counter: with and without."
    )
    notes += archer2.notes
    names = ["last-job", "profiled", "history-mean"]
    for data, kept in (("ARCHER2 (measured)", watts > 0), ("ARCHER2 without glitches", watts >= PLAUSIBLE_W)):
        rows += _rows(data, archer2.jobs.take(kept), unit, names, "mean", seed, clock, tell)
    return rows, notes


def _rows(
    data: str, jobs: Jobs, machine: Machine, names: list[str], target: str, seed: int, clock: Clock, tell: Tell
) -> list[Row]:
    found = evaluate_all(names, jobs, machine, target=target, clock=clock, tell=tell, seed=seed)
    generated = data == "generated"
    return [Row(data, target, e.score, published(target, e.name) if generated else None) for e in found]


def _prefixed(tell: Tell, before: str) -> Tell:
    return lambda text: tell(before + text)
