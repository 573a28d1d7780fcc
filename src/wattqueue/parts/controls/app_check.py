"""Detect running jobs that are not the application they claim, report them, and correct their frequency.

EAMC chooses a frequency from the profile of the application that the user names. A job that runs something else would
run at an unsuitable one, and users could claim an application to get a better partition. After ``warm_up_s`` of
running, one measurement (CPI, memory transactions, watts) is compared with the profile of the claimed application at
the job's frequency (``model.app_check``)::

    fits                  nothing happens
    does not fit          reported with the application that it does fit; frequency by eq. 4 from the measurement
    unknown application   frequency by eq. 4 from the measurement

Each job is measured once. The measurement comes from outside (``measure``): live operation passes a function that
reads telemetry. Without one this control does nothing, so a run that cannot measure refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.app_check import ClaimVerdict, Tolerance, better_frequency, judge
from wattqueue.model.ear import Coefficients, Signatures, at_frequency
from wattqueue.parts.actions import Action, SetFrequency
from wattqueue.parts.efficiency import check

if TYPE_CHECKING:
    from wattqueue.policy.view import View

Measure = Callable[["View", int], "Signatures | None"]
"""Returns the metrics of one running job since its start or last change of frequency; None while there are none."""
Report = Callable[[str, str, str, str, float, float], None]
"""Called with (job id, user, claimed application, found application or empty, distance, time in s)."""


class AppCheck:
    """Measure each running job once after ``warm_up_s``; report a false claim and correct the frequency.

    ``applications`` and ``coefficients`` are those of the application database, by hardware
    configuration, which has the partition's name. A job of an unknown application claims nothing, but gets its
    frequency too: "for the first run, optimal frequency is set at runtime as soon as data is available" (section 3.2).

    Raises: PolicyError for a weight that is not positive.
    Reference: paper 1, sections 3.2 and 3.4.
    """

    reads_counters: ClassVar[bool] = True
    events: frozenset[str] = frozenset()
    """None: woken by its period only."""

    def __init__(
        self,
        *,
        apps: Sequence[str] = (),
        applications: Mapping[str, Signatures] | None = None,
        coefficients: Mapping[str, Coefficients] | None = None,
        measure: Measure | None = None,
        report: Report | None = None,
        tolerance: Tolerance | None = None,
        t_weight: float = 1.0,
        warm_up_s: float = 60.0,
        period_s: float = 60.0,
    ) -> None:
        check(t_weight, "text")
        self.apps, self.applications, self.coefficients = tuple(apps), applications or {}, coefficients or {}
        self.measure, self.report = measure, report
        self.tolerance, self.t_weight = tolerance or Tolerance(), t_weight
        self.warm_up_s, self.period_s = warm_up_s, period_s
        self.begin()

    def begin(self) -> None:
        """Forget the jobs of a run before."""
        # Time at which each running job was first seen running, and the jobs that need no further measurement, by name:
        # a row is another job in the next round. Both drop jobs that ended, so memory is bounded by the running jobs.
        self._seen: dict[str, float] = {}
        self._judged: set[str] = set()

    @property
    def missing(self) -> str:
        """Return what this part needs and was not given; the loader of policies refuses such a part."""
        return "" if self.measure is not None else "a source of measurements (measure=..., from Python)"

    def act(self, view: View) -> Sequence[Action]:
        """Return a change of frequency for each job that was measured now and runs at another than its best one."""
        running = {view.job_id(row): int(row) for row in np.sort(view.running)}
        self._seen = {job: self._seen.get(job, view.now_s) for job in running}
        self._judged &= running.keys()
        actions = []
        for job, row in running.items():
            if job in self._judged or self.measure is None or view.now_s - self._seen[job] < self.warm_up_s:
                continue
            seen = self.measure(view, row)
            if seen is None:
                continue
            self._judged.add(job)
            option = self._option_for(view, row, seen)
            if option != view.job_option(row):
                actions.append(SetFrequency(job, option))
        return actions

    def _option_for(self, view: View, job: int, seen: Signatures) -> int:
        """Return the option at which a measured job should continue: its present one, unless its claim is false."""
        now = view.job_option(job)
        p = int(view.machine.option_partition[now])
        name, now_hz = view.machine.partitions[p].name, float(view.machine.option_frequency_hz[now])
        table = self.coefficients.get(name)
        if table is None:
            return now
        claimed = self._claim(view, job)
        verdict = self._verdict(name, table, seen, now_hz, claimed)
        if claimed >= 0 and verdict.fits:
            return now
        if claimed >= 0 and self.report is not None:
            self._tell(view, job, claimed, verdict)
        wanted = better_frequency(seen, table, now_hz, self.t_weight)
        first, last = int(view.machine.option_start[p]), int(view.machine.option_start[p + 1])
        return first + int(np.argmin(np.abs(view.machine.option_frequency_hz[first:last] - wanted)))

    def _claim(self, view: View, job: int) -> int:
        """Return the row of the application that the job's user named; -1 for none, or one without a profile."""
        code = int(view.jobs.app.codes[job])
        name = view.jobs.app.names[code] if code >= 0 else ""
        return self.apps.index(name) if name in self.apps else -1

    def _verdict(self, name: str, table: Coefficients, seen: Signatures, now_hz: float, claimed: int) -> ClaimVerdict:
        """Compare a measurement with all profiles projected to the job's frequency; no profiles, no verdict (NaN)."""
        known = self.applications.get(name)
        if known is None:
            return ClaimVerdict(float("nan"), -1)
        try:
            expected = at_frequency(table, known, table.nominal_hz, now_hz)
        except InputError:
            return ClaimVerdict(float("nan"), -1)
        return judge(seen, expected, claimed, self.tolerance)

    def _tell(self, view: View, job: int, claimed: int, verdict: ClaimVerdict) -> None:
        """Report a false claim."""
        user = int(view.jobs.user.codes[job])
        found = self.apps[verdict.found] if verdict.found >= 0 else ""
        who = view.jobs.user.names[user] if user >= 0 else ""
        if self.report is not None:
            self.report(view.job_id(job), who, self.apps[claimed], found, verdict.distance, view.now_s)
