"""The eight interfaces of a policy's parts, corrections of its estimator, and the values that they exchange.

A policy has one part for each of eight choices (controls: any number). Each choice has one protocol, here or, where it
is given a view of the present, in ``run_contracts``::

    estimator  Estimator     what will a job draw at each option, and how does that change its run time?
    runtime    RunTime       how long will a job run?
    order      Order         which (job, partition) entries exist, and with which priority?
    frequency  Frequency     at which options may an entry run?
    placement  Placement     which free units does it get?
    backfill   Backfill      which entries may start before others?
    ledger     Ledger        which watts count against the cap?
    controls   Control       which actions follow on running jobs and on nodes?

The protocols are structural: a part is any class with these attributes and methods, no base class is needed. A new
stock part is one file ``parts/KIND/NAME.py``; a part of your own is any file, named as ``my.py:MyPart`` in a policy
row. ``wattqueue check FILE`` runs the contract tests on it (pure, deterministic, picklable, right shapes and units).

**Symbols.** n jobs (rows of the job table, in trace order); P partitions; O options, a (partition, frequency) each,
numbered partition by partition with the highest frequency first (``Machine.option_start``, ``option_partition``);
m entries, a (job, partition) each; C rows of a prediction, which several jobs may share. Row numbers always index the
job table that the part was given.

**Units.** Seconds, watts, hertz. Watts are of **one unit** (a node, unless the machine counts sockets or cores) and
include its idle watts; a job of k units is predicted to draw k times that.

**When a part is called.** Static parts are evaluated once per run, vectorised over all jobs, before the first event.
Online estimators, re-ranking orders, custom backfills and controls are called from the event loop, in the order of
rule 2 of docs/semantics.md. Parts are plain numpy; the compiled kernels read the arrays that they return.

**What a part may read.** What users requested, and what has been observed so far: the table that parts are given
(``KnownJobs``) has neither run times nor recorded starts nor watts of jobs that have not ended. A part that is meant
to read them, an oracle, declares ``knows_future = True`` and finds the whole trace in ``jobs.truth``; every output
names it. A simulation's table has the jobs that will be submitted later, too, which a part must not use either:
``wattqueue check`` finds parts that do. Arrays that a part is given are not to be written to.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.known_jobs import KnownJobs, Past
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Asked = Literal["once", "at_submit", "weekly"]
"""When an estimator predicts: before the run; at each submission; at each submission, with weekly retraining."""
Correction = Literal["start", "limit", "steps"]
"""When a planned time that was predicted gives way: at the job's start to its walltime (the prediction decides over
starts alone); once the job outlives it, to the walltime; or then step by step up to the walltime."""


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """What jobs are expected to draw and how long they run, by option.

    Invariants: ``power_w`` is 0 or more, NaN (unknown: admitted only while there is no cap) or ``inf`` (this option is
    never offered to the job); ``time_factor`` is finite and above 0.

    Example: two jobs of one application share a row, a third has its own. ``Prediction(power_w, time_factor,
    row=np.array([0, 0, 1], np.int32))`` with arrays of shape (2, O).
    """

    power_w: Floats
    """Watts of one unit at each option, idle watts included. Shape (C, O)."""
    time_factor: Floats
    """Run time at each option relative to the run time in the trace. Shape (C, O)."""
    row: Ints | None = None
    """Row of the two tables for each job. Shape (n,); None where C = n and job j has row j."""
    quantiles: dict[float, Floats] = field(default_factory=dict)
    """Watts that a job stays below with each probability, by probability. Shapes (C, O)."""
    unit_factor: Floats | None = None
    """Watts of each application on each unit relative to ``power_w``: equal units differ. Shape (apps, units)."""
    unit_time_factor: Floats | None = None
    """Run time of each application on each unit relative to ``time_factor``: a job takes as long as its slowest unit.

    Shape (apps, units). In the truth (``simulate(actual=...)``) ends follow it; in a prediction it is what a placement
    may rank by, and nothing else: no pass expects ends by unit."""

    def rows(self, job: Ints) -> Ints:
        """Return the row of ``power_w`` that holds for each job, by row of the job table. Shape as given.

        A table of one row holds for every job, whatever ``row`` says.
        """
        return self._rows_in(self.power_w, job)

    def watts(self, job: Ints, option: NDArray[np.integer] | int) -> Floats:
        """Return the watts of one unit of each job, at one option or at one for each. Shape as ``job``."""
        found: Floats = self.power_w[self.rows(job), option]
        return found

    def factors(self, job: Ints, option: NDArray[np.integer] | int) -> Floats:
        """Return the relative run time of each job, at one option or at one for each. Shape as ``job``."""
        found: Floats = self.time_factor[self._rows_in(self.time_factor, job), option]
        return found

    def take(self, job: Ints) -> Prediction:
        """Return the prediction of some jobs, in their order, with a row of its own for each. Shapes (k, O)."""
        power, time = (each[self._rows_in(each, job)] for each in (self.power_w, self.time_factor))
        quantiles = {q: watts[self._rows_in(watts, job)] for q, watts in self.quantiles.items()}
        return replace(self, power_w=power, time_factor=time, row=None, quantiles=quantiles)

    def _rows_in(self, table: Floats, job: Ints) -> Ints:
        """Return the row of each job in one of the tables."""
        if len(table) == 1:
            return np.zeros_like(job)
        return job if self.row is None else self.row[job]


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """Jobs that ended since the last call, as measured, in order of their ends. Shapes (k,)."""

    rows: Ints
    """Row of each job in the job table."""
    end_s: Floats
    """End on the trace's clock; does not fall from row to row."""
    mean_power_w: Floats
    """Mean watts of one unit over the run; NaN where nothing was measured."""
    max_power_w: Floats
    """Highest watts of one unit; NaN where nothing was measured."""
    runs: Runs | None = None
    """Where and how they ran; None where nobody observed it, as in a trace."""


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Units, option and limits of runs that ended. Shapes (k,), except the intervals ``low`` and ``high``."""

    first: NDArray[np.int64]
    """First interval of each run."""
    count: Ints
    """Number of its intervals; 0 where its units are not known."""
    low: Ints
    """First unit of each interval."""
    high: Ints
    """Last unit of each interval, included."""
    option: NDArray[np.int16]
    """Option at which each ended, -1 where it is not known."""
    limit_w: Floats
    """Lowest limit in force at the end on a device of its units; inf for none, NaN where it is not known."""


@dataclass(frozen=True, slots=True, eq=False)
class FinishedRuns:
    """Run times of jobs that ended since the last call, in order of their ends. Shapes (k,)."""

    rows: Ints
    """Row of each job in the job table."""
    end_s: Floats
    """End on the trace's clock; does not fall from row to row."""
    run_s: Floats
    """Seconds from the last start to the end, at reference speed by the time factor that plans count with."""


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Queue entries, a (job, partition) each. Shapes (m,).

    The queue is sorted by (priority, higher first; submit time; position in the trace; partition): rule 5 of
    docs/semantics.md. A job without an entry is rejected at submission. Starting an entry removes the job's others.
    """

    job: Ints
    """Row of the job."""
    partition: Ints
    """Number of the partition, in the machine's order."""
    priority: Floats
    """Never NaN; only the order of the values matters."""


