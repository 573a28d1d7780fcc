"""Section 6.3 of paper 4 on generated jobs and on real rows: which estimator predicts best, and on what that depends.

The generator assumes how a user's jobs resemble each other, and that decides between history and regression. So the
study varies the assumption (``sensitivity``: drift of habits, spread of a user's jobs) and removes the information in
requests (``blinded``); only an order of estimators that holds in every cell says something beyond the assumption.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue import SCHEMA_VERSION, __version__
from wattqueue.formats.machine.file import load_machine
from wattqueue.formats.workload import Workload
from wattqueue.formats.workloads.archer2 import read_archer2
from wattqueue.formats.workloads.eurora import read_eurora
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.parts.timeline import WEEK_S
from wattqueue.study.prediction.evaluate import Clock, evaluate_all
from wattqueue.study.prediction.published import REGRESSORS, SHORTEST_S, published
from wattqueue.study.prediction.scores import Score
from wattqueue.workload.marconi import generate

Tell = Callable[[str], None]
"""Called with the name of each step."""

DRIFTS, SPREADS = (0.0, 1.0, 2.0), (0.5, 1.0, 2.0)
"""Axes of the sensitivity table: factors on the generator's drift and spread."""
SENSITIVITY_JOBS = 100_000
"""Jobs of each of its cells."""
SENSITIVITY = ("last-job", "history-mean", "linear", "linear-svr", "sgd")
"""Estimators of its columns."""
KNOBS = tuple(f"history-mean:alpha={alpha}" for alpha in (0.5, 1, 2)) + tuple(
    f"history-mean:alpha={alpha}:window_s={days * 86_400}" for days in (1, 7, 30) for alpha in (1, 2)
)
"""Settings of the history estimator: exponent of the weights, window."""
TABLES = ("rows", "knobs", "sensitivity", "blinded")
"""Tables of the result, which are keys of its JSON."""
PLAUSIBLE_W = 200.0
"""A node of ARCHER2 (two EPYC 7742) does not run a benchmark below this: such a figure is an error of the counter."""
DAILY = ":period_s=86400"
"""Option for Eurora, whose rows span five days: models that the paper trains weekly are trained daily there."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreRow:
    """The score of one estimator on one data set."""

    data: str
    """Name of the data set."""
    target: str
    """mean or max watts."""
    score: Score
    """The score."""
    published_percent: float | None = None
    """MAPE that the paper prints, if it does."""
    setting: dict[str, float] = field(default_factory=dict)
    """Drift and spread of a cell of the sensitivity table."""

    def document(self) -> dict[str, Any]:
        """Return the row for JSON."""
        more = {"published_percent": self.published_percent} | self.setting
        return {"data": self.data, "target": self.target, "estimator": self.score.name} | more | self.score.figures()


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """All tables of the study."""

    rows: list[ScoreRow]
    """Every estimator on every data set."""
    knobs: list[ScoreRow]
    """The history estimator under other settings."""
    sensitivity: list[ScoreRow]
    """Estimators over drift and spread."""
    blinded: list[ScoreRow]
    """Estimators on jobs whose requests say nothing about their watts."""
    notes: list[str]
    """What was left out, and other remarks."""
    about: dict[str, Any]
    """Numbers of jobs and users, seed."""

    def document(self) -> dict[str, Any]:
        """Return the JSON of ``--json``."""
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
    """Evaluate on nine generated months, over settings of history, over drift and spread, and on real rows if given.

    Args:
        eurora: Jobs of Eurora with a predictor's watts (CSV), or None.
        archer2: Measured benchmarks on ARCHER2 (CSV), or None.
        jobs: Generated jobs of the main table.
        seed: Seed of the generated jobs and of training.
        sensitivity_jobs: Generated jobs of each cell of the other tables, at most.
        clock: Returns CPU seconds.
        tell: Called with the name of each step.

    Raises: InputError if a file cannot be used.

    Reference: paper 4, sections 6.1 to 6.3, Figure 3.
    """
    machine = load_machine("marconi100")
    real = (
        None if eurora is None else read_eurora(eurora),
        None if archer2 is None else read_archer2(archer2),
    )  # first, so that a wrong path fails at once
    trace, short, shared = as_in_6_1(generate(np.random.default_rng(seed), jobs=jobs))
    notes = [
        f"Generated: {len(trace):,} jobs of {users(trace):,} users, seed {seed}.",
        f"Left out as in 6.1: {short:,} runs under a minute, {shared:,} jobs on shared nodes (the generator has none).",
    ]
    if np.ptp(trace.submit_s) < WEEK_S:
        notes.append(
            "Generated: less than a week, so that no model was ever trained: regressors answer as history does."
        )
    rows: list[ScoreRow] = []
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
    """Filter a trace as in section 6.1: drop runs under a minute and jobs known to have shared a node.

    Returns the rest, and how many were dropped for either reason; a short run on a shared node counts as short.
    """
    short = np.minimum(jobs.runtime_s, jobs.walltime_s) < SHORTEST_S
    alone = jobs.extra.get("alone")
    shared = np.zeros(len(jobs), np.bool_) if alone is None else np.asarray(alone == "no", np.bool_) & ~short
    return jobs.take(~short & ~shared), int(short.sum()), int(shared.sum())


def users(jobs: Jobs) -> int:
    """Return how many users have jobs."""
    return len(np.unique(jobs.user.codes[jobs.user.codes >= 0]))


def sensitivity(jobs: int, machine: Machine, seed: int, clock: Clock, tell: Tell) -> list[ScoreRow]:
    """Evaluate over drift of habits and spread of users' jobs; every cell has the same seed."""
    found = []
    for drift in DRIFTS:
        for spread in SPREADS:
            trace, _, _ = as_in_6_1(generate(np.random.default_rng(seed), jobs=jobs, drift=drift, spread=spread))
            before = f"drift {drift:g}, spread {spread:g}: "
            names = list(SENSITIVITY)
            for row in _rows("generated", trace, machine, names, "mean", seed, clock, _prefixed(tell, before)):
                setting = {"drift": drift, "spread": spread}
                found.append(ScoreRow(row.data, row.target, row.score, setting=setting))
    return found


