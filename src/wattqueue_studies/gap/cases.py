"""The workloads of the study, its rows, and the windows: drawn once for each workload, the same for all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.order.fcfs import Fcfs
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.runs.perform import RunInputs, load
from wattqueue.runs.task import Task
from wattqueue_studies.bound.study import Windows
from wattqueue_studies.bound.windows import BoundWindow
from wattqueue_studies.runtimes.study import RecordedTrace

EASY = "easy"
GENERATED = Task("marconi:days=14,load=0.9", machine="marconi100", seed=1, policy=EASY)
CAP = "22%"
"""Cap of the generated jobs, a share of the machine's greatest watts: watts bind, nodes do not."""
KNOWN_WATTS = "oracle-mean"
"""Estimator of all rows under the cap that have no other."""
ROWS = (
    "fcfs",
    "first-fit",
    EASY,
    "easy-sjbf",
    "conservative",
    "easy++",
    "easy+rt-quantile",
    "easy-sjbf+rt-quantile",
    "easy+rt-true",
    "easy-sjbf+rt-true",
)
"""Rows on every workload."""
AREA_ROWS = {"first-fit+area": "first-fit", "easy+rt-true+area": "easy+rt-true"}
"""Rows ordered by ``SmallestArea``, and the rows that they vary."""
WATT_ROWS = ("easy+pc", "easy+pc-max", "easy+pc-mean", "easy+pc-chance-1", "easy+pc-adaptive-1")
"""Rows with an estimator of their own, under the cap."""


@dataclass(frozen=True, slots=True)
class SmallestArea:
    """Jobs in the order of what they take times their true run time, least first: nodes, or watts above idle.

    An oracle. Reference: Smith, "Various optimizers for single-stage production" (1956), doi:10.1002/nav.3800030106.
    """

    by_watts: bool
    knows_future: ClassVar[bool] = True

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        """Return an entry for each job, of higher priority the smaller it is. Shapes (m,)."""
        found = Fcfs().entries(jobs, prediction, machine)
        truth = jobs.truth
        area: Floats = truth.nodes.astype(np.float64) * np.minimum(truth.runtime_s, truth.walltime_s)
        if self.by_watts:
            every = np.arange(len(truth), dtype=np.int32)
            area = area * np.maximum(prediction.watts(every, 0) - machine.partitions[0].idle_w, 0.0)
        return Entries(found.job, found.partition, -area[found.job])


def made_rows(*, capped: bool) -> Mapping[str, Callable[[], Policy]]:
    """Return what makes the policy of each row; each window has policies of its own, since they learn."""
    parts: dict[str, Any] = {"estimator": KNOWN_WATTS} if capped else {}

    def plain(name: str) -> Callable[[], Policy]:
        return lambda: load_policy(name, **parts)

    def by_area(name: str) -> Callable[[], Policy]:
        return lambda: load_policy(name, order=SmallestArea(capped), **parts)

    def own_watts(name: str) -> Callable[[], Policy]:
        return lambda: load_policy(name)

    rows = {name: plain(name) for name in ROWS} | {name: by_area(row) for name, row in AREA_ROWS.items()}
    return rows | ({name: own_watts(name) for name in WATT_ROWS} if capped else {})


@dataclass(frozen=True, slots=True, eq=False)
class GapCase:
    """A workload, its rows and its windows.

    Attributes:
        inputs: Workload, machine and cap, and the row whose run the windows are cut from.
        rows: What makes the policy of each row.
        windows: The windows by seed.
    """

    inputs: RunInputs
    rows: Mapping[str, Callable[[], Policy]]
    windows: Mapping[int, BoundWindow]

    @classmethod
    def of(cls, task: Task, window: int, seeds: Sequence[int]) -> Self:
        """Read or generate a workload and cut its windows from its run. Raises: InputError for one that has none."""
        inputs = load(task)
        found = zip(seeds, Windows(window, seeds).cut(inputs), strict=True)
        return cls(inputs, made_rows(capped=inputs.cap.limited), {seed: each for seed, (_, each) in found})

    def inputs_of(self, window: BoundWindow) -> RunInputs:
        """Return the inputs of a window: the cap is in force from its begin on, so that what runs goes on.

        A row that counts more for the running jobs than the cap starts nothing until enough of them have ended.
        """
        begins = Cap(np.array([-np.inf, window.begin_s]), np.array([np.inf, float(self.inputs.cap.cap_w[0])]))
        return replace(self.inputs, cap=begins if self.inputs.cap.limited else self.inputs.cap)


def cases_of(
    traces: Sequence[RecordedTrace], window: int, seeds: Sequence[int], *, generated: bool
) -> Mapping[str, GapCase]:
    """Return the workloads by name. Raises: InputError for a trace that cannot be read or has no such windows."""
    tasks = {trace.name: Task(str(trace.path), nodes=trace.nodes, policy=EASY) for trace in traces}
    if generated:
        tasks["generated"] = GENERATED
        tasks[f"generated, cap of {CAP.replace('%', ' %')}"] = replace(GENERATED, cap=CAP, estimator=KNOWN_WATTS)
    return {name: GapCase.of(task, window, seeds) for name, task in tasks.items()}