class Start(NamedTuple):
    """One start that a custom backfill decides on."""

    entry: int
    """Row of the entry in ``Entries``."""
    option: int
    """Option of the entry's partition, inside its frequency window."""


@runtime_checkable
class Estimator(Protocol):
    """Predict what each job will draw, and how its run time changes, at each option.

    With ``asked = "once"`` the whole workload is predicted before the run. The two online modes (``at_submit``,
    ``weekly``) need the methods of ``OnlineEstimator`` as well. One that needs application profiles names ``profiles``
    in its attribute ``reads``.
    """

    asked: Asked
    machine_figures: bool
    """Whether the watts are the machine's own maxima. Only then may a job be rejected because its watts exceed every
    cap to come (rule 4 of docs/semantics.md): a learned figure may be wrong, and never rejects."""

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return the prediction of all n jobs; called once, before anything else."""
        ...


@runtime_checkable
class OnlineEstimator(Protocol):
    """Predict jobs as they arrive and learn from jobs as they end.

    At one instant, ``learn`` is called with that instant's completions before ``predict_rows`` is called for its
    submissions (rule 2 of docs/semantics.md). A prediction is kept for the life of the job.
    """

    asked: Asked
    machine_figures: bool

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Reset all state and return the prediction that holds before any job has ended."""
        ...

    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        """Return the watts of one unit of the jobs that arrive now, by option. Shapes (k,) -> (k, O)."""
        ...

    def learn(self, finished: Finished) -> None:
        """Take in jobs that ended since the last call, in order of their ends."""
        ...


@runtime_checkable
class QuantileEstimator(Protocol):
    """An online estimator that gives watts which a job stays below with stated probabilities, too."""

    def predict_quantiles(self, rows: Ints, now_s: float) -> dict[float, Floats]:
        """Return the watts of one unit of the jobs that arrive now, by probability and option. Shapes (k, O)."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """An online estimator that can start with jobs that ended before the run (``simulate(past=...)``)."""

    def remember(self, past: Past) -> None:
        """Take in jobs of another table, in order of their ends.

        Called after ``predict`` and before the first ``learn``. Users and applications are matched by name.
        """
        ...


@dataclass(frozen=True, slots=True)
class LoopTerms:
    """A correction as the compiled loop carries it out itself."""

    margin: float = 1.0
    """What predicted watts are multiplied by."""
    by_unit: bool = False
    """Whether watts are learned over the mean factor of a job's units."""