def blinded(jobs: Jobs, rng: np.random.Generator) -> Jobs:
    """Return the same jobs and ends with uninformative requests: sizes shuffled, one walltime for all.

    Run times are cut at the old walltimes first, so that ends stay.
    """
    run = np.minimum(jobs.runtime_s, jobs.walltime_s)
    return replace(
        jobs,
        nodes=jobs.nodes[rng.permutation(len(jobs))],
        runtime_s=run,
        walltime_s=np.full(len(jobs), float(run.max(initial=1.0))),
    )


def real_rows(
    eurora: Workload | None, archer2: Workload | None, seed: int, clock: Clock, tell: Tell
) -> tuple[list[ScoreRow], list[str]]:
    """Evaluate on the real data sets that are given, and return rows and remarks; missing ones are remarked."""
    rows: list[ScoreRow] = []
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
        f"ARCHER2: {glitches} steps below {PLAUSIBLE_W:g} W per node are errors of the counter: evaluated with and "
        "without them."
    )
    notes += archer2.notes
    names = ["last-job", "profiled", "history-mean"]
    for data, kept in (("ARCHER2 (measured)", watts > 0), ("ARCHER2 without glitches", watts >= PLAUSIBLE_W)):
        rows += _rows(data, archer2.jobs.take(kept), unit, names, "mean", seed, clock, tell)
    return rows, notes


def _rows(
    data: str, jobs: Jobs, machine: Machine, names: list[str], target: str, seed: int, clock: Clock, tell: Tell
) -> list[ScoreRow]:
    """Evaluate estimators on one data set.

    Published figures stand beside the generated data only, which represent the trace that the paper used.
    """
    found = evaluate_all(names, jobs, machine, target=target, clock=clock, tell=tell, seed=seed)
    generated = data == "generated"
    return [ScoreRow(data, target, e.score, published(target, e.name) if generated else None) for e in found]


def _prefixed(tell: Tell, before: str) -> Tell:
    """Return ``tell`` with a prefix."""
    return lambda text: tell(before + text)
