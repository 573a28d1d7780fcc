"""The study of predicted run times: traces, halves of them, a cap, and generated jobs at several loads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.read import read_workload
from wattqueue.model.plain_numbers import is_whole
from wattqueue.policy.oracles import marked_policy, oracles_of
from wattqueue.policy.policy import load_policy
from wattqueue.policy.rows import find_row
from wattqueue.report.document import Block, Table
from wattqueue_studies.frame.claim import ClaimTable
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples, change_percent, sweep
from wattqueue_studies.runtimes.choice import EASY, Choice, settings
from wattqueue_studies.runtimes.trial import ABOVE_IDLE_W, CAP_SHARE, METRICS, GeneratedCase, TraceCase, halves

TOLD = published("wattqueue_studies.runtimes")
"""Figures of another simulator (claims.toml)."""
PREDICTORS = ("last-two", "quantile", "alike", "nearest", "boosted", "true")
"""Run-time parts by the endings of their rows."""
POLICIES = (
    EASY,
    "easy-sjbf",
    "easy++",
    *(f"easy+rt-{name}" for name in PREDICTORS),
    *(f"easy-sjbf+rt-{name}" for name in PREDICTORS[1:]),
)
"""Rows of the study; shortest-first backfilling by the last two run times is ``easy++``."""
LOADS = (0.6, 0.85, 0.95)
"""Loads of the generated jobs; the cap is judged at the first."""


@dataclass(frozen=True, slots=True)
class RecordedTrace:
    """A trace and the nodes on which it is simulated."""

    path: Path
    nodes: int

    @classmethod
    def parse(cls, text: str) -> RecordedTrace:
        """Return FILE:NODES. Raises: InputError for another form."""
        file, _, nodes = text.rpartition(":")
        if not file or not is_whole(nodes) or int(nodes) < 1:
            raise InputError(f"{text!r} is no trace with its nodes", where="--trace", hint="write FILE:NODES")
        return cls(Path(file), int(nodes))

    @property
    def name(self) -> str:
        """Return what tables call it."""
        return f"{self.path.name.partition('.')[0]}, {self.nodes:,} nodes"


@dataclass(frozen=True, slots=True)
class SimulatedRunTimes:
    """Metrics of recorded traces and of generated jobs, and the choice on each trace."""

    recorded: Samples
    generated: Samples
    choices: Sequence[Choice]


@dataclass(frozen=True, slots=True)
class RunTimesStudy:
    """Run-time predictions against users' limits.

    Attributes:
        traces: Recorded traces with the nodes to simulate them on.
        seeds: Generated workloads per load; 0 for none.
        days: Length of a generated workload.
        threads: Simulations at a time.
        policies: Rows to simulate; EASY is always among them.
    """

    traces: Sequence[RecordedTrace] = ()
    seeds: int = 3
    days: float = 60.0
    threads: int = 2
    policies: Sequence[str] = POLICIES

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Simulate everything and show it.

        Raises: InputError for a trace that cannot be used, or neither traces nor seeds.
        """
        return self.report(self.simulate(progress))

    def simulate(self, progress: Progress | None = None) -> SimulatedRunTimes:
        """Simulate the traces, their halves and caps, the settings, and the generated jobs.

        Raises: InputError as ``run``, and PolicyError for an unknown policy.
        """
        for name in self.policies:
            find_row(name)  # a wrong name ends the study before its work
        if not self.traces and not self.seeds:
            raise InputError("nothing to simulate", where="--trace, --seeds", hint="give a trace, or seeds")
        policies = tuple(dict.fromkeys((EASY, *self.policies)))
        cases: dict[str, TraceCase] = {}
        of_halves: dict[str, tuple[str, str]] = {}
        for trace in self.traces:
            jobs = read_workload(trace.path).jobs
            cases[trace.name] = TraceCase(jobs, trace.nodes)
            of_halves[trace.name] = f"{trace.name}, first half", f"{trace.name}, second half"
            for name, half in zip(of_halves[trace.name], halves(jobs), strict=True):
                cases[name] = TraceCase(half, trace.nodes)
            cases[f"{trace.name}, cap of {CAP_SHARE:.0%}"] = TraceCase(jobs, trace.nodes, capped=True)
        recorded = generated = Samples({})
        if cases:
            recorded = sweep(TraceCase.draw, cases, policies, (0,), threads=self.threads, progress=progress)
        varied = (EASY, *settings())
        choices = []
        for recorded_name, pair in of_halves.items():
            each = {name: replace(cases[name], variants=settings()) for name in pair}
            choices.append(
                Choice(recorded_name, sweep(TraceCase.draw, each, varied, (0,), threads=self.threads), *pair)
            )
        if self.seeds:
            seeds = range(1, self.seeds + 1)
            generated = sweep(
                GeneratedCase.draw, self.loads(), policies, seeds, threads=self.threads, progress=progress
            )
        return SimulatedRunTimes(recorded, generated, choices)

    def loads(self) -> Mapping[str, GeneratedCase]:
        """Return the generated workloads by name, the one under the cap last."""
        found = {f"generated, load {load}": GeneratedCase(self.days, load) for load in LOADS}
        capped = f"generated, load {LOADS[0]}, {ABOVE_IDLE_W / 1e3:.0f} kW above idle"
        return {**found, capped: GeneratedCase(self.days, LOADS[0], capped=True)}

    def report(self, simulated: SimulatedRunTimes) -> StudyReport:
        """Return tables, the choice, where it harms, and the published figures."""
        claims = judged(simulated.recorded)
        both = [s for s in (simulated.recorded, simulated.generated) if s.values]
        parts: list[Block] = [setting_table(samples, setting) for samples in both for setting in samples.settings]
        parts += [choice.table() for choice in simulated.choices]
        figures: dict[str, Any] = {
            "traces": [{"file": trace.path.name, "nodes": trace.nodes} for trace in self.traces],
            "seeds": self.seeds,
            "days": self.days,
            "recorded": simulated.recorded.rows(),
            "generated": simulated.generated.rows(),
            "choices": [choice.document() for choice in simulated.choices],
        }
        jobs = f"{self.seeds} generated workloads of {self.days:g} days per load on Marconi100's 980 nodes"
        return TOLD.report(
            claims,
            about=f"{len(self.traces)} recorded traces; {jobs}. Recorded traces have no watts: 100 to 200 W a node.",
            lede=f"{len(self.policies)} policies. {claims.summary}.",
            parts=parts,
            more=[harm_table(both)],
            figures=figures,
            simulated=[*both, *(choice.samples for choice in simulated.choices)],
            origin="recorded traces, generated jobs",
        )


