"""Read the question, check what can be checked before the runs, and run every cap.

``Question`` holds the options of the command line as text and numbers; ``prepare`` turns it into a ``Setup`` of
tables and parsed values, or refuses it; ``run_caps`` runs all cells. A run of many caps takes minutes, so every error
that can be found from the inputs alone is raised by ``prepare``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from wattqueue.campaign.shared import Shared
from wattqueue.errors import InputError
from wattqueue.formats.cap import parse_cap
from wattqueue.formats.epoch import date_words, epoch_of
from wattqueue.formats.tariff import AskedSource, Tariff, read_tariff, require_cover
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import Workload
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.physics import Physics
from wattqueue.parts.memory import with_needed_units, with_units
from wattqueue.policy.for_machine import expansion
from wattqueue.policy.policy import policy_from_row
from wattqueue.policy.registry import Policy
from wattqueue.runs.perform import watts_stated
from wattqueue.runs.physics import physics_of
from wattqueue.runs.task import Task, machine_of, policy_row, task_workload, with_hashes
from wattqueue.sim.physics import true_figures
from wattqueue.whatif.caps import CapPoint, parse_caps
from wattqueue.whatif.grid import CapCell, GridInputs, run_grid
from wattqueue.whatif.run import HOUR_S, RunSummary

DAY_S = 86_400.0


@dataclass(frozen=True)
class Question:
    """The options of one ``whatif`` call.

    Attributes:
        task: Workload and machine. Its policy, estimator and cap are not used.
        caps: Caps to try, in the syntax of ``caps.parse_caps``.
        policies: Names of policies.
        estimators: Estimators to combine with each policy; None is the policy's own.
        risk: Accepted share of time above the cap, between 0 and 1.
        prices: Price series, None without one.
        intensity: Series of carbon intensity, None without one.
        start: Date of the trace's time 0, or of the first submission where the trace counts in Unix time.
        repair: Whether dates with a wrong UTC offset are corrected from their neighbours.
        detail_cap: The cap that the page shows in detail, as text; None for the default of ``Curve.detail_row``.
    """

    task: Task
    caps: str = "60%..100%"
    policies: tuple[str, ...] = ("easy",)
    estimators: tuple[str | None, ...] = (None,)
    risk: float = 0.01
    prices: AskedSource | None = None
    intensity: AskedSource | None = None
    start: str | None = None
    repair: bool = False
    detail_cap: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """Everything that the runs take, read and checked.

    Attributes:
        question: The options as they were given.
        task: The task with the hashes of its input files, for the record in whatif.json.
        jobs: Workload.
        unusable: Rows of the trace that were left out.
        machine: Machine, with its cap scope.
        caps: Caps to try, the lowest first.
        names: Configurations as (policy, estimator); None is the policy's own estimator.
        epoch_s: Unix time of the trace's 0; None where the trace brings no dates and none were given.
        prices: Prices on the trace's clock, None without a series.
        intensity: Carbon intensities on the trace's clock, None without a series.
        physics: What files say of the truth; None for the trace and the machine's exponents.
        widened: Jobs that get more nodes than they ask for, for their memory; ``jobs`` has these nodes.
        known_w: Watts of one unit that trace or physics state for each job, NaN for neither. Shape (n,), or None.
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
    widened: int = 0
    physics: Physics | None = None
    known_w: Floats | None = None

    @property
    def zero_s(self) -> float:
        """Return where whole hours begin on the trace's clock, so that "14:00" is 14:00 where dates are known."""
        return -(self.epoch_s % HOUR_S) if self.epoch_s is not None else 0.0

    @property
    def origin_s(self) -> float:
        """Return the whole hour at or before the first submission: where day 1 begins where no dates are known.

        Hours of submission begin at whole hours of the clock, so the first one may begin before the first submission.
        Counting from here keeps every hour at or after day 1, 00:00.
        """
        begin = float(self.jobs.submit_s.min())
        return self.zero_s + (begin - self.zero_s) // HOUR_S * HOUR_S

    def task_of(self, name: tuple[str, str | None]) -> Task:
        """Return the task of one configuration."""
        return replace(self.task, policy=name[0], estimator=name[1])

    def policy(self, name: tuple[str, str | None]) -> Policy:
        """Return a new policy object of one configuration.

        Estimators keep what they learned, so runs must not share one.
        """
        return policy_from_row(name[0], policy_row(self.task_of(name), self.machine))

    def expansions(self) -> list[str]:
        """Return what became of policies that follow from the machine, a sentence for each."""
        tasks = [self.task_of(name) for name in self.names]
        return [
            said for task in tasks
            for said in expansion(task.policy, policy_row(task), self.machine, policy_row(task, self.machine))
        ]  # fmt: skip

    def words(self, time_s: float) -> str:
        """Return a moment of the trace as text: its date if known, else the day since the first submission."""
        if self.epoch_s is not None:
            return date_words(self.epoch_s + time_s)
        since = time_s - self.origin_s
        return f"day {int(since // DAY_S) + 1}, {int(since % DAY_S // HOUR_S):02d}:{int(since % HOUR_S // 60):02d}"


