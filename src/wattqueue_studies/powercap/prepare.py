"""The workloads of the campaign: windows of one long generated trace, saved where every worker sees them.

The trace is replayed once by EASY without a cap. The replay gives the hours at which the machine is busy (windows
begin there), the jobs that wait and have ended at those hours, and the residuals that calibrate chance ledgers.
Preparations are runs of a campaign themselves: with a folder they are done once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from wattqueue.campaign.cell import Row
from wattqueue.campaign.run import run_cells
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.windows import Trace, put_windows
from wattqueue.errors import PolicyError
from wattqueue.formats.machine.file import load_machine
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import Schedule
from wattqueue.parts.history import HistoryBase
from wattqueue.parts.ledger.chance import Chance
from wattqueue.policy.policy import load_policy
from wattqueue.policy.rows import find_row, part_names
from wattqueue.sim.engine import simulate
from wattqueue.workload.marconi import generate
from wattqueue.workload.windows import busy_begins, nodes_in_system
from wattqueue_studies.powercap.calibrate import Hours, hours_of, predictions_of, spread_of, z_of
from wattqueue_studies.powercap.cell import EASY, MACHINE


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
        row = find_row(policy)
        if not (isinstance(row["ledger"], dict) and row["ledger"]["part"] == "chance"):
            return ()
        before = self.hours[part_names(row["estimator"])].before(self.trace.begins_s[window])
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


@dataclass(frozen=True, slots=True)
class PreparationCell:
    """The preparation of a trace as a run of the campaign: done once for a folder, and by any worker."""

    choice: WorkloadSelection
    """How the workloads are chosen."""
    policies: tuple[str, ...]
    """Policies whose chance ledgers are calibrated."""

    def __str__(self) -> str:
        """Return the trace's name, for errors."""
        return f"trace of seed {self.choice.seed}"

    def identity(self) -> Mapping[str, object]:
        """Return all inputs."""
        return asdict(self)

    def perform(self, shared: Shared) -> Row:
        """Prepare the trace and return names and numbers of what was saved. Raises: as ``prepare``."""
        made = prepare(self.choice, shared, self.policies)
        hours = {name: shared.put_arrays(asdict(found)) for name, found in made.hours.items()}
        return {
            "ended": made.trace.ended, "ends": made.trace.ends, "windows": " ".join(made.trace.windows),
            "begins_s": list(made.trace.begins_s), "jobs": made.jobs, "window_jobs": list(map(float, made.window_jobs)),
            "nodes_asked": list(made.nodes_asked), "hours": json.dumps(hours),
        }  # fmt: skip


def prepare_traces(
    choice: WorkloadSelection, traces: int, shared: Shared, policies: Sequence[str] = (), workers: int | None = None
) -> list[tuple[WorkloadSelection, Prepared]]:
    """Prepare traces with seeds that follow each other, or open what the folder has of them.

    Returns each with its choice. Raises: CampaignError for a trace with too few busy hours; OutputError.
    """
    choices = [replace(choice, seed=choice.seed + k) for k in range(traces)]
    cells = [PreparationCell(each, tuple(policies)) for each in choices]
    rows = run_cells(cells, shared=shared, store=shared.folder, workers=workers).to_dicts()
    return [(each, _opened(row, shared)) for each, row in zip(choices, rows, strict=True)]


def _opened(row: Mapping[str, Any], shared: Shared) -> Prepared:
    """Return what a preparation saved."""
    trace = Trace(row["ended"], row["ends"], tuple(row["windows"].split()), tuple(row["begins_s"]))
    hours = {name: Hours(**shared.arrays(kept)) for name, kept in json.loads(row["hours"]).items()}
    sizes = tuple(int(count) for count in row["window_jobs"])
    return Prepared(trace, row["jobs"], sizes, tuple(row["nodes_asked"]), hours)


def residuals(jobs: Jobs, machine: Machine, replay: Schedule, policies: Sequence[str]) -> dict[str, Hours]:
    """Return watts predicted and drawn in a replay, for each estimator that is combined with a chance ledger.

    Raises: PolicyError for an estimator that is not based on history.
    """
    found = {}
    part = machine.partitions[0]
    for policy in map(load_policy, policies):
        name = part_names(policy.row["estimator"])
        if isinstance(policy.ledger, Chance) and name not in found:
            if not isinstance(policy.estimator, HistoryBase) or part.max_w is None:
                raise PolicyError(f"estimator {name} cannot be calibrated", where=policy.name, hint="use a history")
            predicted = predictions_of(policy.estimator, jobs, replay.end_s, part.max_w)
            found[name] = hours_of(jobs, replay.start_s, replay.end_s, predicted, part.idle_w)
    return found