class PowerCorrection(Protocol):
    """Correct what an estimator predicts, and take the correction out of what it learns.

    An estimator is a base, followed by any number of corrections (``policy.corrected``): ``apply`` is called in their
    written order, ``invert`` in the reverse one. Both are pure: what they return depends on the arguments alone, and
    nothing learned is kept. A new stock correction is one file ``parts/corrections/NAME.py``.

    Attributes that it may have: ``lowers``, whether it may predict less than it was given: then the machine's own
    maxima, if the base predicts these, are no reason to reject a job (rule 4 of docs/semantics.md); ``missing``, a text
    that names what it lacks, and ``remedy``, what to write then; ``keeps_base``, whether jobs of applications to which
    it gives no factors keep the base's prediction (rule 12); ``reads`` and ``knows_future`` as those of an estimator.
    A method ``loop_terms()`` returns the ``LoopTerms`` that do exactly what the class does; the compiled loop asks only
    a class that has it in its own body, as for the kernel of a base (``HistoryBase.loop_kernel``).
    """

    def apply(self, predicted: Prediction, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return a prediction with its watts, quantiles and unit factors corrected.

        ``predicted`` is that of ``jobs``: of all before the run, then of those that arrive, without unit factors.
        Those of the first call hold for the whole run; time factors stay.
        """
        ...

    def invert(self, finished: Finished, jobs: KnownJobs, machine: Machine) -> Finished:
        """Return what the estimator before it would have measured. ``finished.rows`` are rows of ``jobs``.

        A margin states nothing about what is measured, and returns it as it is: else it would be learned away.
        """
        ...


@runtime_checkable
class RunTime(Protocol):
    """Predict how long each job runs: its planned time (rule 3 of docs/semantics.md).

    A planned time is used within its bounds: at least a second, at most the walltime; the walltime where it is NaN.
    """

    asked: Asked
    correction: Correction | None
    """What becomes of a planned time that is wrong; None where nothing is predicted."""

    def seconds(self, jobs: KnownJobs, machine: Machine) -> Floats | None:
        """Reset all state; return seconds at reference speed of all n jobs before any has ended, or None: not known."""
        ...


@runtime_checkable
class OnlineRunTime(Protocol):
    """Predict run times as jobs arrive and learn them as jobs end, in the order of ``OnlineEstimator``."""

    asked: Asked
    correction: Correction | None

    def seconds(self, jobs: KnownJobs, machine: Machine) -> Floats | None:
        """Reset all state; what is returned holds for jobs that are asked for before any has ended."""
        ...

    def seconds_of(self, rows: Ints, now_s: float) -> Floats:
        """Return the seconds at reference speed of the jobs that arrive now, NaN for not known. Shape (k,)."""
        ...

    def learn_runs(self, finished: FinishedRuns) -> None:
        """Take in jobs that ended since the last call, in order of their ends."""
        ...


SITE_PRIORITY = "site_priority"
"""Column of ``jobs.extra`` with the site's priorities: shape (n,), or (n, P) where they differ by partition."""


@runtime_checkable
class Order(Protocol):
    """Decide which entries exist, and their priority, before the run.

    One that reads ``SITE_PRIORITY`` states ``site_priorities``: a driver reads the site's priorities for it.
    """

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        """Return at most one entry per (job, partition); none for a partition that the job does not fit."""
        ...


@runtime_checkable
class Frequency(Protocol):
    """Decide at which frequencies an entry may run.

    One that never leaves a partition's highest frequency states ``highest_only``: nothing needs to set frequencies.

    One that adds lower options for use in load targets has a method ``in_targets(entries, machine)``, which returns the
    last one of each entry, shape (m,); the driver lets them end where the consent of the job's user does (rule 20 of
    docs/semantics.md). With ``by_target`` a job starts there while a target is in force, otherwise at the highest
    frequency that fits.

    In a list of parts each part after the first narrows the window of those before it, and one with ``in_targets``
    adds to it. One that may be left without an option, and then takes the nearest one, has a method
    ``without_options`` with the arguments of ``window``, which says of which entries, shape (m,): a run counts these
    jobs, and is refused where it is all of them.
    """

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        """Return the first and last option of each entry, both included. Shapes (m,).

        Called once before a run; live whenever the queue or the cap changes. ``signals`` has the cap, with the values
        that are announced for later. Options count from the highest frequency down; the pass takes the first one in the
        window that fits the cap. Equal numbers fix the frequency. Both belong to the entry's partition.
        """
        ...


@runtime_checkable
class WithoutOptions(Protocol):
    """A frequency part that may be left without an option of an entry, and then takes the nearest one."""

    def without_options(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> NDArray[np.bool_]:
        """Return which entries have none. Shape (m,)."""
        ...


@runtime_checkable
class Placement(Protocol):
    """Decide which free units a job gets. One that never ranks states ``by_number``."""

    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats | None:
        """Return a rank of every unit for each application, low first. Shape (apps, units).

        Free units are taken by (rank, number). None means that there is nothing to rank by: a policy is then refused,
        unless its placement states ``by_number``. The error has the text ``remedy`` of the part.
        """
        ...


@runtime_checkable
class Backfill(Protocol):
    """Name a compiled scheduling pass and its two settings (rules 7 to 10 of docs/semantics.md)."""

    code: int
    """Number of the pass in ``kernels/codes.py``."""
    queue_depth: int
    """Entries that one pass tries; 0 means all (stock parts have a number from 1, by default all)."""
    pass_interval_s: float
    """Shortest time between two passes; 0 means a pass at every instant with an event."""
