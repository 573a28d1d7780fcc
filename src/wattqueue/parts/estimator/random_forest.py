"""A random forest on the features of Table 1, trained again every week."""

from __future__ import annotations

from wattqueue.parts.estimator._weekly import Model, WeeklyBase
from wattqueue.parts.online import Completions, Target
from wattqueue.parts.timeline import WEEK_S


class RandomForest(WeeklyBase):
    """``regressors.ForestPower`` trained on all jobs that finished before the current week.

    Settings as in ``WeeklyBase``.

    ``trees`` in the forest, each grown on at most ``tree_rows`` jobs drawn from all of them.

    Reference: paper 4, sections 4.2 and 6.2.
    """

    def __init__(
        self,
        *,
        target: Target = "mean",
        completions: Completions = "simulated",
        seed: int = 0,
        fewest: int = 50,
        period_s: float = WEEK_S,
        trees: int = 30,
        tree_rows: int = 10_000,
    ) -> None:
        super().__init__(target=target, completions=completions, seed=seed, fewest=fewest, period_s=period_s)
        self.trees, self.tree_rows = trees, tree_rows

    def model(self) -> Model:
        """Return an untrained model."""
        from wattqueue.parts.regressors import ForestPower

        return ForestPower(random_state=self.seed, trees=self.trees, tree_rows=self.tree_rows)
