"""The contracts of the seven parts. A policy is one part of each kind; a new part is one file.

Symbols: n jobs; O options, a (partition, frequency) each, counted by ``Machine.option_start``,
highest frequency first; m entries, a (job, partition) each. Watts are of **one unit**, idle share
included. Row numbers index the job table. Parts are plain numpy; kernels take what they return.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.past import Past
from wattqueue.parts.actions import Action

if TYPE_CHECKING:
    from wattqueue.policy.view import View

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Asked = Literal["once", "at_submit", "weekly"]


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """What jobs will draw and take, by option.

    Shapes: ``power_w`` and ``time_factor`` (C, O): watts of one unit, and run time relative to the
    trace's own; ``row`` (n,) int32: the row of each job, None where C = n and job j has row j;
    ``quantiles`` q -> watts (C, O); ``unit_factor`` (apps, units): watts of an application on each
    unit relative to ``power_w``. ``inf`` watts mark an option that is never offered.
    """

    power_w: Floats
    time_factor: Floats
    row: Ints | None = None
    quantiles: dict[float, Floats] = field(default_factory=dict)
    unit_factor: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """Jobs that just ended, as measured. Shapes (k,); watts are of one unit, NaN where unmeasured."""

    rows: Ints
    end_s: Floats
    mean_power_w: Floats
    max_power_w: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Job-partition entries. Shapes (m,); higher ``priority`` first, then submit, trace position, partition."""

    job: Ints
    partition: Ints
    priority: Floats


@dataclass(frozen=True, slots=True)
class Start:
    """What a custom backfill returns: start this entry at this option."""

    entry: int
    option: int


@runtime_checkable
class Estimator(Protocol):
    """What will a job draw and take? ``asked`` once before the run, or online.

    An online estimator (``at_submit``, ``weekly``) also has the methods of OnlineEstimator.
    ``machine_figures`` is true where watts are the machine's own maxima: only then may a job be
    rejected for them (SEMANTICS rule 4).
    """

    asked: Asked
    machine_figures: bool

    def predict(self, jobs: Jobs, machine: Machine) -> Prediction: ...


@runtime_checkable
class OnlineEstimator(Protocol):
    """Asked as jobs arrive, taught as jobs finish; ``predict`` gives the state before any job."""

    asked: Asked
    machine_figures: bool

    def predict(self, jobs: Jobs, machine: Machine) -> Prediction: ...

    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        """Watts of one unit for the jobs that arrive now. Shape (k, O)."""
        ...

    def learn(self, finished: Finished) -> None:
        """Jobs that ended since the last call, in order of their ends."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """An online estimator that can begin with what ended before the run (``simulate(past=...)``)."""

    def remember(self, past: Past) -> None:
        """Take in jobs of another table, in order of their ends; after ``predict``, before anything is learned."""
        ...


@runtime_checkable
class Order(Protocol):
    """Which entries exist, with which priority?"""

    def entries(self, jobs: Jobs, prediction: Prediction, machine: Machine) -> Entries: ...


@runtime_checkable
class RerankingOrder(Protocol):
    """An order that is asked again at each pass; returns a priority for each of ``view.queue``."""

    def entries(self, jobs: Jobs, prediction: Prediction, machine: Machine) -> Entries: ...

    def rerank(self, view: View) -> Floats: ...


@runtime_checkable
class Frequency(Protocol):
    """At which options may an entry run? First and last option, highest frequency first; equal = fixed."""

    def window(self, entries: Entries, prediction: Prediction, machine: Machine) -> tuple[Ints, Ints]: ...


@runtime_checkable
class Placement(Protocol):
    """Which free units? Shape (apps, units), low first; None means lowest number."""

    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Floats | None: ...


@runtime_checkable
class Backfill(Protocol):
    """Who may overtake? ``code`` names a compiled pass (kernels/codes.py)."""

    code: int
    queue_depth: int
    pass_interval_s: float


@runtime_checkable
class CustomBackfill(Protocol):
    """A pass in plain Python: asked at each pass, returns what starts now, in order."""

    def schedule(self, view: View) -> Sequence[Start]: ...


@runtime_checkable
class Ledger(Protocol):
    """What counts as drawn? ``margin_w`` must stay free below the cap."""

    code: int

    def margin_w(self, view: View) -> float: ...


@runtime_checkable
class Control(Protocol):
    """What acts on running work and on nodes? Woken every ``period_s``, and after the named events."""

    period_s: float
    """0 means no period."""
    events: frozenset[str]
    """Of ``arrival``, ``completion``, ``signal``, ``node``."""

    def act(self, view: View) -> Sequence[Action]: ...
