"""Is the share of time above a cap that was asked for kept, month by month?

Beyond paper 4. Generated traces of Marconi100 under one constant cap below what the machine would draw: jobs
wait all the time. The first month is for learning; each of the months after it is judged by itself: seconds above
the cap (true power, profiles sampled in the run each ``PHASES_S``) over its length. A policy that was asked for 1 %
keeps it in a month with at most 1 %. How many months did is given with a Clopper-Pearson interval, and what was
left below the cap stands beside it: a guarantee is worth what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.machine.file import load_machine
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import cap_sums
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps
from wattqueue.policy.policy import load_policy
from wattqueue.report.compare.stats import LEVEL, estimate
from wattqueue.sim.engine import simulate
from wattqueue.study.frame.claim import ClaimTable
from wattqueue.study.frame.report import Part, Progress, StudyReport
from wattqueue.study.frame.samples import Samples, Trial, sweep
from wattqueue.study.frame.table import Table, with_interval
from wattqueue.study.powercap.cell import HIGHEST_DYNAMIC_W, MACHINE
from wattqueue.study.powercap.months import habits_break, with_ramps
from wattqueue.workload.cycle import DAY_S
from wattqueue.workload.marconi import generate

MONTH_DAYS = 30
"""Days of a month."""
MONTHS = 3
"""Months of a trace that are judged."""
PHASES_S = 120.0
"""Seconds between two samples of the jobs' power profiles in a run."""
FIRST_SEED = 1_001
"""Of the traces; the ledger's settings were chosen on traces of seeds 1 to 3."""
ASKED = {
    "easy+pc-adaptive-1": 1.0,
    "easy+pc-chance-1": 1.0,
    "easy+pc-adaptive-0.1": 0.1,
    "easy+pc-chance-0.1": 0.1,
    "easy+pc-max": 1.0,
}
"""Per cent of the time that each policy was asked to stay within; ``max`` promises nothing, and is judged by 1 %."""


