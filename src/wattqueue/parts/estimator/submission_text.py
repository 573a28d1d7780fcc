"""Ridge regression on hashed n-grams of job name and script, trained again every week."""

from __future__ import annotations

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Floats
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.parts.estimator._weekly import Model, WeeklyBase
from wattqueue.parts.online import Completions, Target
from wattqueue.parts.timeline import WEEK_S


class SubmissionText(WeeklyBase):
    """``submitted_text.TextPower`` trained on the latest jobs that finished before the current week.

    The job name is the column ``app``; scripts, command lines and job environments are read where the job table has
    them (``script``, ``submit_line``, ``job_environment``).

    Args:
        target, completions, seed, fewest, period_s: As of ``WeeklyBase``.
        alpha: Strength of the ridge.
        fit_rows: Jobs that a model is trained on, the latest ones.

    Raises: PolicyError for figures out of range.
    Reference: texts of the submission, Antici et al., Scientific Data 12 (2025); n-grams and model are ours.
    """

    def __init__(
        self,
        *,
        target: Target = "mean",
        completions: Completions = "simulated",
        seed: int = 0,
        fewest: int = 50,
        period_s: float = WEEK_S,
        alpha: float = 1.0,
        fit_rows: int = 20_000,
    ) -> None:
        super().__init__(target=target, completions=completions, seed=seed, fewest=fewest, period_s=period_s)
        if not (0.0 < alpha < np.inf and fit_rows >= 1):
            raise PolicyError(
                f"{alpha=}, {fit_rows=}", where="alpha, fit_rows", hint="use a number above 0, and 1 job or more"
            )
        self.alpha, self.fit_rows = alpha, fit_rows

    def further(self, jobs: KnownJobs) -> Floats:
        """Hash the texts of all jobs, and return the number of each job. Shape (n, 1)."""
        from wattqueue.parts.submitted_text import SubmittedText

        self._texts = SubmittedText(jobs)
        return np.arange(len(jobs), dtype=np.float64)[:, np.newaxis]

    def model(self) -> Model:
        """Return an untrained model."""
        from wattqueue.parts.submitted_text import TextPower

        return TextPower(self._texts, alpha=self.alpha, fit_rows=self.fit_rows)
