"""Teach from jobs that ended: measured jobs are stored, and train the estimator and the application database."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wattqueue.errors import WattQueueError
from wattqueue.live.extension import Extension, beside
from wattqueue.live.features.applications import Applications
from wattqueue.live.features.learning import MeasuredJobs
from wattqueue.live.features.run_history import RunHistory
from wattqueue.live.planner import RoundState
from wattqueue.live.predictor import Predictor
from wattqueue.live.requests import MeasuredJob, ObservedJob
from wattqueue.live.telemetry.base import JobSource
from wattqueue.policy.corrected import base_of
from wattqueue.policy.interfaces import stated

ACCOUNTING_S = 60.0
"""Time between two reads of the accounting: it may take a second on a busy system, and nothing waits for it."""


@dataclass
class Teacher:
    """What a controller does with jobs that end.

    Jobs that telemetry did not measure are looked up in the accounting, if there is one, once a minute and only
    while there are any. A failure there is ignored: they are looked up again a minute later.
    """

    predictor: Predictor
    measured_jobs: MeasuredJobs
    run_history: RunHistory
    """Run times of ended jobs, where the policy predicts any."""
    accounting: JobSource | None = None
    applications: Applications | None = None
    asked_s: float = 0.0
    """When the accounting was read last."""
    since_s: float = math.inf
    """Submission of the oldest job that was running when the last controller ended, and is looked for."""

    def began(self, jobs: Sequence[ObservedJob]) -> None:
        """Remember jobs that run, if the accounting may report the energy of one that ends while nobody looks."""
        if self.accounting is not None and jobs:
            self.measured_jobs.began(jobs)

    def left_running(self) -> list[ObservedJob]:
        """Return the jobs that ran when the last controller ended: some may have ended since."""
        if self.accounting is None:
            return []
        found = self.measured_jobs.running()
        self.since_s = min((ran.request.key.submit_s for ran in found), default=math.inf)
        if found:
            self.asked_s = -math.inf  # in the first round, not a minute later
        return found

    def measured(self, jobs: Sequence[MeasuredJob]) -> list[MeasuredJob]:
        """Store jobs that telemetry measured; return those that were not stored before.

        What is already stored is not learned twice: after a restart the cluster may show the same end again.
        """
        fresh = self.measured_jobs.keep(jobs)
        if self.accounting is not None:
            self.measured_jobs.forget([one.request.key for one in jobs])
        estimator: Any = base_of(self.predictor.session.estimation.part)
        applications = self.applications
        if applications is not None and applications.learn(fresh) and "profiles" in stated(estimator, "reads", ()):
            estimator.profiles = applications.profiles()
        return fresh

    def unmeasured(self, ran: ObservedJob, now_s: float) -> None:
        """Remember a job that ended unmeasured, if the accounting may still report its energy."""
        if self.accounting is not None:
            self.measured_jobs.ended(ran, now_s)

    def after_round(self, now_s: float) -> None:
        """Look up the remembered jobs, if a minute has passed, and train the estimator with those that are found."""
        gone = self.measured_jobs.gone
        if self.accounting is None or now_s - self.asked_s < ACCOUNTING_S or not gone:
            return
        # an hour earlier than the first missing end: accounting receives ends late while its database was down
        since_s = min(self.since_s, min(at for _, at in gone.values()) - 3600.0)
        self.asked_s = now_s
        try:
            found = self.measured_jobs.from_accounting(self.accounting.finished(since_s))
        except WattQueueError:
            return
        self.predictor.learn(self.measured(found))


def teacher_extension(teacher: Teacher) -> Extension:
    """Return the stages by which jobs that run and that have ended are stored: no decision depends on it."""

    def store(now: RoundState) -> None:
        if now.measured:
            teacher.measured(now.measured)
        for ran in now.unmeasured:
            teacher.unmeasured(ran, now.now_s)

    def store_runs(now: RoundState) -> None:
        if now.ended:
            teacher.run_history.keep(now.ended)

    def learned(now: RoundState) -> None:
        beside("the run times", store_runs)(now)
        beside("the measured jobs", store)(now)

    return Extension({
        "learned": learned,
        "planned": beside("the running jobs", lambda now: teacher.began(now.began)),
        "report": beside("accounting", lambda now: teacher.after_round(now.now_s)),
    }, keeps=teacher)  # fmt: skip
