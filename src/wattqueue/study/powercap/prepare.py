"""The workloads of the campaign: windows of one long generated trace, laid where every worker sees them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wattqueue.campaign.shared import Shared
from wattqueue.formats.machine_toml import load_machine
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate
from wattqueue.study.powercap.cell import MACHINE, Trace
from wattqueue.study.powercap.published import EASY, WORKLOADS
from wattqueue.workload.marconi import generate
from wattqueue.workload.windows import busy_begins, cut, nodes_in_system


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


@dataclass(frozen=True, slots=True)
class Prepared:
    """A trace and what there is to say of its windows. Shapes (workloads,) as tuples."""

    trace: Trace
    jobs: int
    window_jobs: tuple[int, ...]
    nodes_asked: tuple[float, ...]


def prepare(choice: Choice, shared: Shared) -> Prepared:
    """Generate the trace, replay it by EASY without a cap, choose and cut the windows, share their columns.

    Raises: InputError where the trace has too few busy hours.
    """
    machine = load_machine(MACHINE)
    jobs = generate(np.random.default_rng(choice.seed), days=choice.trace_days, load=choice.load, nodes=machine.units)
    end = simulate(jobs, machine, load_policy(EASY)).schedule.end_s
    rng = np.random.default_rng([choice.seed, 6])  # of its own, so that jobs and begins are drawn apart
    begins = busy_begins(
        rng, jobs, end, count=choice.workloads, nodes=choice.machines * machine.units, days=choice.days,
        warm_days=choice.warm_days, apart_days=choice.days,
    )  # fmt: skip
    order = np.argsort(end, kind="stable")
    ended = replace(jobs, profiles=None).take(order)
    windows = [cut(jobs, end, float(begin), choice.days).jobs for begin in begins]
    trace = Trace(
        shared.put_jobs(ended),
        shared.put_arrays({"end_s": end[order]}),
        tuple(shared.put_jobs(w) for w in windows),
        tuple(begins.tolist()),
    )
    asked = nodes_in_system(jobs, end, begins)
    return Prepared(trace, len(jobs), tuple(len(w) for w in windows), tuple(asked.tolist()))
