"""The estimator of a policy at work: asked, taught and checked in one place, for every driver.

What an estimator answers is checked before a kernel sees it: the shape, and every figure. A simulation ends with a
``PolicyError`` for an answer that cannot be used (``begin``, ``arrive``). A live controller has to go on: it states the
watts at which such jobs count instead, and reports what was wrong (``predict_batch``, ``pop_problems``). Each of its
rounds has a table of its own, on which an estimator that learns is asked from the beginning, so that what it answers
depends on the jobs that ended before and on nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError, WattQueueError
from wattqueue.model import bounds
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Estimator, Finished, Floats, OnlineEstimator, Prediction
from wattqueue.policy.build import check_prediction, check_tables
from wattqueue.policy.by_unit import check_unit_factor, with_worst_case
from wattqueue.policy.interfaces import stated
from wattqueue.policy.lists import parts_in

Rows = NDArray[np.int32]


class EstimatorSession:
    """Asks one estimator.

    Invariant: within one call, completions are learned before submissions are predicted (rule 2 of docs/semantics.md).
    """

    def __init__(self, part: Estimator, online: OnlineEstimator | None) -> None:
        """Take the estimator; ``online`` is the same one where it learns and is asked at each submission."""
        self.part, self.online = part, online
        self.problems: dict[str, None] = {}
        """What was wrong with answers since the problems were last taken, in the order in which it was found."""

    @property
    def name(self) -> str:
        """Return what messages call the estimator."""
        return " + ".join(type(each).__name__ for each in parts_in(self.part))

    @property
    def keeps_base(self) -> bool:
        """Return whether jobs of applications without factors of units keep what is predicted (rule 12)."""
        return bool(stated(self.part, "keeps_base", False))

    def begin(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Ask about a whole table, before any of its jobs has ended; an estimator that learns forgets everything.

        Raises: PolicyError for tables of a wrong shape, or figures that no kernel can hold.
        """
        answer = self.part.predict(jobs, machine)
        check_prediction(jobs, machine, answer)
        return answer

    def arrive(self, finished: Finished | None, rows: Rows, now_s: float, options: int) -> Floats:
        """Teach jobs that ended, then ask about those that arrive now; return watts of one unit. Shape (k, O).

        Raises: PolicyError for an estimator that is not asked at submission, a wrong shape, watts that are not known,
        or that no kernel can hold.
        """
        watts = self._asked(finished, rows, now_s, options)
        wrong = unusable(watts)
        if wrong.any():
            what, hint = fault_of(watts[wrong])
            raise PolicyError(f"{what} (row {int(rows[np.argmax(wrong)])} of the jobs)", where=self.name, hint=hint)
        return watts

    def predict_batch(
        self, jobs: KnownJobs, machine: Machine, finished: Finished, rows: Rows, now_s: float, instead: Floats
    ) -> Prediction:
        """Ask about some rows of a table from the beginning, and return usable figures for each. Shapes (k, O).

        ``finished`` are jobs of the same table that ended before. Jobs whose answer cannot be used, or is not known,
        get ``instead``, watts of one unit by option (O,), and the machine's own time factors. Factors of units, where
        the estimator has any, are those of the table's applications (A, U).
        """
        size = len(rows)
        most, time = (np.tile(each, (size, 1)) for each in (instead, machine.option_time_factor))
        try:
            answer = self.part.predict(jobs, machine)
            check_tables(jobs, machine, answer)
            if answer.unit_factor is not None or answer.unit_time_factor is not None:
                check_unit_factor(jobs.app, machine, answer)
                if not self.keeps_base:
                    answer = with_worst_case(jobs.app, machine, answer)
            first = answer.take(rows)
            asked = first.power_w if self.online is None else self._asked(finished, rows, now_s, most.shape[1])
        except Exception as error:  # noqa: BLE001 - whatever a user's estimator does, a controller goes on
            self._report(error.what if isinstance(error, WattQueueError) else f"{type(error).__name__}: {error}")
            return Prediction(most, time)
        # inf, never offered, is an answer to the question before a run only
        wrong = unusable(asked if self.online is not None else np.where(np.isposinf(asked), 0.0, asked))
        if wrong.any():
            self._report(fault_of(asked[wrong])[0])
        endless = ~((first.time_factor > 0) & np.isfinite(first.time_factor)).all(axis=1)
        if endless.any():
            self._report("predicts time factors that are not above 0 and finite")
        wrong |= endless
        each = wrong[:, np.newaxis]
        power, time = np.where(each, most, asked), np.where(each, time, first.time_factor)
        return Prediction(power, time, unit_factor=answer.unit_factor, unit_time_factor=answer.unit_time_factor)

    def pop_problems(self) -> list[str]:
        """Return what was wrong with answers since this was last asked."""
        found, self.problems = list(self.problems), {}
        return found

    def _asked(self, finished: Finished | None, rows: Rows, now_s: float, options: int) -> Floats:
        """Teach, then ask; return an answer of the right shape. Raises: PolicyError."""
        if self.online is None:
            raise PolicyError("is not asked at submission", where=self.name)
        if finished is not None and len(finished.rows):
            self.online.learn(finished)
        answer: Any = self.online.predict_rows(rows, now_s)
        hint = "one row per job that arrives, one column per option"
        try:
            watts = np.asarray(answer, np.float64)
        except (TypeError, ValueError) as error:
            raise PolicyError(f"predict_rows gave no table of numbers: {error}", where=self.name, hint=hint) from error
        if watts.shape != (len(rows), options):
            raise PolicyError(
                f"predict_rows gave shape {watts.shape}, expected ({len(rows)}, {options})", where=self.name, hint=hint
            )
        return watts

    def _report(self, what: str) -> None:
        """Keep what was wrong with an answer."""
        self.report(f"estimator {self.name}: {what}; the jobs count at their maximum")

    def report(self, problem: str) -> None:
        """Keep a problem for ``pop_problems``, once."""
        self.problems[problem] = None


def unusable(watts: Floats) -> NDArray[np.bool_]:
    """Return which rows have a figure that is not known, negative, or more than a kernel can hold. Shape (k,)."""
    return np.asarray(~bounds.UNIT_W.holds(watts).all(axis=1))


def fault_of(watts: Floats) -> tuple[str, str]:
    """Return what is wrong with rows that cannot be used, and a hint."""
    if np.isnan(watts).any():
        hint = "add --node-watts IDLE:MAX, or max_w of every partition"
        return "needs the maximum watts of a node: a job has no history", hint
    return f"predicts watts outside {bounds.UNIT_W.text}", bounds.UNIT_W.reason
