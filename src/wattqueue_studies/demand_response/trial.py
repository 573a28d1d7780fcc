"""One workload under one load target: the paper's rules at several shares of consent, and what is measured.

The two workloads of paper 5 are generated from the ranges of Tables 2 to 4 (``generate``), with who of their users
consents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.machine.file import load_machine
from wattqueue.model.comparability import Gate, WorkDone, gate_of_pairs
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate
from wattqueue_studies.frame.samples import Trial, TrialFigures

DAY_S = 86_400.0
"""All jobs are submitted within 24 hours (section 5.1)."""
HIGH_W = 509e3
"""Maximum power limitation (Table 2), which the busy machine does not reach: 507,360 W."""


@dataclass(frozen=True, slots=True)
class Mix:
    """One of the two workloads: numbers and ranges of Tables 3 and 4. Distributions are assumed to be uniform."""

    jobs: int
    run_s: tuple[float, float]
    nodes: tuple[int, int]


MIXES = {"1": Mix(100, (7_200.0, 21_600.0), (1, 16)), "2": Mix(3_000, (100.0, 3_000.0), (1, 4))}
"""By number of the experiment."""


def generate(experiment: str, seed: int) -> tuple[Jobs, Floats]:
    """Return the jobs of an experiment, and a number in [0, 1) for each: jobs below a share are the allowed ones.

    The allowed jobs of a smaller share are among those of a greater one, so that shares are compared on paired draws.
    Walltimes are the run times, since none are stated.
    """
    mix, rng = MIXES[experiment], np.random.default_rng((int(experiment), seed))
    submit = np.sort(rng.uniform(0.0, DAY_S, mix.jobs))
    run, nodes = rng.uniform(*mix.run_s, mix.jobs), rng.integers(mix.nodes[0], mix.nodes[1] + 1, mix.jobs)
    watts = np.full(mix.jobs, load_machine("osaka").partitions[0].max_w)
    jobs = Jobs.build(submit, nodes, run, mean_power_w=watts, origin="generated")
    return jobs, rng.random(mix.jobs)


def with_share(jobs: Jobs, place: Floats, share: float) -> Jobs:
    """Return the jobs with a share of them allowed."""
    return replace(jobs, consent=Consent.build(len(jobs), allowed=(place < share).astype(np.float64)))


def machine_for(limit_w: float, alpha: float, clock: float = 0.0) -> Machine:
    """Return the machine with two frequencies: full speed, and how far DVFS goes.

    That is ``clock`` times full speed, or the highest at which the busy machine is within the limit: neither is in the
    text. Watts above idle go with the frequency to the power of ``alpha``.
    """
    machine = load_machine("osaka")
    part = machine.partitions[0]
    full_hz, idle_w, busy_w = part.frequencies_hz[0], machine.idle_w, part.units * ((part.max_w or 0.0) - part.idle_w)
    fits = [hz for hz in part.frequencies_hz if idle_w + busy_w * (hz / full_hz) ** alpha <= limit_w]
    chosen = clock * full_hz if clock else fits[0] if fits else part.frequencies_hz[-1]
    return replace(
        machine, partitions=(replace(part, frequencies_hz=tuple(dict.fromkeys((full_hz, chosen))), dvfs_alpha=alpha),)
    )


HOUR_S, KWH_J, KW = 3_600.0, 3.6e6, 1e3
WITHOUT = "no saving"
"""The same workload with 509 kW throughout: a simulator without fall-back, Figure 6(a)."""
REBOUND_S = 2 * HOUR_S
"""For so long after a target its rebound is looked for: assumed."""


PLAIN, EASY, PARKING = "dr-fcfs", "dr-easy", "dr-parking"
"""Rules of which others are variants: each is compared with its own kind without a target, at the same consent."""
RISE_S = 600.0
"""Seconds within which the greatest rise after a target is looked for: assumed."""


def named(rule: str, share: float) -> str:
    """Return the name of a rule at a share of consent."""
    return f"{rule} {100 * share:g} %"


@dataclass(frozen=True, slots=True)
class SavingCase:
    """An experiment with one load target.

    Attributes:
        experiment: Number of the experiment.
        begin_h: Begin of the target, in hours after the first submission can come.
        end_h: End of the target.
        limit_w: Watts while saving.
        alpha: Exponent of watts above idle in frequency.
        notice_s: Seconds before its begin at which the target is announced.
        ramp_w_per_s: Watts a second by which the limit may rise after it.
        clock: How far DVFS goes, of the highest clock; 0 for as far as the busy machine needs.
    """

    experiment: str
    begin_h: float
    end_h: float
    limit_w: float
    alpha: float
    notice_s: float = 0.0
    ramp_w_per_s: float = np.inf
    clock: float = 0.0

    @property
    def name(self) -> str:
        """Return the name of the setting."""
        hours = f"{self.begin_h:g}-{self.end_h:g} h"
        more = (", announced" if self.notice_s else "") + (f", clock {self.clock:g}" if self.clock else "")
        return f"experiment {self.experiment}, {hours}, {self.limit_w / KW:g} kW, alpha {self.alpha:g}{more}"

    @property
    def begin_s(self) -> float:
        """Return the begin of the target."""
        return self.begin_h * HOUR_S

    @property
    def end_s(self) -> float:
        """Return the end of the target."""
        return self.end_h * HOUR_S

    def runs(self, seed: int) -> Callable[[str, float], Run]:
        """Return the simulation of a rule at a share on the jobs of a seed; each is done once."""
        jobs, place = generate(self.experiment, seed)
        machine = machine_for(self.limit_w, self.alpha, self.clock)
        target = LoadTarget(
            self.begin_s, self.end_s, self.limit_w, notice_s=self.notice_s, ramp_w_per_s=self.ramp_w_per_s
        )
        targets = LoadTargets.of(target)
        kept: dict[str, Run] = {}

        def run(rule: str, share: float) -> Run:
            found = kept.get(named(rule, share))
            if found is None:
                policy = load_policy(rule)
                cap = Cap.constant(HIGH_W)
                found = simulate(with_share(jobs, place, share), machine, policy, cap=cap, targets=targets)
                kept[named(rule, share)] = found
            return found

        return run

    def draw(self, seed: int) -> Trial:
        """Return the simulation of a rule at a share, by name, on the jobs of a seed."""
        run = self.runs(seed)

        def trial(name: str) -> TrialFigures:
            if name == WITHOUT:
                base = without_saving(self.experiment, seed)
                return measured(self, base, base, base, base)
            rule, share_text, _ = name.split()
            share = float(share_text) / 100
            kind = EASY if rule.startswith(EASY) else PARKING if rule == PARKING else PLAIN
            if kind == PLAIN:
                base = without_saving(self.experiment, seed)
                return measured(self, run(rule, share), base, run(PLAIN, 0.0), base)
            base, free = (without_saving(self.experiment, seed, kind, each) for each in (share, 0.0))
            return measured(self, run(rule, share), base, run(kind, 0.0), free)

        return trial


@lru_cache(512)
def without_saving(experiment: str, seed: int, rule: str = PLAIN, share: float = 0.0) -> Run:
    """Return the run of a workload with 509 kW throughout: what added waits are compared with.

    First come, first served, or EASY ordered by the flag, where the share of consent matters without a target, too.
    """
    jobs, place = generate(experiment, seed)
    jobs = with_share(jobs, place, share) if share else jobs
    return simulate(jobs, machine_for(HIGH_W, 1.0), load_policy(rule), cap=Cap.constant(HIGH_W))


def measured(case: SavingCase, run: Run, base: Run, limited: Run, unlimited: Run) -> TrialFigures:
    """Return the figures of a run.

    ``base`` is the run without saving; ``limited`` and ``unlimited`` are with and without the limit where nobody
    consents, so without a fall-back: the added wait of a disallowed job between these is the limit's, what is beyond
    it the fall-back's, which may be negative. A figure of two runs that did different work is NaN.
    """
    wait, plain, capped, free = (each.schedule.start_s - each.jobs.submit_s for each in (run, base, limited, unlimited))
    added, by_limit = wait - plain, capped - free
    longer = (run.schedule.end_s - run.schedule.start_s) - base.jobs.runtime_s
    bound = disallowed(run.jobs)
    slowed = bound & (run.schedule.option != 0)
    saving, limit = same_work((base, run)), same_work((unlimited, limited))
    both = same_work((base, run), (unlimited, limited))
    everyone = np.ones(len(bound), np.bool_)
    figures = {
        "added_wait_s": mean_of(added, everyone, saving),
        "added_run_s": mean_of(longer, everyone, saving),
        "added_turnaround_s": mean_of(added + longer, everyone, saving),
        "bound_cap_s": mean_of(by_limit, bound, limit),
        "bound_fallback_s": mean_of(added - by_limit, bound, both),
        "allowed_wait_s": mean_of(added, ~bound, saving),
        "allowed_turnaround_s": mean_of(added + longer, ~bound, saving),
        "slowed_disallowed": float(slowed.sum()),
        "not_run": float((~run.schedule.ran).sum()),
        **power_figures(case, watts(run)),
        **saved_figures(case, watts(run), watts(base), saving),
    }
    return TrialFigures.of(run, figures)


def same_work(*pairs: tuple[Run, Run]) -> Gate:
    """Return whether the runs of each pair did the same work (rule 18 of docs/semantics.md)."""
    did = [tuple(WorkDone.of(run.jobs, run.schedule) for run in pair) for pair in pairs]
    return gate_of_pairs([(base, run) for base, run in did])


def disallowed(jobs: Jobs) -> NDArray[np.bool_]:
    """Return which jobs are not allowed. Shape (n,)."""
    return np.ones(len(jobs), np.bool_) if jobs.consent is None else ~jobs.consent.given


def mean_of(values: Floats, of: NDArray[np.bool_], through: Gate) -> float:
    """Return the mean difference of two runs over some jobs; NaN where the runs may not be compared.

    0 for no job: one that is not there waits no longer. Jobs that both runs rejected are left out.
    """
    if not through.open:
        return float("nan")
    found = values[of & ~np.isnan(values)]
    return float(found.mean()) if len(found) else 0.0


def watts(run: Run) -> Steps:
    """Return the power of the machine, idle again after the last end."""
    power = run.power
    return Steps(np.append(power.time_s, power.time_s[-1] + 1e-6), np.append(power.machine_w, run.machine.idle_w))


def power_figures(case: SavingCase, power: Steps) -> dict[str, float]:
    """Return how a run keeps its target, in the terms of field trials: time to target, hold, excess, rise after it."""
    begin, end, length = case.begin_s, case.end_s, case.end_s - case.begin_s
    values, lengths = power.within(begin, end)
    over = np.maximum(values - case.limit_w - 1e-6, 0.0)
    last_over = np.flatnonzero(over > 0)
    # From the begin to the last instant above the limit: from then on it is held to the end.
    to_target = float(lengths[: last_over[-1] + 1].sum()) if len(last_over) else 0.0
    rise = {"rise_kw": greatest_rise(power, end, end + REBOUND_S) / KW} if case.notice_s else {}
    return {
        **rise,
        "over_kw": float(over.max(initial=0.0)) / KW,
        "unserved_kwh": float((over * lengths).sum()) / KWH_J,
        "to_target_s": to_target,
        "held_percent": 100.0 * float(lengths[over == 0].sum()) / length,
    }


def saved_figures(case: SavingCase, power: Steps, base: Steps, through: Gate) -> dict[str, float]:
    """Return what a target gained against the run without it: freed energy, depth, rebound; NaN of different work."""
    begin, end = case.begin_s, case.end_s
    used, plain = power.integral(begin, end), base.integral(begin, end)
    after = (power.maximum(end, end + REBOUND_S), base.maximum(end, end + REBOUND_S))
    saved = {
        "freed_kwh": (plain - used) / KWH_J,
        "depth_percent": 100.0 * (1.0 - used / plain),
        "rebound_kw": (after[0] - after[1]) / KW,
    }
    return saved if through.open else dict.fromkeys(saved, float("nan"))


def greatest_rise(power: Steps, begin_s: float, end_s: float) -> float:
    """Return the most watts by which power rises within ``RISE_S`` between two times."""
    time = np.concatenate(([begin_s], power.time_s[(power.time_s > begin_s) & (power.time_s < end_s)]))
    watts = power.at(time)
    least = [watts[(time >= t - RISE_S) & (time <= t)].min() for t in time]
    return float((watts - least).max())
