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

from wattqueue.evaluation.evaluate import Clock, evaluate_all
from wattqueue.evaluation.evaluation import PUBLISHED_ONLINE, TEXT
from wattqueue.formats.machine.file import load_machine
from wattqueue.formats.workload import Workload
from wattqueue.formats.workloads.archer2 import read_archer2
from wattqueue.formats.workloads.eurora import read_eurora
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.parts.timeline import WEEK_S, job_watts
from wattqueue.report.compare.stats import Estimate
from wattqueue.report.document import Block, Prose
from wattqueue.workload.marconi import WATTS_SHARES, generate
from wattqueue.workload.submissions import with_texts
from wattqueue.workload.users import DRIFT_D, SESSION_JOBS
from wattqueue_studies.frame.claim import ClaimTable, Judged
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples
from wattqueue_studies.prediction.scores import (
    SENSITIVITY,
    TITLES,
    PredictionScoreTables,
    ScoreRow,
    pictures,
    robust,
    score_table,
    sensitivity_table,
    watts_shares,
)

TOLD = published("wattqueue_studies.prediction")
"""What the paper prints (claims.toml)."""
SHORTEST_S = 60.0
"""Shorter runs are left out, section 6.1."""
REGRESSORS = ("linear", "random-forest", "linear-svr", "sgd")
"""Regressors of section 6.2."""
DRIFTS, SPREADS = (0.0, 1.0, 2.0), (0.5, 1.0, 2.0)
"""Axes of the sensitivity table: factors on the generator's drift and spread."""
CELLS = [(drift, spread) for drift in DRIFTS for spread in SPREADS]
"""Settings of the sensitivity table."""
SENSITIVITY_JOBS = 100_000
"""Jobs of each of its cells."""
KNOBS = tuple(f"history-mean:alpha={alpha}" for alpha in (0.5, 1, 2)) + tuple(
    f"history-mean:alpha={alpha}:window_s={days * 86_400}" for days in (1, 7, 30) for alpha in (1, 2)
)
"""Settings of the history estimator: exponent of the weights, window."""
TABLES = ("rows", "knobs", "sensitivity", "blinded")
"""Tables of the result, which are keys of its JSON."""
PLAUSIBLE_W = 200.0
"""A node of ARCHER2 (two EPYC 7742) does not run a benchmark below this: such a figure is an error of the counter."""
ERRORS = ("mape_percent", "mape_user_mean_percent")
"""Errors that the paper prints, as the scores call them."""
ORDER = "linear less history"
"""What the claims call the difference of the two."""
TEXTS_DATA = "generated, with generated texts"
TEXTS_GENERATED = (
    "Texts: job names and scripts are generated to say something about watts, to test what reads them. No trace at "
    "hand has scripts and measured watts, so that no error of an estimator that reads them is shown for real jobs."
)
DAILY = ":period_s=86400"
"""Option for Eurora, whose rows span five days: models that the paper trains weekly are trained daily there."""


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """Estimators to evaluate on one data set; ``jobs`` makes its jobs when it is their turn."""

    data: str
    jobs: Callable[[], Jobs]
    machine: Machine
    names: list[str]
    target: str = "mean"
    setting: dict[str, float] = field(default_factory=dict)

    def scored(self, clock: Clock, tell: Callable[[int, int], None], seed: int) -> list[ScoreRow]:
        """Evaluate them. Published errors stand beside generated data only, which represent the paper's trace."""
        found = evaluate_all(
            self.names, self.jobs(), self.machine, target=self.target, clock=clock, tell=tell, seed=seed
        )
        like_paper = self.data == "generated" and not self.setting
        return [
            ScoreRow(self.data, self.target, e.score, paper(self.target, e.name) if like_paper else None, self.setting)
            for e in found
        ]