def prepare(
    question: Question, *, machine: Machine | None = None, workload: Workload | None = None,
    physics: Physics | None = None,
) -> Setup:  # fmt: skip
    """Read the inputs and refuse a question that cannot be answered, before anything is run.

    ``machine``, ``workload`` and ``physics`` replace those that the question's task names.

    Raises:
        InputError: A value out of range, a cap that is not among those tried, or a series that does not cover the
            submissions.
        MachineError: A cap that the machine's figures cannot resolve.
        PolicyError: An unknown policy or estimator.
    """
    if not 0 < question.risk < 1:
        raise InputError(
            f"a risk of {100 * question.risk:g} %", where="--risk", hint="state one above 0 and below 100 %"
        )
    task = replace(question.task, policy=question.policies[0], estimator=question.estimators[0], cap=None)
    task, machine, workload = machine_of(task, machine, workload)
    caps = _caps(question, machine)
    truth = physics_of(task, machine, physics)
    workload = workload or task_workload(task)
    jobs, unusable = with_needed_units(workload.jobs, machine), workload.unusable
    widened = int((jobs.nodes > with_units(workload.jobs, machine).nodes).sum())
    known_w = jobs.max_power_w if jobs.mean_power_w is None else jobs.mean_power_w
    if truth is not None:  # what cannot be used is refused now, not by each run
        known_w = true_figures(truth, jobs, machine).recorded_w(jobs)
    if truth is None and not watts_stated(jobs, machine):
        raise InputError(
            "neither the workload nor the machine states watts",
            where=task.workload,
            hint="state --node-watts IDLE:MAX, or max_w in the machine file",
        )
    names = tuple((p, e) for p in question.policies for e in question.estimators)
    epoch = epoch_of(question.task.workload, jobs.submit_s, question.start)
    prices, intensity = (
        read_tariff(source, epoch, repair=question.repair) if source else None
        for source in (question.prices, question.intensity)
    )
    row = with_hashes(task, policy_row(task, machine), truth.files if truth is not None else ())
    found = epoch, prices, intensity, widened, truth, known_w
    setup = Setup(question, row, jobs, unusable, machine, caps, names, *found)
    for name in names:
        setup.policy(name)  # an unknown name is refused now, not after minutes of runs
    refuse_uncovered(setup, float(jobs.submit_s.max()))
    return setup


def refuse_uncovered(setup: Setup, end_s: float) -> None:
    """Raise InputError where a series does not cover the span from the first submission to ``end_s``."""
    begin = float(setup.jobs.submit_s.min())
    for tariff in (setup.prices, setup.intensity):
        if tariff is not None:
            require_cover(tariff, begin, end_s, (setup.words(begin), setup.words(end_s)))


def _caps(question: Question, machine: Machine) -> tuple[CapPoint, ...]:
    """Return the caps to try. Raises InputError where ``--detail-cap`` names none of them."""
    caps = parse_caps(question.caps, machine)
    if question.detail_cap is not None and _row_of(question.detail_cap, caps, machine) is None:
        raise InputError(
            f"{question.detail_cap} is not among the caps tried",
            where="--detail-cap",
            hint=f"one of {', '.join(c.text for c in caps)}",
        )
    return caps


def _row_of(text: str, caps: tuple[CapPoint, ...], machine: Machine) -> int | None:
    """Return the row of the cap that ``text`` describes, None where no cap has its watts."""
    watts = float(parse_cap(text, machine).cap_w[0])
    near = [k for k, cap in enumerate(caps) if np.isclose(cap.cap_w, watts, rtol=1e-9)]
    return near[0] if near else None


def asked_row(setup: Setup) -> int | None:
    """Return the row of the cap that ``--detail-cap`` names, None without ``--detail-cap``."""
    at = setup.question.detail_cap
    return None if at is None else _row_of(at, setup.caps, setup.machine)


def run_caps(
    setup: Setup, shared: Shared, *, workers: int | None = None, tell: Callable[[int, int], None] | None = None
) -> tuple[tuple[RunSummary, ...], ...]:
    """Run every configuration without a cap and under every cap.

    Args:
        setup: The inputs.
        shared: Folder for the columns of the campaign; the returned runs keep them memory-mapped.
        workers: Number of processes; None for one per core.
        tell: Called with (runs done, runs in all) after each run.

    Returns:
        One tuple per configuration: the run without a cap, then one run per cap, the lowest cap first.

    Raises:
        CampaignError: A run failed.
    """
    names = shared.put_jobs(setup.jobs), _put_breaks(setup, shared)
    inputs = GridInputs(*names, setup.machine, setup.zero_s, setup.physics)
    limits = (float("inf"), *(cap.cap_w for cap in setup.caps))
    rows = [policy_row(setup.task_of(name), setup.machine) for name in setup.names]
    cells = [
        CapCell(inputs, name[0], row, cap_w) for name, row in zip(setup.names, rows, strict=True) for cap_w in limits
    ]
    done = run_grid(cells, shared, workers=workers, jobs=len(setup.jobs), tell=tell)
    return tuple(tuple(done[k : k + len(limits)]) for k in range(0, len(cells), len(limits)))


def _put_breaks(setup: Setup, shared: Shared) -> str:
    """Save the times at which a price or intensity changes, and return their name.

    Only times after the first submission are kept; the name is empty where there are none. Runs start a new bin at
    each of them, so that the cost integral is exact (``bill``).
    """
    begin = float(setup.jobs.submit_s.min())
    found = [t.series.time_s[t.series.time_s > begin] for t in (setup.prices, setup.intensity) if t is not None]
    return shared.put_arrays({"time_s": np.unique(np.concatenate(found))}) if found else ""
