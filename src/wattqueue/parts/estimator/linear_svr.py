"""Support vector regression with a linear kernel, trained again every week."""

from __future__ import annotations

from wattqueue.parts.estimator._weekly import Model, WeeklyBase


class LinearSvr(WeeklyBase):
    """``regressors.SvrPower`` trained on all jobs that finished before the current week; settings as in ``WeeklyBase``.

    Reference: paper 4, sections 4.2 and 6.2.
    """

    def model(self) -> Model:
        """Return an untrained model."""
        from wattqueue.parts.regressors import SvrPower

        return SvrPower(random_state=self.seed)