@dataclass(frozen=True, slots=True)
class PredictionStudy:
    """The study of paper 4, sections 6.1 to 6.3, Figure 3.

    Attributes:
        clock: Returns CPU seconds.
        eurora: Jobs of Eurora with a predictor's watts (CSV), or None.
        archer2: Measured benchmarks on ARCHER2 (CSV), or None.
        jobs: Generated jobs of the main table; 523,204 are the paper's.
        seed: Seed of the generated jobs and of training.
        sensitivity_jobs: Generated jobs of each cell of the other tables, at most.
    """

    clock: Clock
    eurora: Path | None = None
    archer2: Path | None = None
    jobs: int = 523_204
    seed: int = 1
    sensitivity_jobs: int = SENSITIVITY_JOBS

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Evaluate, and show the scores beside the published errors."""
        return report(self.evaluate(progress))

    def evaluate(self, progress: Progress | None = None) -> PredictionScoreTables:
        """Evaluate on generated months, settings of history, drift and spread, and on real rows if given.

        Raises: InputError if a file cannot be used.
        """
        # Real rows are read first, so that a wrong path fails at once.
        eurora = None if self.eurora is None else read_eurora(self.eurora)
        archer2 = None if self.archer2 is None else read_archer2(self.archer2)
        machine = load_machine("marconi100")
        trace, short, shared = self._generated(self.jobs)
        gone = f"{short:,} runs under a minute, {shared:,} jobs on shared nodes (the generator has none)"
        notes = [
            f"Generated: {len(trace):,} jobs of {users(trace):,} users, seed {self.seed}.",
            f"Left out as in 6.1: {gone}.",
        ]
        if np.ptp(trace.submit_s) < WEEK_S:
            notes.append(
                "Generated: less than a week, so that no model was ever trained: regressors answer as history does."
            )
        fewer = min(self.jobs, self.sensitivity_jobs)

        def varied(drift: float, spread: float) -> Callable[[], Jobs]:
            return lambda: self._generated(fewer, drift, spread)[0]

        def hidden() -> Jobs:
            return blinded(self._generated(fewer)[0], np.random.default_rng(self.seed))

        names = list(SENSITIVITY)
        sets = [DataSet("generated", lambda: trace, machine, names_of(target), target) for target in TITLES]
        sets.append(DataSet("generated", lambda: trace, machine, list(KNOBS)))
        sets.append(DataSet("generated", hidden, machine, names))
        for drift, spread in CELLS:
            setting = {"drift": drift, "spread": spread}
            sets.append(DataSet("generated", varied(drift, spread), machine, names, setting=setting))
        sets += self._text_sets(fewer, machine)
        sets += real_sets(eurora, archer2)
        total, done = sum(len(one.names) for one in sets), [0]

        def tell(_done: int, _all: int) -> None:
            """Count an evaluation that begins."""
            if progress:
                progress(done[0], total)
            done[0] += 1

        found = [one.scored(self.clock, tell, self.seed) for one in sets]
        cells = found[4 : 4 + len(CELLS)]
        rows = [row for scores in (*found[:2], *found[4 + len(CELLS) :]) for row in scores]
        watts = {target: watts_shares(job_watts(trace, target)) for target in TITLES}
        about = {"jobs": len(trace), "users": users(trace), "seed": self.seed, "sensitivity_jobs": fewer}
        notes += [TEXTS_GENERATED, PUBLISHED_ONLINE]
        notes += real_notes(eurora, archer2)
        varied_rows = [r for cell in cells for r in cell]
        return PredictionScoreTables(rows, found[2], varied_rows, found[3], notes, about, watts)

    def _generated(self, jobs: int, drift: float = 1.0, spread: float = 1.0) -> tuple[Jobs, int, int]:
        """Generate jobs and filter them as in section 6.1."""
        return as_in_6_1(generate(np.random.default_rng(self.seed), jobs=jobs, drift=drift, spread=spread))

    def _text_sets(self, jobs: int, machine: Machine) -> list[DataSet]:
        """Return estimators on jobs with texts, and on the same with scripts that are another job's."""

        def with_scripts() -> Jobs:
            return with_texts(self._generated(jobs)[0], np.random.default_rng(self.seed))

        def shuffled() -> Jobs:
            made, rng = with_scripts(), np.random.default_rng(self.seed)
            other = rng.permutation(len(made))
            return replace(made, extra={**made.extra, "script": made.extra["script"][other]})

        return [
            DataSet(TEXTS_DATA, with_scripts, machine, ["last-job", "history-mean", "app-mean", "linear", TEXT]),
            DataSet("generated, scripts shuffled", shuffled, machine, [TEXT]),
        ]


def names_of(target: str) -> list[str]:
    """Return the estimators of the main table for one target."""
    by_app = ["app-mean"] if target == "mean" else []
    return ["maximum", "last-job", f"history-{target}", *by_app, *REGRESSORS, "gradient-quantiles"]


def paper(target: str, name: str) -> float | None:
    """Return the published MAPE in per cent, None if none is printed."""
    return TOLD.figure(f"{target} watts", name, "mape_percent")


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


