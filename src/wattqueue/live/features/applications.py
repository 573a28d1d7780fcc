"""Connect a live policy to the application database: EAR's profiles out of it, measured jobs into it.

Telemetry measures watts and time, not instructions. A measured job therefore updates the time and
watts of its application's entry, and takes CPI and TPI from the entry, projected to the frequency at
which the job ran. An application without an entry cannot be learned in this way; it comes in through
EAR's own accounting (``wattqueue apps import``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError
from wattqueue.formats.ear.files import read_coefficients_csv
from wattqueue.live.requests import MeasuredJob
from wattqueue.model.app_profiles import AppProfiles
from wattqueue.model.ear import Coefficients, Signatures, at_frequency
from wattqueue.policy.corrected import base_of, with_base
from wattqueue.policy.interfaces import stated
from wattqueue.policy.registry import Policy
from wattqueue.store.applications import ApplicationDatabase, AppRun, Entry


@dataclass
class Applications:
    """The database of entries by (application, hardware configuration), and EAR's coefficients."""

    database: ApplicationDatabase
    coefficients: Mapping[str, Coefficients]
    """By hardware configuration, which live is the name of the machine partition."""
    first_run: str = "estimate"
    """What happens to an application on hardware on which it never ran: ``estimate`` or ``trial``."""

    @classmethod
    def open(cls, url: str, coefficients: Path, first_run: str) -> Applications:
        """Open a database by URL or file, and read coefficients from a CSV.

        Raises: InputError where either cannot be read.
        """
        return cls(ApplicationDatabase.open(url), read_coefficients_csv(coefficients), first_run)

    def into(self, policy: Policy) -> Policy:
        """Return the policy with an estimator that uses these profiles.

        Raises: InputError for a policy whose estimator does not use application profiles.
        """
        if "profiles" not in stated(base_of(policy.estimator), "reads", ()):
            text = f"the estimator of policy {policy.name} does not use application profiles"
            raise InputError(
                text, where="applications", hint="leave the section out, or use a policy with estimator ear"
            )
        on_new = "trial" if self.first_run == "trial" else "skip"
        estimator: Any = type(base_of(policy.estimator))
        known = estimator(profiles=self.profiles(), on_new_hardware=on_new)
        return replace(policy, estimator=with_base(policy.estimator, known))

    def profiles(self) -> AppProfiles:
        """Return time and watts of every known application at every frequency, from the present entries."""
        return self.database.profiles(self.coefficients, self.first_run)

    def learn(self, jobs: Sequence[MeasuredJob]) -> int:
        """Update the entries of measured jobs, and return how many jobs were used.

        Jobs of unknown applications or hardware, and those without a positive time and power, are
        left out: they cannot be projected to the entry's frequency.
        """
        runs = [run for job in jobs for run in [self._run(job)] if run is not None]
        return self.database.learn(runs, self.coefficients) if runs else 0

    def _run(self, job: MeasuredJob) -> AppRun | None:
        """Return a measured job as a run of its application; None where it cannot be used."""
        table, entry = self.coefficients.get(job.hardware), self.database.entry(job.request.app, job.hardware)
        seconds = job.end_s - job.start_s
        if table is None or entry is None or not (seconds > 0 and job.mean_node_w > 0):
            return None
        ran_hz = table.nominal_hz if math.isnan(job.frequency_hz) else job.frequency_hz
        try:
            there = at_frequency(table, _metrics(entry), entry.frequency_hz, ran_hz)
        except InputError:
            return None
        cpi, tpi = float(there.cpi[0]), float(there.tpi[0])
        return AppRun(job.request.app, job.hardware, ran_hz, seconds, job.mean_node_w, cpi, tpi)


def _metrics(entry: Entry) -> Signatures:
    """Return the signature of a database entry, as EAR's model takes it."""
    return Signatures.of(entry.time_s, entry.power_w, entry.cpi, entry.tpi)
