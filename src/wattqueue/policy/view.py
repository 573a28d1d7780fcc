"""What a part in plain Python sees: a read-only face of the kernels' view. It cannot reach the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes, state
from wattqueue.kernels.lists import list_queue, list_running
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.policy.actions import Refusal

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


@dataclass(slots=True, eq=False)
class View:
    """The scheduler's world now. Times in seconds on the trace's clock, watts in the cap's scope.

    ``jobs`` is the job table (what the users asked for is public; run times and watts of jobs that
    have not ended are not a policy's to read, and the checks look for that). Arrays are views: a
    part must not write to them.
    """

    jobs: Jobs
    machine: Machine
    kernel: state.View
    unit_state: NDArray[np.int8]
    refusals: Sequence[Refusal] = ()

    @property
    def now_s(self) -> float:
        """The time of this pass."""
        return float(self.kernel.num[codes.NOW])

    @property
    def queue(self) -> Ints:
        """Queued entries in queue order. Shape (q,)."""
        out = np.empty(self.kernel.counter[codes.QUEUED], np.int32)
        return out[: list_queue(self.kernel, out)]

    @property
    def running(self) -> Ints:
        """Rows of running jobs by expected end. Shape (r,)."""
        out = np.empty(self.kernel.counter[codes.RUNNING], np.int32)
        return out[: list_running(self.kernel, out)]

    @property
    def expected_end_s(self) -> Floats:
        """Expected end of each job of the table; valid for running ones. Shape (n,)."""
        return self.kernel.held.end

    @property
    def free(self) -> NDArray[np.int64]:
        """Free units of each partition. Shape (P,)."""
        return self.kernel.units.free

    @property
    def cap_w(self) -> float:
        """The cap in force; inf for none."""
        cap = int(self.kernel.counter[codes.CAP])
        return np.inf if cap >= codes.NO_CAP else cap / codes.MICRO

    @property
    def available_w(self) -> float:
        """Watts that starting jobs may still take; inf without a cap."""
        return np.inf if self.cap_w == np.inf else float(self.kernel.counter[codes.AVAILABLE]) / codes.MICRO

    def entry_job(self, entry: int) -> int:
        """Row of an entry's job."""
        return int(self.kernel.entries.job[entry])

    def entry_partition(self, entry: int) -> int:
        """Partition of an entry."""
        return int(np.searchsorted(self.kernel.entries.start, entry, side="right")) - 1

    def entry_options(self, entry: int) -> range:
        """Options that an entry may take, highest frequency first."""
        return range(int(self.kernel.entries.first[entry]), int(self.kernel.entries.last[entry]) + 1)

    def net_watts(self, job: int, option: int) -> float:
        """What starting a job would add to the cap's scope, by prediction."""
        table = self.kernel.predicted
        row = 0 if len(table.power_uw) == 1 else int(table.row[job]) if len(table.row) else job
        unit = int(table.power_uw[row, option])
        if self.machine.cap_scope != "jobs":
            unit -= int(self.kernel.units.idle_uw[self.machine.option_partition[option]])
        return unit * int(self.kernel.nodes[job]) / codes.MICRO

    def job_option(self, job: int) -> int:
        """Option at which a job runs, -1 if it does not."""
        return int(self.kernel.held.option[job])

    def job_units(self, job: int) -> Ints:
        """Unit numbers that a running job holds. Shape (nodes,)."""
        held = self.kernel.held
        first, count = int(held.first[job]), int(held.pieces[job])
        pairs = zip(held.low[first : first + count], held.high[first : first + count], strict=True)
        return np.concatenate([np.arange(low, high + 1, dtype=np.int32) for low, high in pairs])

    def unit_is_free(self, unit: int) -> bool:
        """Whether a unit is powered, up and without a job."""
        units = self.kernel.units
        p = int(np.searchsorted(units.unit_start, unit, side="right")) - 1
        i = unit - int(units.unit_start[p])
        return bool((int(units.word[units.word_start[p] + i // 64]) >> (i % 64)) & 1)
