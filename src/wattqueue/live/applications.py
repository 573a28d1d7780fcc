"""The application database behind a live policy: EAR's profiles out of it, measured jobs into it.

Telemetry measures watts and time, not instructions. So a measured job moves its application's time and
watts, and takes CPI and TPI from the entry, projected to the frequency at which it ran; an application
without an entry waits for EAR's own accounting (``wattqueue apps import``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.formats.ear import read_coefficients_csv
from wattqueue.live.predictor import Learned
from wattqueue.model.app_profiles import Profiles
from wattqueue.model.ear import Coefficients, Metrics, at_frequency
from wattqueue.parts.estimator.ear import Ear
from wattqueue.policy.policy import Policy
from wattqueue.store.applications import ApplicationDatabase, AppRun, Entry


@dataclass
class Applications:
    """Entries by (application, hardware configuration), and the coefficients of each configuration."""

    database: ApplicationDatabase
    coefficients: Mapping[str, Coefficients]
    first_run: str = "estimate"

    @classmethod
    def open(cls, url: str, coefficients: Path, first_run: str) -> Applications:
        """A database by URL or file, and coefficients from a CSV. Raises: InputError for what is neither."""
        return cls(ApplicationDatabase.open(url), read_coefficients_csv(coefficients), first_run)

    def into(self, policy: Policy) -> Policy:
        """The policy, its estimator fed from here. Raises: InputError for one that asks no such database."""
        if not isinstance(policy.estimator, Ear):
            text = f"policy {policy.name} does not ask about applications"
            raise InputError(
                text, where="applications", mend="leave the section out, or use a policy with estimator ear"
            )
        on_new = "trial" if self.first_run == "trial" else "skip"
        return replace(policy, estimator=Ear(profiles=self.profiles(), on_new_hardware=on_new))

    def profiles(self) -> Profiles:
        """What every known application takes and draws at every frequency, as the entries are now."""
        return self.database.profiles(self.coefficients, self.first_run)

    def learn(self, jobs: Sequence[Learned]) -> int:
        """Move the entries of measured jobs; how many of them counted."""
        runs = [run for job in jobs for run in [self._run(job)] if run is not None]
        return self.database.learn(runs, self.coefficients) if runs else 0

    def _run(self, job: Learned) -> AppRun | None:
        table, entry = self.coefficients.get(job.hardware), self.database.entry(job.asked.app, job.hardware)
        seconds = job.end_s - job.start_s
        if table is None or entry is None or not (seconds > 0 and job.mean_node_w > 0):
            return None
        ran_hz = table.nominal_hz if math.isnan(job.frequency_hz) else job.frequency_hz
        try:
            there = at_frequency(table, _metrics(entry), entry.frequency_hz, ran_hz)
        except InputError:
            return None
        cpi, tpi = float(there.cpi[0]), float(there.tpi[0])
        return AppRun(job.asked.app, job.hardware, ran_hz, seconds, job.mean_node_w, cpi, tpi)


def _metrics(entry: Entry) -> Metrics:
    return Metrics.of(entry.time_s, entry.power_w, entry.cpi, entry.tpi)
