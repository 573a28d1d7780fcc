"""What a part in plain Python sees: a read-only view of the kernels' arrays. It cannot reach the truth.

The compiled pass and parts in Python look at the same arrays. ``View`` hides their layout: it speaks of entries, jobs,
units and watts, with floats in SI units. Properties are computed when they are read, so a part pays for what it uses;
``queue`` and ``running`` walk their structures.

The job table has no outcomes of jobs that have not ended. Arrays cannot be written to (``read_only``); tests and
``wattqueue check`` hold that a part writes to nothing else, and does not depend on jobs that are submitted later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.kernels import codes
from wattqueue.policy.actions import latest_start_s, unit_is_free
from wattqueue.policy.state_view import StateView

if TYPE_CHECKING:
    from wattqueue.policy.device_power import DevicePower
    from wattqueue.policy.fitting import Fitting, FittingList
    from wattqueue.policy.state_view import Floats, Ints

UNIT_STATE_NAMES = ("on", "stopping", "off", "booting", "down", "draining")
"""States of units, by their number in ``kernels/codes.py``."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A reservation of the last pass: a start that running jobs and others must not delay."""

    entry: int
    """Row of the entry in ``Entries``."""
    time_s: float
    """When it is expected to start, seconds on the clock of ``View.now_s``."""
    net_w: float
    """What the ledger counts for it then, as ``View.net_watts``: on its partition's worst units, at the lowest
    frequency of its window."""


@dataclass(slots=True, eq=False)
class View(StateView):
    """The scheduler's world now. Times in seconds on the trace's clock, watts in the cap's scope.

    Arrays show the driver's memory and cannot be written to.
    """

    _fitting: FittingList | None = field(default=None, init=False, repr=False)

    def consented_windows(self, jobs: Ints) -> tuple[Ints, Ints]:
        """Return the first option of running jobs, and the last to which their users consent for a target. Shapes (k,).

        Equal where they do not (rule 20 of docs/semantics.md).
        """
        first, _ = self.job_windows(jobs)
        entry = self._own.entries.of_job[jobs, self.machine.option_partition[self._own.held.option[jobs]]]
        return first, np.where(entry < 0, first, self._own.consent.last[entry]).astype(np.int32)

    def may_slow(self, jobs: Ints, options: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which running jobs may go on at an option each for a load target, by their consent. Shapes (k,)."""
        from wattqueue.policy import consented

        return consented.may_slow(self, jobs, self.time_factors_of(jobs, options))

    def latest_start_s(self, job: int) -> float:
        """Return until when the user of a waiting job consents that its start is delayed; -inf for not at all.

        So that it can still end by its ``latest_end_s`` after its whole walltime at the first option of its window.
        """
        return latest_start_s(self._own, self.jobs.consent, job)

    def may_park(self, jobs: Ints) -> NDArray[np.bool_]:
        """Return which running jobs may be suspended or requeued for a load target, by their consent. Shape (k,)."""
        from wattqueue.policy import consented

        return consented.may_park(self, jobs)

    def kept_work_s(self, jobs: Ints) -> Floats:
        """Return the work of running jobs up to their last checkpoint, NaN for jobs without checkpoints. Shape (k,).

        Since their last start, in seconds at reference speed: what a requeue keeps.
        """
        from wattqueue.policy import consented

        return consented.checkpoints(self, jobs)[0]

    @property
    def fitting(self) -> Fitting:
        """Return the queued entries that fit now, with the options at which they do, as arrays.

        By units and by watts below the cap. A power domain may still refuse a start of them (rule 22).
        """
        listing = self._fitting
        if listing is None:
            from wattqueue.policy.fitting import FittingList

            listing = self._fitting = FittingList(self._own)
        return listing.now()

    @property
    def promises(self) -> list[Promise]:
        """Return the reservations of the last pass that have a time (rule 8 of docs/semantics.md), by partition.

        Of passes that reserve: EASY, one a partition. A plan of conservative backfilling is not listed.
        """
        reserved, found = self._own.reserved, []
        for entry, time_s in zip(reserved.entry.tolist(), reserved.time.tolist(), strict=True):
            if entry < 0 or time_s == np.inf or self.job_option(self.entry_job(entry)) >= 0:
                continue
            worst = self._own.by_unit.worst
            if len(self._own.by_unit.factors.table):
                net_w = float(worst[entry]) / codes.MICRO
            else:
                net_w = self.net_watts(self.entry_job(entry), self.entry_options(entry)[-1])
            found.append(Promise(entry, time_s, net_w))
        return found

    @property
    def device_w(self) -> Floats:
        """Return the measured watts of each device, NaN where a sensor shows nothing. Shape (D,).

        A device that shares a sensor with others has an even share of it by units. Where agents set limits, it is what
        they read. Raises: PolicyError where nothing measures.
        """
        from wattqueue.policy.device_power import sampled_w
        from wattqueue.policy.state_view import read_only

        if self.limits is not None:
            return read_only(self.limits.power_w)
        if not len(self._own.measured.sample_uw):
            raise PolicyError("nothing measures the power of its units", where=self.machine.name)
        return sampled_w(self)

    @property
    def device_power(self) -> DevicePower | None:
        """Return what devices draw, measured or, where no reading says it, predicted; None if nothing measures.

        A reading that stands still counts only where it is above the prediction (rule 16 of docs/semantics.md).
        """
        from wattqueue.policy.device_power import device_power

        return device_power(self)

    @property
    def sensor_w(self) -> Floats:
        """Return the latest watts of each power sensor; NaN where the sample is missing or stale. Shape (S,).

        S is 0 where nothing measures. The units of a sensor are those of ``machine.sensor_start``.
        """
        sample = self._own.measured.sample_uw
        return np.where(sample < 0, np.nan, sample / codes.MICRO)

    @property
    def units_on(self) -> Ints:
        """Return the units that are up, busy or idle. Shape (k,), rising, as for the other states."""
        return self._units(codes.UNIT_ON)

    @property
    def units_stopping(self) -> Ints:
        """Return the units that are shutting down."""
        return self._units(codes.UNIT_STOPPING)

    @property
    def units_off(self) -> Ints:
        """Return the units that were shut down; ``WakeNode`` boots one."""
        return self._units(codes.UNIT_OFF)

    @property
    def units_booting(self) -> Ints:
        """Return the units that are booting; they take no job yet."""
        return self._units(codes.UNIT_BOOTING)

    @property
    def units_down(self) -> Ints:
        """Return the units that have failed."""
        return self._units(codes.UNIT_DOWN)

    @property
    def units_draining(self) -> Ints:
        """Return the units that take no new job, and stop when the jobs on their nodes have ended."""
        return self._units(codes.UNIT_DRAINING)

    def unit_state_of(self, unit: int) -> str:
        """Return the state of a unit in a word: on, stopping, off, booting, down or draining."""
        return UNIT_STATE_NAMES[self.unit_state[unit]]

    def _units(self, state: int) -> Ints:
        """Return the numbers of the units in one state of ``kernels/codes.py``."""
        return np.flatnonzero(self.unit_state == state).astype(np.int32)

    def unit_is_free(self, unit: int) -> bool:
        """Return whether a unit is powered, up and without a job."""
        return unit_is_free(self._own, unit)
