"""Models that are trained anew at the end of every week, on the jobs that had finished by then."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.past import Past
from wattqueue.parts.contracts import Ints
from wattqueue.parts.estimator._history import HistoryBase, history_columns
from wattqueue.parts.estimator._online import Completions, Target, measured
from wattqueue.parts.features import ASKED, FEATURES, asked_features, lagged_features
from wattqueue.parts.timeline import Timeline

WEEK_S = 7 * 86_400.0


class Model(Protocol):
    """What a part trains: any estimator of scikit-learn's kind."""

    def fit(self, X: Floats, y: Floats) -> object: ...

    def predict(self, X: Floats) -> Floats: ...


class WeeklyBase(HistoryBase):
    """Features of Table 1, retrained at t(w) on jobs with C_j < t(w); until there is a model, history.

    t(w) counts weeks from the first submission. A model needs ``fewest`` measured jobs to train on;
    with fewer, history goes on for another week. ``seed`` decides what is drawn at random; ``period_s``
    is the length of a "week", for traces that last but days.

    Raises: PolicyError for a period that is not above 0.

    Reference: paper 4, section 4.2, eq. 4-6.
    """

    def __init__(
        self,
        *,
        target: Target = "mean",
        completions: Completions = "simulated",
        seed: int = 0,
        fewest: int = 50,
        period_s: float = WEEK_S,
    ) -> None:
        super().__init__(target=target, completions=completions, asked="weekly")
        if not period_s > 0:
            raise PolicyError(f"period_s {period_s}", mend="use seconds above 0; the paper retrains every 604800")
        self.seed, self.fewest, self.period_s = seed, fewest, float(period_s)
        self._trained: Model | None = None
        self._origin_s, self._weeks = 0.0, 0
        self._asked: Floats = np.zeros((0, ASKED))
        self._table: Floats = np.zeros((0, len(FEATURES)))
        self._done: list[tuple[Ints, Floats, Floats]] = []

    width = 1
    """How many figures ``apply`` gives for a job."""

    @abstractmethod
    def model(self) -> Model:
        """A new model, untrained."""

    def ask(self, model: Model, table: Floats) -> Floats:
        """What a trained model says of jobs with these features. Shape (k, width)."""
        return model.predict(table)[:, np.newaxis]

    def reset(self, jobs: Jobs) -> None:
        super().reset(jobs)
        self._trained, self._weeks, self._done = None, 0, []
        self._origin_s = float(jobs.submit_s.min()) if len(jobs) else 0.0
        self._asked = asked_features(jobs)
        self._table = np.full((len(jobs), len(FEATURES)), np.nan)

    def remember(self, past: Past) -> None:
        """Refused: a model trains on features as they stood at each submission, which a past does not have."""
        raise PolicyError(
            "learns features, and cannot begin with what ended before the run",
            where=type(self).__name__,
            mend="use a history estimator, or a run that begins with the trace",
        )

    def watts(self, rows: Ints, now_s: float) -> Floats:
        return self.answer_rows(rows, now_s)[:, 0]

    def answer_rows(self, rows: Ints, now_s: float) -> Floats:
        """Figures for jobs that arrive now. Shape (k, width)."""
        self._retrain(now_s)
        self._table[rows] = np.column_stack((self._asked[rows], lagged_features(self.lags(rows, now_s))))
        if self._trained is None:
            return self._apply(None, self._table[rows])
        with one_thread():
            return self._apply(self._trained, self._table[rows])

    def take_in(self, rows: Ints, end_s: Floats, watts: Floats) -> None:
        super().take_in(rows, end_s, watts)
        self._done.append((rows, end_s, watts))

    def replay_watts(self, jobs: Jobs, line: Timeline, watts: Floats) -> Floats:
        return self.answer_trace(jobs, line, watts)[:, 0]

    def answer_trace(self, jobs: Jobs, line: Timeline, watts: Floats) -> Floats:
        """Figures for every job of a trace at its submission. Shape (n, width)."""
        lags = history_columns(self.state(jobs), jobs, line, watts)
        table = np.column_stack((asked_features(jobs), lagged_features(lags)))
        ended = line.by_end
        answer = np.empty((len(jobs), self.width))
        with one_thread():
            for rows, until_s in weeks(jobs, line, self.period_s):
                before = int(np.searchsorted(line.end_s[ended], until_s, side="left"))
                answer[rows] = self._apply(self._fit(table, ended[:before], watts[ended[:before]]), table[rows])
        return answer

    def _retrain(self, now_s: float) -> None:
        """At the first question after the end of a week: train on what had ended before that end."""
        week = int((now_s - self._origin_s) // self.period_s)
        if week <= self._weeks:
            return
        self._weeks = week
        if not self._done:
            return
        rows, end_s, watts = (np.concatenate(part) for part in zip(*self._done, strict=True))
        self._done = [(rows, end_s, watts)]
        before = int(np.searchsorted(end_s, self._origin_s + week * self.period_s, side="left"))
        with one_thread():
            self._trained = self._fit(self._table, rows[:before], watts[:before])

    def _fit(self, table: Floats, rows: NDArray[np.integer], watts: Floats) -> Model | None:
        """A trained model; None where there is too little to train on. ``watts`` are those of ``rows``."""
        good = measured(watts) & ~np.isnan(table[rows]).any(axis=1)
        if int(good.sum()) < max(self.fewest, 1):
            return None
        model = self.model()
        model.fit(table[rows[good]], watts[good])
        return model

    def _apply(self, model: Model | None, table: Floats) -> Floats:
        """Figures by the model; by history where there is none, or nothing is known of the past."""
        answer = np.repeat(table[:, ASKED : ASKED + 1], self.width, axis=1)
        known = ~np.isnan(table).any(axis=1)
        if model is not None and known.any():
            answer[known] = self.ask(model, table[known])
        return answer


def one_thread() -> AbstractContextManager[object]:
    """No threads below scikit-learn: the same sums in the same order, and no spinning beside other work."""
    limit: AbstractContextManager[object] = _libraries().limit(limits=1)
    return limit


@cache
def _libraries() -> Any:
    """The thread pools of this process, looked up once after scikit-learn has loaded its own."""
    import sklearn.ensemble  # noqa: F401 - brings its OpenMP library
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def weeks(jobs: Jobs, line: Timeline, period_s: float = WEEK_S) -> list[tuple[NDArray[np.int64], float]]:
    """Rows submitted in each week with a submission, and when that week began."""
    if len(jobs) == 0:
        return []
    submit = jobs.submit_s[line.by_submit]
    week = ((submit - submit[0]) // period_s).astype(np.int64)
    first = np.flatnonzero(np.diff(week, prepend=-1))
    rows = np.split(line.by_submit, first[1:])
    return [(r, float(submit[0] + week[f] * period_s)) for r, f in zip(rows, first, strict=True)]