def judged(samples: Samples) -> ClaimTable:
    """Return the published figures of the workloads that were simulated; a trace is no draw, but certain."""
    ran, there = set(samples.policies), set(samples.settings)
    rows = [c.judge(samples) for c in TOLD.claims if set(c.on) <= there and c.policy in ran]
    return ClaimTable([replace(row, certain=True) for row in rows], TOLD.draws)


HARM_PERCENT = 5.0
"""Increase of a figure over EASY's that is listed as harm."""
HARMED = {"wait_s_mean": "mean", "wait_s_p95": "p95", "wait_s_p99": "p99", "wait_s_max": "greatest"}
"""Figures that are looked at for harm."""


def setting_table(samples: Samples, setting: str, note: str = "") -> Table:
    """Return all policies on one workload; of several draws the means."""
    rows = []
    for policy in samples.policies:
        values = [float(samples.of(setting, policy, metric).mean()) for metric in METRICS]
        cells = [f"{v:,.1f}" if metric == "bounded_slowdown_mean" else f"{v:,.0f}" for metric, v in
                 zip(METRICS, values, strict=True)]  # fmt: skip
        rows.append([marked_policy(policy), *cells])
    return Table(("policy", *METRICS.values()), rows, f"{setting}: waits in seconds", note)


def harm_table(every: Iterable[Samples]) -> Table:
    """Return where a policy without knowledge of the future is worse than EASY by ``HARM_PERCENT`` or more."""
    rows = [
        [f"{policy}, {setting}", *("–" if np.isnan(value) else f"{value:+.0f}" for value in changes)]
        for samples in every
        for setting, policy, changes in _changes(samples)
        if max(changes, default=0.0, key=lambda value: -np.inf if np.isnan(value) else value) >= HARM_PERCENT
    ]
    title = f"Where it harms: {HARM_PERCENT:g} % or more above EASY in one of these, per cent of change"
    note = "" if rows else "Nowhere."
    return Table(("policy, workload", *HARMED.values()), rows, title, note, key="harm")


def _changes(samples: Samples) -> Iterator[tuple[str, str, list[float]]]:
    """Yield setting, policy and the changes of its waits over EASY, oracles left out."""
    for setting in samples.settings:
        for policy in samples.policies:
            if policy == EASY or oracles_of(load_policy(policy)):
                continue
            pairs = [samples.pair(setting, policy, EASY, m) for m in HARMED]
            means = [[float(values.mean()) for values in pair] for pair in pairs]
            yield setting, policy, [change_percent(*pair) for pair in means]
