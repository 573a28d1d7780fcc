"""Quantiles by histogram gradient boosting, corrected user by user: an estimator that says how sure it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Ints, Prediction
from wattqueue.parts.estimator._online import Completions, Target
from wattqueue.parts.estimator._weekly import WEEK_S, Model, WeeklyBase
from wattqueue.parts.timeline import Timeline, job_watts, trace_timeline

if TYPE_CHECKING:
    from wattqueue.kernels.conformal import Scores
    from wattqueue.parts.regressors import QuantilePower


class GradientQuantiles(WeeklyBase):
    """Watts that a job stays below with each probability of ``quantiles``; ``at`` is the one that counts.

    Models are trained every week on the features of Table 1; in week 0 every quantile starts from the
    history. Each is then shifted by the conformal correction of the user's last ``own_scores`` jobs, or
    of everybody's last ``all_scores`` where the user has too few: below ``own_fewest``, and below the 9
    that p90 and the 99 that p99 need.

    Raises: PolicyError for quantiles outside (0, 1), or an ``at`` that is none of them.

    Reference: beyond paper 4; Romano, Patterson and Candes, Conformalized quantile regression (2019).
    """

    def __init__(
        self,
        *,
        target: Target = "mean",
        completions: Completions = "simulated",
        seed: int = 0,
        fewest: int = 50,
        period_s: float = WEEK_S,
        quantiles: tuple[float, ...] = (0.5, 0.9, 0.99),
        at: float = 0.5,
        own_scores: int = 128,
        own_fewest: int = 20,
        all_scores: int = 2_048,
    ) -> None:
        super().__init__(target=target, completions=completions, seed=seed, fewest=fewest, period_s=period_s)
        if not quantiles or list(quantiles) != sorted(set(quantiles)) or not all(0.0 < q < 1.0 for q in quantiles):
            raise PolicyError(f"quantiles {quantiles}", mend="use rising figures between 0 and 1")
        if at not in quantiles:
            raise PolicyError(f"at {at}", mend=f"use one of {', '.join(map(str, quantiles))}")
        if min(own_scores, own_fewest, all_scores) < 1:
            raise PolicyError(f"{own_scores}, {own_fewest} and {all_scores} scores", mend="use 1 or more of each")
        self.quantiles, self.at, self.all_scores = tuple(quantiles), at, all_scores
        self.own_scores, self.own_fewest = own_scores, own_fewest
        self._scores: Scores | None = None
        self._raw: Floats = np.zeros((0, len(quantiles)))
        self.width = len(quantiles)

    def model(self) -> Model:
        from wattqueue.parts.regressors import QuantilePower

        return QuantilePower(quantiles=self.quantiles, random_state=self.seed)

    def ask(self, model: Model, table: Floats) -> Floats:
        return cast("QuantilePower", model).predict_quantiles(table)

    def reset(self, jobs: Jobs) -> None:
        super().reset(jobs)
        self._scores = self._new_scores(len(jobs.user.names))
        self._raw = np.full((len(jobs), len(self.quantiles)), np.nan)

    def predict(self, jobs: Jobs, machine: Machine) -> Prediction:
        """As every estimator that learns; ``quantiles`` are filled too."""
        start = super().predict(jobs, machine)
        if self.asked == "once":
            found = self.replay_quantiles(jobs, trace_timeline(jobs))
            return replace(start, quantiles=self._by_quantile(found))
        return replace(start, quantiles=dict.fromkeys(self.quantiles, start.power_w))

    def predict_quantiles(self, rows: Ints, now_s: float) -> dict[float, Floats]:
        """Watts of one unit by quantile for the jobs that arrive now. Shapes (k, O)."""
        return self._by_quantile(self._corrected(rows, now_s))

    def replay_quantiles(self, jobs: Jobs, line: Timeline) -> Floats:
        """Every job's corrected quantiles at its submission. Shape (n, Q)."""
        return self._replay(jobs, line, job_watts(jobs, self.target))

    def watts(self, rows: Ints, now_s: float) -> Floats:
        return self._corrected(rows, now_s)[:, self.quantiles.index(self.at)]

    def take_in(self, rows: Ints, end_s: Floats, watts: Floats) -> None:
        from wattqueue.kernels.conformal import conformal_take

        super().take_in(rows, end_s, watts)
        conformal_take(self._known_scores(), self._user[rows], self._raw[rows], watts)

    def replay_watts(self, jobs: Jobs, line: Timeline, watts: Floats) -> Floats:
        return self._replay(jobs, line, watts)[:, self.quantiles.index(self.at)]

    def _replay(self, jobs: Jobs, line: Timeline, watts: Floats) -> Floats:
        from wattqueue.kernels.conformal import Walk, conformal_walk

        raw = self.answer_trace(jobs, line, watts)
        out = np.empty_like(raw)
        walk = Walk(line.by_submit, line.by_end, jobs.submit_s, line.end_s, jobs.user.codes, watts)
        conformal_walk(self._new_scores(len(jobs.user.names)), walk, raw, out)
        return out

    def _corrected(self, rows: Ints, now_s: float) -> Floats:
        from wattqueue.kernels.conformal import conformal_answer

        raw = self.answer_rows(rows, now_s)
        self._raw[rows] = raw
        out = np.empty_like(raw)
        conformal_answer(self._known_scores(), self._user[rows], raw, out)
        return out

    def _by_quantile(self, watts: Floats) -> dict[float, Floats]:
        return {q: self.scale(watts[:, i]) for i, q in enumerate(self.quantiles)}

    def _new_scores(self, users: int) -> Scores:
        from wattqueue.kernels.conformal import Scores

        start = np.append(np.arange(users + 1) * self.own_scores, users * self.own_scores + self.all_scores)
        ring = np.zeros((int(start[-1]), len(self.quantiles)))
        seen = np.zeros(users + 1, np.int64)
        fewest = np.array([self.own_fewest])
        return Scores(np.array(self.quantiles), fewest, start.astype(np.int64), seen, ring, ring.copy())

    def _known_scores(self) -> Scores:
        if self._scores is None:
            raise PolicyError("asked before it was given jobs and machine", where=type(self).__name__)
        return self._scores