def real_sets(eurora: Workload | None, archer2: Workload | None) -> list[DataSet]:
    """Return the real data sets that are given, with their estimators."""
    found: list[DataSet] = []
    unit = plain_machine(1)
    if eurora is not None:
        names = ["last-job", "history-mean", *(name + DAILY for name in (*REGRESSORS, "gradient-quantiles"))]
        kept = as_in_6_1(eurora.jobs)[0]
        found.append(DataSet("Eurora (a predictor's watts)", lambda: kept, unit, names))
    if archer2 is not None:
        names, watts = ["last-job", "profiled", "history-mean"], _watts(archer2)
        every, good = archer2.jobs.take(watts > 0), archer2.jobs.take(watts >= PLAUSIBLE_W)
        found.append(DataSet("ARCHER2 (measured)", lambda: every, unit, names))
        found.append(DataSet("ARCHER2 without glitches", lambda: good, unit, names))
    return found


def real_notes(eurora: Workload | None, archer2: Workload | None) -> list[str]:
    """Return remarks on the real data sets; missing ones are remarked."""
    notes = ["Eurora: not given (--eurora FILE)."]
    if eurora is not None:
        trace, short, _ = as_in_6_1(eurora.jobs)
        notes = [f"Eurora: {len(trace):,} jobs; {short:,} runs under a minute left out, jobs on shared nodes not."]
        notes += ["Eurora's rows span five days: models are trained every day.", *eurora.notes]
    if archer2 is None:
        return [*notes, "ARCHER2: not given (--archer2 FILE)."]
    steps, left_out, faults = len(archer2.jobs), len(archer2.unusable), int((_watts(archer2) < PLAUSIBLE_W).sum())
    notes.append(f"ARCHER2: {steps} steps with joules, {left_out} left out, too few to train on.")
    below = f"ARCHER2: {faults} steps below {PLAUSIBLE_W:g} W per node are errors of the counter"
    return [*notes, f"{below}: evaluated with and without them.", *archer2.notes]


def _watts(workload: Workload) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the mean watts of each job, 0 where there are none. Shape (n,)."""
    jobs = workload.jobs
    return np.zeros(len(jobs)) if jobs.mean_power_w is None else jobs.mean_power_w


def claims(found: PredictionScoreTables) -> ClaimTable:
    """Return published errors beside ours, and the order of history and regression.

    The order for mean watts is judged by the nine settings of drift and spread, from the least to the greatest
    difference; that of maximum watts has a single trace.
    """
    ahead = {t: {r.score.name: r.score.mape_percent for r in found.of(t)} for t in TITLES}
    values = {
        (f"{t} watts", r.score.name, metric): np.array([getattr(r.score, metric)])
        for t in TITLES
        for r in found.of(t)
        for metric in ERRORS
    }
    table = TOLD.judge(Samples(values))
    cells = [cell["linear"] - cell["history-mean"] for cell in found.cells().values()]
    ours = {
        "mean": Estimate(len(cells), float(np.mean(cells)), min(cells), max(cells)),
        "max": Estimate(1, ahead["max"]["linear"] - ahead["max"]["history-max"]),
    }
    orders = [Judged(c.claim, ours[c.on[0].removesuffix(" watts")]) for c in TOLD.claims if c.policy == ORDER]
    return replace(table, rows=[*table.rows, *orders])


def report(found: PredictionScoreTables) -> StudyReport:
    """Return what the scores show, in the order of the paper's questions."""
    told = claims(found)
    parts: list[Block] = [
        score_table([r for r in found.rows if (r.data, r.target) == which], f"{which[0]}, {which[1]} watts")
        for which in dict.fromkeys((r.data, r.target) for r in found.rows)
    ]
    parts.append(score_table(found.knobs, "Settings of the history estimator (generated, mean watts)"))
    parts += [sensitivity_table(found), Prose("What holds in every setting", [robust(found)])]
    hidden = "The same with sizes shuffled and one requested time for all: requests carry no information on watts"
    parts.append(score_table(found.blinded, hidden))
    shares = {name: f"{100 * getattr(WATTS_SHARES, name):.0f} %" for name in ("user", "app", "drift", "session", "job")}
    notes = [note.format(**shares, drift_days=f"{DRIFT_D:g}", session_jobs=f"{SESSION_JOBS:g}") for note in TOLD.notes]
    figures = found.about | {name: [r.document() for r in getattr(found, name)] for name in TABLES}
    return TOLD.report(
        told,
        about=f"prediction of a job's watts, {found.about['jobs']:,} generated jobs; CPU time per prediction",
        lede="How well a job's watts can be predicted, on **generated** jobs of Marconi100.",
        parts=parts,
        notes=[*notes, *(f"Note: {note}" for note in found.notes)],
        figures=figures | {"notes": found.notes},
        drawn=pictures(found),
    )
