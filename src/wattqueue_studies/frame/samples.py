"""Metrics of policies in several settings, draw by draw, and the simulations that give them.

A *draw* is one random realisation of a study's workload: a seed, or a window of a trace. All policies run on the same
draws, so that differences are paired. A *setting* is what a study varies besides the policy: machine and mix of
applications, or the cap.

``never_ran_tables`` says which runs of a study left jobs, and why: those are compared with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from wattqueue.errors import EngineError, InputError
from wattqueue.model.comparability import OPEN, Gate, WorkDone, gate_of_groups
from wattqueue.model.jobs import Floats
from wattqueue.report.compare.stats import Estimate, estimate
from wattqueue.report.document import Table

if TYPE_CHECKING:
    from wattqueue.sim.engine import Run

T = TypeVar("T")
Trial = Callable[[str], Mapping[str, float]]
"""One drawn workload: simulates it under the named policy and returns the metrics, as ``TrialFigures`` for a run."""
Progress = Callable[[int, int], None]
"""Called with (finished, all) simulations."""
RESAMPLES, FEWEST_RESAMPLED = 2_000, 8
"""Resamples of a bootstrap interval, and draws that it needs."""


@dataclass(frozen=True, slots=True, eq=False)
class TrialFigures(Mapping[str, float]):
    """Metrics of one run, and the work that it did, which decides what they may be compared with."""

    metrics: Mapping[str, float]
    work: WorkDone

    @classmethod
    def of(cls, run: Run, metrics: Mapping[str, float]) -> TrialFigures:
        """Return the metrics of a run."""
        return cls(metrics, WorkDone.of(run.jobs, run.schedule))

    def __getitem__(self, name: str) -> float:
        return self.metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Metrics by (setting, policy, metric); equal positions are equal draws. Shapes (draws,)."""

    values: Mapping[tuple[str, str, str], Floats]
    work: Mapping[tuple[str, str], tuple[WorkDone, ...]] = field(default_factory=dict)
    """What the runs of each (setting, policy) did, draw by draw. Without it they are compared with nothing."""
    scores: bool = False
    """Whether no jobs were run: figures of the same draws, such as errors of predictions, may be compared."""

    @property
    def settings(self) -> list[str]:
        """Return the settings in their order."""
        return list(dict.fromkeys(setting for setting, _, _ in self.values))

    @property
    def policies(self) -> list[str]:
        """Return the policies in their order."""
        return list(dict.fromkeys(policy for _, policy, _ in self.values))

    def of(self, setting: str, policy: str, metric: str) -> Floats:
        """Return one metric, draw by draw. Shape (draws,)."""
        return self.values[setting, policy, metric]

    def gate(self, setting: str, policy: str, base: str) -> Gate:
        """Return whether a policy and a base did the same work in every draw (rule 18 of docs/semantics.md)."""
        if self.scores:
            return OPEN
        did = [dict(enumerate(self.work.get((setting, p), ()))) for p in (base, policy)]
        return gate_of_groups(did[0], did[1], (base, policy))

    def pair(self, setting: str, policy: str, base: str, metric: str) -> tuple[Floats, Floats]:
        """Return one metric of a policy and of the base that it is compared with, draw by draw. Shapes (draws,).

        NaN for the policy where the two did other work in some draw.
        """
        own, other = self.of(setting, policy, metric), self.of(setting, base, metric)
        return own if self.gate(setting, policy, base).allows(metric) else np.full(len(own), np.nan), other

    def grid(self, policy: str, metric: str) -> Floats:
        """Return one metric over all settings of the policy. Shape (draws, settings)."""
        return np.stack([v for (_, p, m), v in self.values.items() if (p, m) == (policy, metric)], axis=1)

    def rows(self, policy: str = "policy") -> list[dict[str, object]]:
        """Return every metric draw by draw, for JSON, NaN as None; ``policy`` is the key of the policy's name."""
        return [
            {"setting": s, policy: p, "metric": m, "values": [None if np.isnan(v) else v for v in values.tolist()]}
            for (s, p, m), values in self.values.items()
        ]

    def take(self, keep: Sequence[int]) -> Samples:
        """Return some of the draws."""
        work = {key: tuple(did[k] for k in keep) for key, did in self.work.items()}
        return Samples({key: v[list(keep)] for key, v in self.values.items()}, work)

    def renamed(self, names: Mapping[str, str]) -> Samples:
        """Return the same metrics with other names of policies; those that are not in ``names`` are left out."""
        work = {(s, names[p]): did for (s, p), did in self.work.items() if p in names}
        return Samples({(s, names[p], m): v for (s, p, m), v in self.values.items() if p in names}, work)

    def joined(self, other: Samples) -> Samples:
        """Return these and other metrics of the same draws."""
        return Samples({**self.values, **other.values}, {**self.work, **other.work})

    def with_values(self, values: Mapping[tuple[str, str, str], Floats]) -> Samples:
        """Return the same runs with other metrics."""
        return replace(self, values=values)


