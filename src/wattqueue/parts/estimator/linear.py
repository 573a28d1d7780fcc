"""Ordinary least squares on the features of Table 1, trained again every week."""

from __future__ import annotations

from wattqueue.parts.estimator._weekly import Model, WeeklyBase


class Linear(WeeklyBase):
    """``regressors.LinearPower`` trained on all jobs that finished before the current week.

    Settings as in ``WeeklyBase``.

    Reference: paper 4, sections 4.2 and 6.2.
    """

    def model(self) -> Model:
        """Return an untrained model."""
        from wattqueue.parts.regressors import LinearPower

        return LinearPower(random_state=self.seed)
