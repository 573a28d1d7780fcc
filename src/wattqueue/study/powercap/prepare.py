"""The workloads of the campaign: windows of one long generated trace, saved where every worker sees them.

The trace is replayed once by EASY without a cap. The replay gives the hours at which the machine is busy (windows
begin there), the jobs that wait and have ended at those hours, and the residuals that calibrate chance ledgers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from wattqueue.campaign.shared import Shared
from wattqueue.campaign.windows import Trace, put_windows
from wattqueue.errors import PolicyError
from wattqueue.formats.machine.file import load_machine
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import Schedule
from wattqueue.parts.calibrate import Hours, hours_of, predictions_of, spread_of, z_of
from wattqueue.parts.history import HistoryBase
from wattqueue.parts.ledger.chance import Chance
from wattqueue.policy.policy import ROW_DEFAULTS, find_row, load_policy
from wattqueue.sim.engine import simulate
from wattqueue.study.powercap.cell import EASY, MACHINE
from wattqueue.workload.marconi import generate
from wattqueue.workload.windows import busy_begins, nodes_in_system


@dataclass(frozen=True, slots=True)
class WorkloadSelection:
    """How the workloads are chosen. Only their number and the length of the trace are from the paper."""

    workloads: int = 30
    """Number of windows (section 6.4)."""
    days: float = 3.0
    """Length of a window, and least distance of two beginnings, so that no two windows share a submission."""
    seed: int = 1
    """Seed of the trace and of the choice of windows."""
    trace_days: float = 273.0
    """Length of the trace."""
    load: float = 0.8
    """Node-seconds of work over those of the machine."""
    machines: float = 2.0
    """Nodes that jobs in the system request at a beginning, as a multiple of the machine's, at least."""
    warm_days: float = 60.0
    """Earliest beginning: estimators need a history."""


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A trace cut into windows. Tuples have one value per window."""

    trace: Trace
    """Names of the trace and of its windows in Shared."""
    jobs: int
    """Jobs of the trace."""
    window_jobs: tuple[int, ...]
    """Jobs of each window."""
    nodes_asked: tuple[float, ...]
    """Nodes that jobs in the system request at the beginning of each window."""
    hours: Mapping[str, Hours] = field(default_factory=dict)
    """Residuals of the replay by estimator, for chance ledgers."""

    def ledger_options(self, policy: str, window: int) -> tuple[tuple[str, float], ...]:
        """Return the options of a chance ledger, calibrated on the days before a window; none for another ledger."""
        row = {**ROW_DEFAULTS, **find_row(policy)}
        if not (isinstance(row["ledger"], dict) and row["ledger"]["part"] == "chance"):
            return ()
        before = self.hours[row["estimator"]].before(self.trace.begins_s[window])
        spread, epsilon = spread_of(before), row["ledger"]["epsilon"]
        known = asdict(spread) | {"deviations": z_of(before, spread, epsilon)}
        return tuple((key, float(value)) for key, value in known.items())


def prepare(choice: WorkloadSelection, shared: Shared, policies: Sequence[str] = ()) -> Prepared:
    """Generate the trace, replay it by EASY without a cap, choose and cut the windows, save their columns.

    Chance ledgers among ``policies`` get the residuals of their estimators in the replay.

    Raises: InputError if the trace has too few busy hours.
    """
    machine = load_machine(MACHINE)
    jobs = generate(np.random.default_rng(choice.seed), days=choice.trace_days, load=choice.load, nodes=machine.units)
    replay = simulate(jobs, machine, load_policy(EASY)).schedule
    end = replay.end_s
    rng = np.random.default_rng([choice.seed, 6])  # a second stream: the choice does not depend on the jobs' draws
    begins = busy_begins(
        rng, jobs, end, count=choice.workloads, nodes=choice.machines * machine.units, days=choice.days,
        warm_days=choice.warm_days, apart_days=choice.days,
    )  # fmt: skip
    trace = put_windows(shared, jobs, end, begins.tolist(), choice.days)
    asked = nodes_in_system(jobs, end, begins)
    hours = residuals(jobs, machine, replay, policies)
    sizes = tuple(len(shared.jobs(name)) for name in trace.windows)
    return Prepared(trace, len(jobs), sizes, tuple(asked.tolist()), hours)


def prepare_traces(
    choice: WorkloadSelection, traces: int, shared: Shared, policies: Sequence[str] = ()
) -> list[tuple[WorkloadSelection, Prepared]]:
    """Prepare traces with seeds that follow each other; return each with its choice. Raises: as ``prepare``."""
    choices = [replace(choice, seed=choice.seed + k) for k in range(traces)]
    return [(each, prepare(each, shared, policies)) for each in choices]


def residuals(jobs: Jobs, machine: Machine, replay: Schedule, policies: Sequence[str]) -> dict[str, Hours]:
    """Return watts predicted and drawn in a replay, for each estimator that is combined with a chance ledger.

    Raises: PolicyError for an estimator that is not based on history.
    """
    found = {}
    part = machine.partitions[0]
    for policy in map(load_policy, policies):
        name = policy.row["estimator"]
        if isinstance(policy.ledger, Chance) and name not in found:
            if not isinstance(policy.estimator, HistoryBase) or part.max_w is None:
                raise PolicyError(f"estimator {name} cannot be calibrated", where=policy.name, hint="use a history")
            predicted = predictions_of(policy.estimator, jobs, replay.end_s, part.max_w)
            found[name] = hours_of(jobs, replay.start_s, replay.end_s, predicted, part.idle_w)
    return found