def sweep(
    draw: Callable[[T, int], Trial],
    settings: Mapping[str, T],
    policies: Sequence[str],
    seeds: Sequence[int],
    *,
    threads: int = 2,
    progress: Progress | None = None,
    scores: bool = False,
) -> Samples:
    """Simulate every setting under every policy for every seed; the result does not depend on the threads.

    Args:
        draw: Makes the workload of a setting and a seed; called once for all policies.
        settings: What is varied, by name.
        policies: Names of the policies.
        seeds: Seeds of the workloads: the draws.
        threads: Simulations at a time. Compiled kernels release the interpreter's lock.
        progress: Called with (finished, all) simulations.
        scores: Whether no jobs are run (``Samples.scores``).

    A signal (Ctrl-C, SIGTERM) ends the sweep after the simulations that are running.

    Raises: InputError for no seed; EngineError for runs that do not say what work they did.
    """
    if not seeds:
        raise InputError("a study needs a seed", where="seeds", hint="give 1 or more; intervals need 2")
    tasks = [(setting, seed) for setting in settings for seed in seeds]
    stop = Event()

    def perform(task: tuple[str, int]) -> dict[str, Mapping[str, float]]:
        """Simulate one workload under all policies; fewer once ``stop`` is set."""
        trial = draw(settings[task[0]], task[1])
        return {policy: trial(policy) for policy in policies if not stop.is_set()}

    done = []
    with ThreadPoolExecutor(threads) as pool:
        try:
            for measured in pool.map(perform, tasks):
                done.append(measured)
                if progress:
                    progress(len(done) * len(policies), len(tasks) * len(policies))
        finally:
            stop.set()  # leaving the pool waits for its threads: they end after the current simulation
    values, work = {}, {}
    for i, setting in enumerate(settings):
        runs = done[i * len(seeds) : (i + 1) * len(seeds)]
        for policy in policies:
            of_policy = [run[policy] for run in runs]
            for metric in of_policy[0]:
                values[setting, policy, metric] = np.array([figures[metric] for figures in of_policy])
            if not scores:
                work[setting, policy] = tuple(map(_work, of_policy))
    return Samples(values, work, scores)


def _work(figures: Mapping[str, float]) -> WorkDone:
    """Return the work of a run. Raises: EngineError if a trial does not state it."""
    if not isinstance(figures, TrialFigures):
        raise EngineError("a trial returns figures of a run without its work", hint="return TrialFigures")
    return figures.work


def change_percent(value: float, base: float) -> float:
    """Return the change of ``value`` against ``base`` in per cent, NaN for a base of 0."""
    return 100 * (float(value) / float(base) - 1) if base else float("nan")


def change(own: Floats, base: Floats) -> Estimate:
    """Return the change of means in per cent with the 95 % interval of the paired changes. Shapes (draws,).

    The centre is the change of means, as papers compute it; the interval is that of the changes draw by draw, moved
    there. One draw has no interval, nor has a change over a base that is 0 in a draw.
    """
    centre = change_percent(own.mean(), base.mean())
    if not base.all():
        return Estimate(len(own), centre)
    paired = estimate(100 * (own / base - 1))
    if paired.low is None or paired.high is None:
        return Estimate(paired.n, centre)
    return Estimate(paired.n, centre, centre + paired.low - paired.mean, centre + paired.high - paired.mean)


def resampled(values: Floats, statistic: Callable[[Floats], float]) -> Estimate:
    """Return a statistic of all values with a 95 % bootstrap interval over draws. Shape (draws, settings).

    For what is no mean over draws, such as a median over all runs: draws are resampled with all of their settings,
    since those of one draw are not independent. Fewer than ``FEWEST_RESAMPLED`` draws have no interval: it would be
    too narrow.
    """
    centre, n = float(statistic(values)), len(values)
    if n < FEWEST_RESAMPLED:
        return Estimate(n, centre)
    rng = np.random.default_rng(0)  # a figure of the same draws is the same figure
    rows = rng.integers(0, n, (RESAMPLES, n))
    low, high = np.percentile([statistic(values[row]) for row in rows], (2.5, 97.5))
    return Estimate(n, centre, float(low), float(high))


def extreme(found: Iterable[Estimate], greatest: bool) -> Estimate:
    """Return the estimate with the greatest (or least) mean: what "up to" says where a text names no workload.

    Estimates that are NaN, of runs that did different work, are left out, unless all are.
    """
    every = list(found)
    known = [e for e in every if not np.isnan(e.mean)]
    return (max if greatest else min)(known or every, key=lambda e: e.mean)


TITLE = "Jobs that never ran"
NOTE = "Sums over all draws. Figures of runs that did different work are not compared: – stands in their place."
DIFFERENT_WORK = "the runs did different work: see the table of jobs that never ran"
"""Reason of a claim whose figure does not exist."""


def never_ran_rows(simulated: Iterable[Samples]) -> list[dict[str, Any]]:
    """Return a row for each (setting, policy) with jobs that never ran, for JSON."""
    return [
        {
            "setting": setting,
            "policy": policy,
            "jobs": did.jobs,
            "jobs_never_ran": did.never_ran,
            "reasons": did.reasons,
        }
        for setting, policy, did in _left(simulated)
    ]


def never_ran_tables(simulated: Sequence[Samples]) -> list[Table]:
    """Return the table of jobs that never ran; none where all jobs of all runs did."""
    rows = [[f"{policy}, {setting}", did.text] for setting, policy, did in _left(simulated)]
    heads = ("policy, workload", "never ran")
    return [Table(heads, rows, TITLE, NOTE, words=(1,), key="never-ran")] if rows else []


def _left(simulated: Iterable[Samples]) -> Iterator[tuple[str, str, WorkDone]]:
    """Yield setting, policy and the work of all draws together where jobs never ran."""
    for samples in simulated:
        for (setting, policy), did in samples.work.items():
            whole = WorkDone.total(did)
            if whole.never_ran:
                yield setting, policy, whole
