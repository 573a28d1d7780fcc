"""What the jobs of a run were counted at, what they truly drew, and how often domains are above their limits for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.domain_load import added_w, domain_loads
from wattqueue.model.jobs import Floats
from wattqueue.plan.prepare import PlanSetup
from wattqueue.plan.ratios import Correlation, RatioLaw, Scores, fit_correlation, phi
from wattqueue.plan.risk import Exceedance, chunks, exceedance, resampled_days
from wattqueue.sim.engine import Run


@dataclass(frozen=True, eq=False)
class RunTruth:
    """The jobs of a run. Shapes (n,); where a job never ran, its watts are 0."""

    run: Run
    counted_w: Floats
    """Watts of a unit that the ledger counted at the start."""
    drawn_w: Floats
    """Watts of a unit in truth, rising: parts of its run where these are known, else one part. Shape (n, parts)."""
    most_w: Floats
    """The most that a unit of the job's partition is known to draw: stated, or measured above it."""
    day: NDArray[np.int64]
    """The day on which the job started."""
    edge_s: Floats
    """Begin of each day, and the end of the last; from the first submission to the last start. Shape (days + 1,)."""

    @classmethod
    def of(cls, run: Run, setup: PlanSetup, nodes: int) -> RunTruth:
        """Return the jobs of a run of so many nodes."""
        plan, jobs, machine = run.schedule, run.jobs, run.machine
        ran, units = plan.ran, np.maximum(jobs.nodes, 1)
        part = np.where(ran, machine.option_partition[plan.option], 0)
        most = np.array(setup.greatest_unit_w)[part]
        length = np.where(ran, np.maximum(plan.end_s - plan.start_s, 1e-6), 1.0)
        mean = np.where(ran, np.nan_to_num(plan.energy_j) / length / units, 0.0)
        level = setup.measured.level_w if setup.physics is None else mean[:, None]
        counted = np.where(ran, plan.predicted_w / units, 0.0)
        first = float(jobs.submit_s.min(initial=np.inf))
        last = float(plan.start_s[ran].max(initial=first))
        day_s = setup.day_s(nodes)
        days = max(int((last - first) // day_s), 1)
        edge = np.asarray(first + day_s * np.arange(days + 1), np.float64)
        edge[-1] = max(last, first + 1.0) if days == 1 else edge[-1]
        start = np.where(ran, plan.start_s, first)
        day = np.clip(np.floor((start - first) / day_s), 0, days - 1).astype(np.int64)
        return cls(
            run,
            counted,
            np.where(ran[:, None], np.where(np.isnan(level), mean[:, None], level), 0.0),
            most,
            day,
            edge,
        )

    @property
    def rows(self) -> NDArray[np.int64]:
        """Return the jobs that ran and count watts."""
        return np.flatnonzero(self.run.schedule.ran & (self.counted_w > 0))

    @property
    def ratio(self) -> Floats:
        """Return drawn over counted watts of these. Shape (rows, parts)."""
        return np.asarray(self.drawn_w[self.rows] / self.counted_w[self.rows, None], np.float64)

    def net_w(self, unit_w: Floats) -> Floats:
        """Return what units that draw so much add to a domain beside idle. Shape (n, draws)."""
        return added_w(self.run.machine, self.run.schedule, unit_w)

    def correlation(self, seed: int) -> Correlation:
        """Return how far jobs of a day share their ratio."""
        return fit_correlation(self.ratio.mean(1), self.day[self.rows], np.random.default_rng((seed, 36)))


def exceedances(run: Run, setup: PlanSetup, nodes: int, factor: float) -> list[Exceedance]:
    """Return the time above the limits by two ways of drawing, at each correlation that the data cannot exclude.

    The ratios of other jobs say what another month may bring. Each job's own watts keep what belongs together in this
    one: wide jobs, users whose jobs draw more than was counted. Neither excludes the other, and the worst counts.

    ``factor`` multiplies what jobs draw.
    """
    truth, seed = RunTruth.of(run, setup, nodes), setup.task.seed
    schedule = run.schedule
    loads = domain_loads(run.machine, schedule, setup.growth.limits_w)
    days = len(truth.edge_s) - 1
    scores, resample = Scores(days, seed), resampled_days(days, seed)
    length, parts = schedule.end_s[truth.rows] - schedule.start_s[truth.rows], truth.drawn_w.shape[1]
    law = RatioLaw.of(truth.ratio.ravel(), np.repeat(length * run.jobs.nodes[truth.rows], parts))

    def others(rho: float) -> Iterator[Floats]:
        for some in chunks():
            ratio = law.at_scores(scores.of(truth.day, rho, some))
            yield truth.net_w(np.minimum(truth.counted_w[:, None] * ratio, truth.most_w[:, None]) * factor)

    def own(rho: float) -> Iterator[Floats]:
        if parts == 1:  # nothing to draw
            yield truth.net_w(truth.drawn_w * factor)
            return
        for some in chunks():
            part = (phi(scores.of(truth.day, rho, some)) * parts).astype(np.int64)
            yield truth.net_w(np.take_along_axis(truth.drawn_w, np.minimum(part, parts - 1), 1) * factor)

    tried = truth.correlation(seed).tried
    cases = [*((others, rho) for rho in tried), *((own, rho) for rho in (tried if parts > 1 else tried[:1]))]
    span = schedule.start_s, schedule.end_s
    return [
        exceedance(loads, span, draws(rho), truth.edge_s, rho, own=draws is own, resample=resample)
        for draws, rho in cases
    ]
