"""The workloads of the campaign: windows of one long generated trace, laid where every worker sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from wattqueue.campaign.shared import Shared
from wattqueue.campaign.windows import Trace, put_windows
from wattqueue.errors import PolicyError
from wattqueue.formats.machine_toml import load_machine
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import Schedule
from wattqueue.parts.estimator._history import HistoryBase
from wattqueue.parts.ledger.chance import Chance
from wattqueue.policy.policy import ROW_DEFAULTS, find_row, load_policy
from wattqueue.sim.engine import simulate
from wattqueue.study.powercap.calibrate import Hours, deviations_of, hours_of, predictions_of, spread_of
from wattqueue.study.powercap.cell import MACHINE
from wattqueue.study.powercap.published import EASY, WORKLOADS
from wattqueue.workload.marconi import generate
from wattqueue.workload.windows import busy_begins, nodes_in_system


@dataclass(frozen=True, slots=True)
class Choice:
    """How the workloads are chosen; nothing of it is the paper's but the number of them and the trace's length.

    ``load``: node-seconds of work over the trace, of the machine's. A window begins at a full hour at which jobs
    in the system ask for ``machines`` times the machine's nodes or more, ``warm_days`` after the trace's begin at
    the earliest; windows last ``days``, and begin ``days`` apart or more, so that none shares a submission.
    """

    workloads: int = WORKLOADS
    days: float = 3.0
    seed: int = 1
    trace_days: float = 273.0
    load: float = 0.8
    machines: float = 2.0
    warm_days: float = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A trace and what there is to say of its windows. Shapes (workloads,) as tuples."""

    trace: Trace
    jobs: int
    window_jobs: tuple[int, ...]
    nodes_asked: tuple[float, ...]
    hours: Mapping[str, Hours] = field(default_factory=dict)
    """Residuals of the replay by estimator, for chance ledgers."""

    def ledger_options(self, policy: str, window: int) -> tuple[tuple[str, float], ...]:
        """What a chance ledger knows of the days before a window; none for another ledger."""
        row = {**ROW_DEFAULTS, **find_row(policy)}
        if not (isinstance(row["ledger"], dict) and row["ledger"]["part"] == "chance"):
            return ()
        before = self.hours[row["estimator"]].before(self.trace.begins_s[window])
        spread, epsilon = spread_of(before), row["ledger"]["epsilon"]
        known = asdict(spread) | {"deviations": deviations_of(before, spread, epsilon)}
        return tuple((key, float(value)) for key, value in known.items())


def prepare(choice: Choice, shared: Shared, policies: Sequence[str] = ()) -> Prepared:
    """Generate the trace, replay it by EASY without a cap, choose and cut the windows, share their columns.

    Chance ledgers among ``policies`` get the residuals of their estimators in the replay.

    Raises: InputError where the trace has too few busy hours.
    """
    machine = load_machine(MACHINE)
    jobs = generate(np.random.default_rng(choice.seed), days=choice.trace_days, load=choice.load, nodes=machine.units)
    replay = simulate(jobs, machine, load_policy(EASY)).schedule
    end = replay.end_s
    rng = np.random.default_rng([choice.seed, 6])  # of its own, so that jobs and begins are drawn apart
    begins = busy_begins(
        rng, jobs, end, count=choice.workloads, nodes=choice.machines * machine.units, days=choice.days,
        warm_days=choice.warm_days, apart_days=choice.days,
    )  # fmt: skip
    trace = put_windows(shared, jobs, end, begins.tolist(), choice.days)
    asked = nodes_in_system(jobs, end, begins)
    hours = residuals(jobs, machine, replay, policies)
    sizes = tuple(len(shared.jobs(name)) for name in trace.windows)
    return Prepared(trace, len(jobs), sizes, tuple(asked.tolist()), hours)


def residuals(jobs: Jobs, machine: Machine, replay: Schedule, policies: Sequence[str]) -> dict[str, Hours]:
    """Watts predicted and drawn in a replay, for each estimator that goes with a chance ledger.

    Raises: PolicyError for one that is no history.
    """
    found = {}
    part = machine.partitions[0]
    for policy in map(load_policy, policies):
        name = policy.row["estimator"]
        if isinstance(policy.ledger, Chance) and name not in found:
            if not isinstance(policy.estimator, HistoryBase) or part.max_w is None:
                raise PolicyError(f"estimator {name} cannot be calibrated", where=policy.name, mend="use a history")
            predicted = predictions_of(policy.estimator, jobs, replay.end_s, part.max_w)
            found[name] = hours_of(jobs, replay.start_s, replay.end_s, predicted, part.idle_w)
    return found