@dataclass(frozen=True, slots=True)
class GuaranteeStudy:
    """Months under a constant cap.

    Attributes:
        traces: Generated traces of each kind.
        months: Months of each trace that are judged; one more goes before them.
        cap_percent: Cap in per cent of the highest dynamic power.
        load: Work of a trace over what the machine can do.
        ramps: Power of a real machine over time, for the months with ramps; None leaves these out.
        policies: Names of the policies, of ``ASKED``.
        threads: Simulations at a time.
    """

    traces: int = 20
    months: int = MONTHS
    cap_percent: float = 40.0
    load: float = 0.8
    ramps: Steps | None = None
    policies: Sequence[str] = tuple(ASKED)
    threads: int = 2

    def simulate(self, progress: Progress | None = None) -> Samples:
        """Run every trace under every policy. Raises: InputError for no trace, or no month."""
        if self.traces < 1 or self.months < 1:
            raise InputError("months to judge need a trace and a month", where="traces, months", hint="1 or more")
        seeds = range(FIRST_SEED, FIRST_SEED + self.traces)
        return sweep(self._trial, self.kinds(), self.policies, seeds, threads=self.threads, progress=progress)

    def kinds(self) -> dict[str, Callable[[int], Jobs]]:
        """Return what makes a trace of each kind from a seed."""
        nodes, days, load = load_machine(MACHINE).units, self.days, self.load

        def plain(seed: int) -> Jobs:
            """Generate a trace as Marconi100's."""
            return generate(np.random.default_rng(seed), days=days, load=load, nodes=nodes)

        kinds: dict[str, Callable[[int], Jobs]] = {
            "generated": plain,
            "habits break": lambda seed: habits_break(seed, days, load, nodes, days / 2 * DAY_S),
        }
        if self.ramps is not None:
            ramps = self.ramps
            kinds["real ramps"] = lambda seed: with_ramps(plain(seed), ramps, days)
        return kinds

    @property
    def days(self) -> int:
        """Return the length of a trace."""
        return MONTH_DAYS * (1 + self.months)

    def _trial(self, make: Callable[[int], Jobs], seed: int) -> Trial:
        """Return what simulates one trace under a policy."""
        jobs, machine = make(seed), load_machine(MACHINE)
        cap = Cap.constant(self.cap_percent / 100.0 * HIGHEST_DYNAMIC_W)
        return lambda policy: monthly(jobs, machine, policy, cap, self.months)

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Simulate, and count the months that kept what was asked."""
        return self.report(self.simulate(progress))

    def report(self, samples: Samples) -> StudyReport:
        """Return a table for each kind of trace."""
        kept = {kind: {p: judged(samples, kind, p) for p in samples.policies} for kind in samples.settings}
        parts: list[Part] = [month_table(samples, kind, kept[kind]) for kind in samples.settings]
        lede = "; ".join(
            f"{policy}: {sum(found <= ASKED[policy])} of {len(found)} months"
            for policy, found in next(iter(kept.values())).items()
        )
        figures = {
            "months": {kind: {p: v.tolist() for p, v in by.items()} for kind, by in kept.items()},
            "rows": samples.rows(),
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


def monthly(jobs: Jobs, machine: Machine, policy: str, cap: Cap, months: int) -> Mapping[str, float]:
    """Return figures of a run over all judged months, and the time above the cap in each of them, in per cent."""
    run = simulate(jobs, machine, load_policy(policy), cap=cap, phases_s=PHASES_S)
    begin, found = MONTH_DAYS * DAY_S, {}
    for month in range(months):
        sums = cap_sums(run.power, machine, cap, begin + month * begin, begin + (month + 1) * begin)
        found[f"over_time_percent {month + 1}"] = 100.0 * sums.over_s / sums.capped_s
    end = (1 + months) * begin
    whole = cap_sums(run.power, machine, cap, begin, end)
    watts = Steps(run.power.time_s, run.power.scope_w(machine.cap_scope))
    allowed = float(cap.cap_w[0]) * (end - begin)
    left = allowed - watts.integral(begin, end) + whole.over_j
    return found | {
        "under_percent": 100.0 * left / allowed,
        "over_percent": 100.0 * whole.over_j / allowed,
        "excess_percent": 100.0 * whole.overshoot_w / float(cap.cap_w[0]),
        "wait_h": float(np.nanmean(run.schedule.start_s - jobs.submit_s)) / 3600.0,
    }


def judged(samples: Samples, kind: str, policy: str) -> Floats:
    """Return the time above the cap of every month in per cent. Shape (traces * months,)."""
    names = [m for s, p, m in samples.values if (s, p) == (kind, policy) and m.startswith("over_time_percent")]
    return np.concatenate([samples.of(kind, policy, name) for name in names])


def month_table(samples: Samples, kind: str, kept: Mapping[str, Floats]) -> Table:
    """Return the months that kept what was asked, and what was left, by policy."""
    rows = []
    for policy, over in kept.items():
        good = int((over <= ASKED[policy]).sum())
        low, high = clopper_pearson(good, len(over))
        left = estimate(samples.of(kind, policy, "under_percent"))
        rows.append([
            policy, f"{ASKED[policy]:g}", f"{over.mean():.2f}", f"{over.max():.2f}", f"{good} of {len(over)}",
            f"{100 * low:.0f} to {100 * high:.0f}", with_interval(left, sign=""),
            f"{samples.of(kind, policy, 'excess_percent').max():.0f}",
            f"{samples.of(kind, policy, 'wait_h').mean():.0f}",
        ])  # fmt: skip
    heads = (
        "policy", "asked,\n% of time", "above,\nmean", "worst\nmonth", "months\nkept", "95 %\ninterval, %",
        "left\nbelow, %", "highest\nexcess, %", "mean\nwait, h",
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
