"""The question, and the way to its answer: read, check what can be checked, run every cap, draw the conclusions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from wattqueue.campaign.shared import Shared
from wattqueue.errors import InputError
from wattqueue.formats.cap import parse_cap
from wattqueue.formats.epoch import date_words, parse_date, trace_epoch_s
from wattqueue.formats.unusable import Unusable
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.policy.policy import Policy, policy_from_row
from wattqueue.sim.task import Task, policy_row, task_jobs, task_machine, watts_stated, with_hashes
from wattqueue.whatif.bill import Source, Tariff, read_tariff, require_cover
from wattqueue.whatif.caps import CapPoint, parse_caps
from wattqueue.whatif.digest import HOUR_S
from wattqueue.whatif.grid import CapCell, Inputs, run_grid
from wattqueue.whatif.run import Ran


@dataclass(frozen=True)
class Question:
    """What was asked, as text and numbers.

    ``task`` names workload and machine; its policy, estimator and cap are not used. ``estimators`` holds None
    for each policy's own. ``risk`` is a share of time. ``start`` is the date of the trace's time 0, or of the first
    submission where the trace counts in Unix time. ``at`` is the cap that the page looks at closely.
    """

    task: Task
    caps: str = "60%..100%"
    policies: tuple[str, ...] = ("easy",)
    estimators: tuple[str | None, ...] = (None,)
    risk: float = 0.01
    prices: Source | None = None
    intensity: Source | None = None
    start: str | None = None
    repair: bool = False
    at: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """Everything that the runs take, read and checked.

    ``epoch_s`` is the Unix time of the trace's 0 (None: nobody knows), ``zero_s`` where whole hours are counted from.
    """

    question: Question
    task: Task
    jobs: Jobs
    unusable: Unusable
    machine: Machine
    caps: tuple[CapPoint, ...]
    names: tuple[tuple[str, str | None], ...]
    epoch_s: float | None
    prices: Tariff | None
    intensity: Tariff | None

    @property
    def zero_s(self) -> float:
        """Where whole hours begin, on the trace's clock."""
        return -(self.epoch_s % HOUR_S) if self.epoch_s is not None else 0.0

    def task_of(self, name: tuple[str, str | None]) -> Task:
        """The task of one configuration, a policy and its estimator."""
        return replace(self.task, policy=name[0], estimator=name[1])

    def policy(self, name: tuple[str, str | None]) -> Policy:
        """A fresh policy of one configuration: estimators keep what they learned."""
        return policy_from_row(name[0], policy_row(self.task_of(name)))

    def words(self, time_s: float) -> str:
        """A moment of the trace as people read it: its date where that is known."""
        if self.epoch_s is not None:
            return date_words(self.epoch_s + time_s)
        since = time_s - float(self.jobs.submit_s.min())
        return f"day {int(since // 86_400)}, {int(since % 86_400 // 3_600):02d}:{int(since % 3_600 // 60):02d}"


def prepare(question: Question) -> Setup:
    """Read the inputs, and refuse what cannot come to a good end before anything is run.

    Raises: InputError, MachineError or PolicyError.
    """
    if not 0 < question.risk < 1:
        raise InputError(f"a risk of {100 * question.risk:g} %", where="--risk", mend="above 0 and below 100 %")
    task = replace(question.task, policy=question.policies[0], estimator=question.estimators[0], cap=None)
    machine = task_machine(task)
    caps = _caps(question, machine)
    jobs, unusable = task_jobs(task)
    if not watts_stated(jobs, machine):
        raise InputError(
            "nobody says what anything draws: neither workload nor machine states watts",
            where=task.workload,
            mend="state --node-watts IDLE:MAX, or max_w in the machine file",
        )
    names = tuple((p, e) for p in question.policies for e in question.estimators)
    epoch = _epoch_s(question, jobs)
    tariffs = [
        read_tariff(source, epoch, repair=question.repair) if source else None
        for source in (question.prices, question.intensity)
    ]
    setup = Setup(question, with_hashes(task), jobs, unusable, machine, caps, names, epoch, *tariffs)
    for name in names:
        setup.policy(name)  # a wrong name is told now, not after minutes
    refuse_uncovered(setup, float(jobs.submit_s.max()))
    return setup


def refuse_uncovered(setup: Setup, end_s: float) -> None:
    """Raises: InputError for a series that does not cover the span from the first submission to ``end_s``."""
    begin = float(setup.jobs.submit_s.min())
    for tariff in (setup.prices, setup.intensity):
        if tariff is not None:
            require_cover(tariff, begin, end_s, (setup.words(begin), setup.words(end_s)))


def _caps(question: Question, machine: Machine) -> tuple[CapPoint, ...]:
    """The caps to try, and the one to look at among them."""
    caps = parse_caps(question.caps, machine)
    if question.at is not None and _row_of(question.at, caps, machine) is None:
        raise InputError(
            f"{question.at} is not among the caps tried",
            where="--at",
            mend=f"one of {', '.join(c.text for c in caps)}",
        )
    return caps


def _row_of(text: str, caps: tuple[CapPoint, ...], machine: Machine) -> int | None:
    watts = float(parse_cap(text, machine).cap_w[0])
    near = [k for k, cap in enumerate(caps) if np.isclose(cap.cap_w, watts, rtol=1e-9)]
    return near[0] if near else None


def asked_row(setup: Setup) -> int | None:
    """The row of the cap that ``--at`` names."""
    at = setup.question.at
    return None if at is None else _row_of(at, setup.caps, setup.machine)


def _epoch_s(question: Question, jobs: Jobs) -> float | None:
    from wattqueue.workload.generated import is_generated

    generated = is_generated(question.task.workload)
    own = None if generated else trace_epoch_s(Path(question.task.workload), jobs.submit_s)
    if question.start is None:
        return own
    begin = parse_date(question.start, "--start")
    return begin - float(jobs.submit_s.min()) if own == 0.0 else begin


def ask(
    setup: Setup, shared: Shared, *, workers: int | None = None, tell: Callable[[int, int], None] | None = None
) -> tuple[tuple[Ran, ...], ...]:
    """Run every configuration without a cap and under every cap: configurations x (1 + caps), uncapped first.

    ``shared`` is a folder for the campaign's columns, which the runs keep mapped; ``workers`` counts processes
    (default: one a core). Raises: CampaignError for a run that cannot be done.
    """
    inputs = Inputs(shared.put_jobs(setup.jobs), _put_breaks(setup, shared), setup.machine, setup.zero_s)
    limits = (float("inf"), *(cap.cap_w for cap in setup.caps))
    cells = [
        CapCell(inputs, name[0], policy_row(setup.task_of(name)), cap_w) for name in setup.names for cap_w in limits
    ]
    done = run_grid(cells, shared, workers=workers, jobs=len(setup.jobs), tell=tell)
    return tuple(tuple(done[k : k + len(limits)]) for k in range(0, len(cells), len(limits)))


def _put_breaks(setup: Setup, shared: Shared) -> str:
    """Times from the first submission on at which a price or intensity changes; empty without such a series."""
    begin = float(setup.jobs.submit_s.min())
    found = [t.series.time_s[t.series.time_s > begin] for t in (setup.prices, setup.intensity) if t is not None]
    return shared.put_arrays({"time_s": np.unique(np.concatenate(found))}) if found else ""
