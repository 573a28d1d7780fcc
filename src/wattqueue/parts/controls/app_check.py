"""Jobs that are not the application they claim: found while they run, and given the frequency that suits them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.app_check import Tolerance, Verdict, better_frequency, judge
from wattqueue.model.ear import Coefficients, Metrics, at_frequency
from wattqueue.parts.actions import Action, SetFrequency
from wattqueue.parts.efficiency import check

if TYPE_CHECKING:
    from wattqueue.policy.view import View

Measure = Callable[["View", int], "Metrics | None"]
"""Metrics of one running job since its start or last change of frequency; None while there are none."""
Report = Callable[[str, str, str, str, float, float], None]
"""(job id, user, claimed application, found application or empty, distance, time): a user's record."""


class AppCheck:
    """Each running job is measured once after ``settle_s``; a misfit changes its frequency and is reported.

    ``applications`` and ``coefficients`` are those of the application database, by hardware
    configuration; ``configurations`` names that of each option (the partition's name otherwise).
    A job of an unknown application claims nothing, but gets its frequency too: "for the first run, optimal
    frequency is set at runtime as soon as data is available" (section 3.2).

    Raises: PolicyError for a weight that is not positive.
    Reference: paper 1, sections 3.2 and 3.4.
    """

    events: frozenset[str] = frozenset()

    def __init__(
        self,
        *,
        apps: Sequence[str] = (),
        applications: Mapping[str, Metrics] | None = None,
        coefficients: Mapping[str, Coefficients] | None = None,
        measure: Measure | None = None,
        report: Report | None = None,
        tolerance: Tolerance | None = None,
        t_weight: float = 1.0,
        settle_s: float = 60.0,
        period_s: float = 60.0,
    ) -> None:
        check(t_weight, "text")
        self.apps, self.applications, self.coefficients = tuple(apps), applications or {}, coefficients or {}
        self.measure, self.report = measure, report
        self.tolerance, self.t_weight = tolerance or Tolerance(), t_weight
        self.settle_s, self.period_s = settle_s, period_s
        self._seen: dict[int, float] = {}
        self._judged: set[int] = set()

    def act(self, view: View) -> Sequence[Action]:
        """A change of frequency for each job that was judged now and runs at another than the best for it."""
        running = {int(job) for job in view.running}
        self._seen = {job: self._seen.get(job, view.now_s) for job in running}
        self._judged &= running
        actions = []
        for job in sorted(running - self._judged):
            if self.measure is None or view.now_s - self._seen[job] < self.settle_s:
                continue
            seen = self.measure(view, job)
            if seen is None:
                continue
            self._judged.add(job)
            option = self._option_for(view, job, seen)
            if option != view.job_option(job):
                actions.append(SetFrequency(job, option))
        return actions

    def _option_for(self, view: View, job: int, seen: Metrics) -> int:
        """The option at which a measured job should go on: its own, unless it is not what it claims."""
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
        """Row of the application that the job's user named; -1 for none, or one that has no entry."""
        code = int(view.jobs.app.codes[job])
        name = view.jobs.app.names[code] if code >= 0 else ""
        return self.apps.index(name) if name in self.apps else -1

    def _verdict(self, name: str, table: Coefficients, seen: Metrics, now_hz: float, claimed: int) -> Verdict:
        known = self.applications.get(name)
        if known is None:
            return Verdict(float("nan"), -1)
        try:
            expected = at_frequency(table, known, table.nominal_hz, now_hz)
        except InputError:
            return Verdict(float("nan"), -1)
        return judge(seen, expected, claimed, self.tolerance)

    def _tell(self, view: View, job: int, claimed: int, verdict: Verdict) -> None:
        user = int(view.jobs.user.codes[job])
        found = self.apps[verdict.found] if verdict.found >= 0 else ""
        who = view.jobs.user.names[user] if user >= 0 else ""
        if self.report is not None:
            self.report(str(view.jobs.job_id[job]), who, self.apps[claimed], found, verdict.distance, view.now_s)
