"""The arrays that kernels work on, as named tuples.

Kernels cannot hold Python objects, and a tuple within a tuple is free once compiled: so the state of a run is a tree
of named tuples of arrays. Scalars that change have names in a ``Scalars``: ``view.now.available_uw`` (docs/adr/0021).

Two separate trees keep apart what must not be mixed (rule 11 of docs/semantics.md):

* ``KernelView``: what the scheduler may know. The pass gets this one only, live as in simulation.
* ``Truth``: what jobs really draw and take, and the events that are still to come. Only the simulator's loop and the
  actions that it carries out see it.

A ``Log`` collects the results of a simulation. ``kernels/fresh.py`` makes the structures of a plain run, the modules of
kernels that few runs need make their own; ``policy/build.py`` fills the view from a policy's arrays,
``sim/truth.py`` the truth from a workload.

Symbols: n jobs, m entries, P partitions, O options, U units, N nodes, D devices, A applications, C prediction
rows, B running blocks of K rows, M rows of a plan. Watts are int64 microwatts, so that sums do not depend on their
order. *Net* watts are what a start adds to the watts in the cap's scope: predicted watts less the idle watts of the
job's units, unless the cap covers jobs alone (rule 14). S power sensors, each with a row of R samples;
G power domains, V leaves of their tree, K rows of limits.
"""

from __future__ import annotations

from wattqueue.kernels._numba import Scalars
from wattqueue.kernels.state.queue import (
    AnnouncedLimits,
    Array,
    ConsentReach,
    EntryTable,
    PlannedTimes,
    ReservationPlan,
    Reservations,
    Rows,
    Tree,
    UnitFactorTable,
)
from wattqueue.kernels.state.supply import (
    SupplyAhead,
    SupplyClasses,
    SupplyLimits,
    SupplyLoad,
    SupplyPlacement,
    SupplyUnits,
)
from wattqueue.kernels.state.truth import (
    AnnouncedSteps,
    EventLoopState,
    Heap,
    LimitCurves,
    LimitedDevices,
    Log,
    NodeFigures,
    Phases,
    SensorFigures,
    Sensors,
    Truth,
)
from wattqueue.kernels.state.units import ByUnit, Held, KernelEvidence, RunningBlocks, SensorSamples, Units
from wattqueue.kernels.state.view import KernelView, PassState

__all__ = [
    "AnnouncedLimits",
    "AnnouncedSteps",
    "Array",
    "ByUnit",
    "ConsentReach",
    "EntryTable",
    "EventLoopState",
    "Heap",
    "Held",
    "KernelEvidence",
    "KernelView",
    "LimitCurves",
    "LimitedDevices",
    "Log",
    "NodeFigures",
    "PassState",
    "Phases",
    "PlannedTimes",
    "ReservationPlan",
    "Reservations",
    "Rows",
    "RunningBlocks",
    "Scalars",
    "SensorFigures",
    "SensorSamples",
    "Sensors",
    "SupplyAhead",
    "SupplyClasses",
    "SupplyLimits",
    "SupplyLoad",
    "SupplyPlacement",
    "SupplyUnits",
    "Tree",
    "Truth",
    "UnitFactorTable",
    "Units",
]
