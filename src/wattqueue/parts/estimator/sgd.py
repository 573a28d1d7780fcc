"""Linear regression by stochastic gradient descent, trained anew every week."""

from __future__ import annotations

from wattqueue.parts.estimator._weekly import Model, WeeklyBase


class Sgd(WeeklyBase):
    """``regressors.SgdPower`` on all jobs that finished before the week began.

    Reference: paper 4, sections 4.2 and 6.2.
    """

    def model(self) -> Model:
        from wattqueue.parts.regressors import SgdPower

        return SgdPower(random_state=self.seed)
