"""The EAR model: watts and run time of a job's application on each partition at each frequency.

Profiles (``model.app_profiles``) come from EAR's coefficients and measured metrics, from the application database, or
from Table 1 of paper 1. This part looks up each job's application and spreads its profile over the machine's options.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.model.app_profiles import AppProfiles, HardwareProfile
from wattqueue.model.eamc_table1 import table1_profiles
from wattqueue.model.ear import SAME_HZ
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.parts.contracts import Asked, Floats, Ints, Prediction
from wattqueue.parts.estimator.user_figure import UserFigure


class Ear:
    """Watts and time factors of known applications, by option.

    A job's run time is taken to be that on ``main`` (default: the machine's first partition) at its
    highest frequency; ``time_coefficient`` and eq. 3 give the others. ``configurations`` names the
    hardware configurations of a partition's nodes (default: one, of the partition's name); where
    there are several, ``with_configurations`` makes the partition whose options they are.

    A frequency without a profile is never offered (watts ``inf``). An application without any profile (first run) is
    offered the highest frequency only, with the user's figure, or else the machine's maximum; the job's own watts are
    unknown at submission. ``on_new_hardware`` decides whether an application that is known on other hardware may make
    such a trial run where it is not (``trial``), or is not offered that partition (``skip``).

    Raises: PolicyError for an unknown choice; InputError for a partition without a profile.
    Reference: paper 1, sections 3.1 to 3.3.
    """

    asked: Asked = "once"
    machine_figures: bool = False
    reads: tuple[str, ...] = ("profiles",)
    """In a policy file ``profiles`` names EAR's coefficients and a table of applications (``policy.row_files``)."""

    def __init__(
        self,
        *,
        profiles: AppProfiles | None = None,
        main: str | None = None,
        configurations: dict[str, tuple[str, ...]] | None = None,
        on_new_hardware: str = "skip",
    ) -> None:
        if on_new_hardware not in ("skip", "trial"):
            raise PolicyError(f"is {on_new_hardware!r}", where="ear: on_new_hardware", hint="use skip or trial")
        self.profiles = table1_profiles() if profiles is None else profiles
        self.main = main
        self.configurations = configurations or {}
        self.on_new_hardware = on_new_hardware

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Return one row per known application, then one for each job without a known one. Shapes (C, O)."""
        power, time = self._known(machine)
        row = self._application(jobs)
        unknown = np.flatnonzero(row < 0)
        if len(unknown):
            fallback = self._first_run(jobs, unknown, machine)
            row[unknown] = len(power) + np.arange(len(unknown))
            power = np.concatenate((power, fallback.power_w))
            time = np.concatenate((time, fallback.time_factor))
        return Prediction(power, time, row)

    def option_configuration(self, machine: Machine) -> tuple[str, ...]:
        """Return the hardware configuration of each option. Shape (O,)."""
        names: list[str] = []
        for p in machine.partitions:
            names += list(self._configurations_of(p.name)) * (p.frequency_count // len(self._configurations_of(p.name)))
        return tuple(names)

    def _configurations_of(self, partition: str) -> tuple[str, ...]:
        """Return the hardware configurations of a partition's nodes; by default one, of the partition's name."""
        return self.configurations.get(partition, (partition,))

    def _application(self, jobs: KnownJobs) -> Ints:
        """Return the row of each job's application, -1 where it has no profile. Shape (n,)."""
        known = {app: i for i, app in enumerate(self.profiles.apps)}
        rows = np.array([*(known.get(name, -1) for name in jobs.app.names), -1], np.int32)
        return rows[jobs.app.codes]

    def _known(self, machine: Machine) -> tuple[Floats, Floats]:
        """Return watts (``inf``: not offered) and relative run times of the known applications. Shapes (A, O)."""
        main = self.profiles.on(self.main or self._configurations_of(machine.partitions[0].name)[0])
        reference = main.time_s[:, 0].copy()
        power, time = [], []
        for name, hz in zip(self.option_configuration(machine), machine.option_frequency_hz, strict=True):
            here = self.profiles.on(name)
            # An application that never ran on the main partition has its first known configuration as reference.
            reference = np.where(np.isnan(reference), here.time_s[:, 0], reference)
            watts, seconds = _at(here, hz)
            power.append(watts)
            time.append(seconds)
        factor = np.stack(time, 1) / reference[:, np.newaxis]
        watts = np.stack(power, 1)
        offered = np.isfinite(watts) & np.isfinite(factor)
        watts, factor = np.where(offered, watts, np.inf), np.where(offered, factor, 1.0)
        if self.on_new_hardware == "trial":
            self._offer_trials(watts, factor, machine)
        return watts, factor

    def _offer_trials(self, watts: Floats, factor: Floats, machine: Machine) -> None:
        """Offer the highest frequency of partitions where an application was never measured, in place."""
        for p, first in enumerate(machine.option_start[:-1]):
            own = slice(first, machine.option_start[p + 1])
            new = ~np.isfinite(watts[:, own]).any(1)
            top = machine.partitions[p].max_w
            watts[new, first] = np.nan if top is None else top
            factor[new, first] = 1.0

    def _first_run(self, jobs: KnownJobs, rows: NDArray[np.int64], machine: Machine) -> Prediction:
        """Return the prediction of jobs whose application has no profile: highest frequencies only. Shapes (k, O)."""
        guess = UserFigure().predict(jobs.take(rows), machine)
        highest = np.zeros(len(machine.option_partition), bool)
        highest[machine.option_start[:-1]] = True
        power = np.where(highest, guess.power_w, np.inf)
        return Prediction(power, np.where(highest, guess.time_factor, 1.0))


def with_configurations(partition: Partition, profiles: AppProfiles, names: tuple[str, ...]) -> Partition:
    """Return a partition whose options are the configurations of its nodes at every frequency that one of them has.

    Each frequency appears once for each name, in their order; ``Ear`` needs the same names, and offers the pairs for
    which there is a profile.

    Reference: paper 1, section 3.1 (different hardware configurations can exist for the same node).
    """
    offered = np.unique(np.concatenate([profiles.on(name).frequency_hz for name in names]))[::-1]
    return replace(partition, frequencies_hz=tuple(np.repeat(offered, len(names)).tolist()))


def _at(profile: HardwareProfile, frequency_hz: float) -> tuple[Floats, Floats]:
    """Return watts and seconds at one frequency, NaN where the profile has none. Shapes (A,)."""
    if np.isnan(frequency_hz):
        # A partition without stated frequencies runs at the nominal one.
        return profile.power_w[:, 0], profile.time_s[:, 0]
    near = np.flatnonzero(np.abs(profile.frequency_hz - frequency_hz) <= SAME_HZ)
    if not len(near):
        nothing = np.full(len(profile.power_w), np.nan)
        return nothing, nothing
    return profile.power_w[:, near[0]], profile.time_s[:, near[0]]
