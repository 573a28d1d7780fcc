"""The predictors as scikit-learn estimators, for people who want only those (extra ``ml``).

``LinearPower``, ``ForestPower``, ``SvrPower`` and ``SgdPower`` take any table of features (those of
Table 1 come from ``wattqueue.parts.features.job_features``); ``QuantilePower`` gives several quantiles
at once; ``HistoryPower`` is eq. 1-3 with a column of users and one of times. They pass scikit-learn's own estimator
checks. Weekly retraining, and the rule that only finished jobs may be learned from, are in the parts
(``parts/estimator/``) that train these models.

Every fit is deterministic for a given ``random_state``. Costs are bounded by the ``*_rows`` settings, because a
year of a large machine has millions of jobs and feature selection alone fits some fifty models.

Reference: paper 4, sections 4.2 and 6.2.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import RFECV
from sklearn.linear_model import LinearRegression, SGDRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVR
from sklearn.utils.validation import check_is_fitted, validate_data

from wattqueue.model.jobs import Floats

FEWEST = 10
"""Fewest rows for selection by cross-validation: two in each of five folds. With fewer, all features are kept."""


class PowerRegressor(RegressorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base: scale, drop features, choose hyper-parameters by cross-validation, fit.

    Features and watts are scaled to mean 0 and deviation 1. Recursive feature elimination and the grid search, both
    with ``folds`` folds, use ``selection_rows`` rows drawn at random where there are more; the last fit uses at most
    ``fit_rows``. Predictions are clipped to the range of watts seen, because a linear model extrapolates to negative
    watts for a job that is wider or longer than any before.

    Attributes after fit: ``support_`` (features,) bool, ``best_params_``.

    Reference: paper 4, section 6.2.
    """

    grid: dict[str, list[Any]] = {}  # noqa: RUF012 - read only; scikit-learn's own way

    # scikit-learn clones an estimator by its constructor's arguments: they are stored unchanged and checked in fit().
    def __init__(
        self,
        *,
        folds: int = 5,
        selection_rows: int | None = 5_000,
        fit_rows: int | None = None,
        random_state: int | None = 0,
    ) -> None:
        self.folds = folds
        self.selection_rows = selection_rows
        self.fit_rows = fit_rows
        self.random_state = random_state

    @abstractmethod
    def base(self) -> Any:
        """Return the underlying regressor with its defaults."""

    def scout(self) -> Any:
        """Return the regressor that selection tries out: a cheaper one where that is enough to rank features."""
        return self.base()

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit on features (n, features) and watts (n,). Raises: ValueError as scikit-learn's estimators do."""
        table, watts = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        chance = np.random.default_rng(self.random_state)
        self._x_scale, self._y_scale = StandardScaler().fit(table), StandardScaler().fit(watts[:, np.newaxis])
        self._range = (float(watts.min()), float(watts.max()))
        table, target = self._x_scale.transform(table), self._y_scale.transform(watts[:, np.newaxis])[:, 0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a bounded number of steps is the point
            # Selection and the last fit draw their own rows: a bound on one does not bias the other.
            self._select(*_sample(table, target, self.selection_rows, chance))
            some, goal = _sample(table, target, self.fit_rows, chance)
            self._fitted = clone(self.base()).set_params(**self.best_params_).fit(some[:, self.support_], goal)
        return self

    def _select(self, table: Floats, target: Floats) -> None:
        """Choose features, then hyper-parameters, both by cross-validation; sets ``support_`` and ``best_params_``."""
        self.support_: NDArray[np.bool_] = np.ones(table.shape[1], np.bool_)
        self.best_params_: dict[str, Any] = {}
        if len(table) < max(FEWEST, 2 * self.folds):
            return
        if table.shape[1] > 1:
            kept = RFECV(self.scout(), cv=self.folds, scoring="neg_mean_squared_error").fit(table, target)
            self.support_ = kept.support_
        if self.grid:
            search = GridSearchCV(self.scout(), self.grid, cv=self.folds, scoring="neg_mean_squared_error", refit=False)
            self.best_params_ = search.fit(table[:, self.support_], target).best_params_

    def predict(self, X: ArrayLike) -> Floats:
        """Return the predicted watts, within the range of watts seen. Shape (n,)."""
        check_is_fitted(self)
        table = validate_data(self, X, reset=False, dtype=np.float64)
        scaled = self._fitted.predict(self._x_scale.transform(table)[:, self.support_])
        watts = self._y_scale.inverse_transform(scaled[:, np.newaxis])[:, 0]
        return cast("Floats", np.clip(watts, *self._range))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")


class LinearPower(PowerRegressor):
    """Ordinary least squares (LinearRegression); it has no hyper-parameter to search."""

    def base(self) -> Any:
        """Return the underlying regressor."""
        return LinearRegression()


class ForestPower(PowerRegressor):
    """RandomForestRegressor; each of ``trees`` trees sees at most ``tree_rows`` rows, drawn from all of them.

    Selection uses at most ten trees: enough to rank features, at a third of the time.
    """

    grid = {"min_samples_leaf": [2, 5, 20]}  # noqa: RUF012 - as in the base

    def __init__(
        self,
        *,
        folds: int = 5,
        selection_rows: int | None = 1_000,
        fit_rows: int | None = None,
        random_state: int | None = 0,
        trees: int = 30,
        tree_rows: int = 10_000,
    ) -> None:
        super().__init__(folds=folds, selection_rows=selection_rows, fit_rows=fit_rows, random_state=random_state)
        self.trees = trees
        self.tree_rows = tree_rows

    def base(self) -> Any:
        return _BoundedForest(n_estimators=self.trees, tree_rows=self.tree_rows, random_state=self.random_state)

    def scout(self) -> Any:
        return self.base().set_params(n_estimators=min(self.trees, 10))


class _BoundedForest(RandomForestRegressor):  # type: ignore[misc]
    """A forest whose bootstrap samples have at most ``tree_rows`` rows.

    ``max_samples`` does that in scikit-learn, which refuses a number above n; so it is set when n is known.
    """

    def __init__(
        self,
        *,
        n_estimators: int = 30,
        tree_rows: int = 10_000,
        min_samples_leaf: int = 2,
        random_state: int | None = 0,
    ) -> None:
        super().__init__(n_estimators=n_estimators, min_samples_leaf=min_samples_leaf, random_state=random_state)
        self.tree_rows = tree_rows

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        self.max_samples = self.tree_rows if len(np.asarray(y)) > self.tree_rows else None
        super().fit(X, y, sample_weight)
        return self


class SvrPower(PowerRegressor):
    """Support vector regression with a linear kernel (LinearSVR).

    The number of iterations is bounded; a fit that has not converged by then is used as it is.
    """

    grid = {"C": [0.01, 0.1, 1.0], "epsilon": [0.0, 0.1]}  # noqa: RUF012 - as in the base

    def __init__(
        self,
        *,
        folds: int = 5,
        selection_rows: int | None = 2_000,
        fit_rows: int | None = 20_000,
        random_state: int | None = 0,
    ) -> None:
        super().__init__(folds=folds, selection_rows=selection_rows, fit_rows=fit_rows, random_state=random_state)

    def base(self) -> Any:
        return LinearSVR(random_state=self.random_state, max_iter=1_000)


class SgdPower(PowerRegressor):
    """Stochastic gradient descent on squared errors (SGDRegressor)."""

    grid = {"alpha": [1e-5, 1e-4, 1e-3, 1e-2], "penalty": ["l2", "elasticnet"]}  # noqa: RUF012 - as in the base

    def base(self) -> Any:
        return SGDRegressor(random_state=self.random_state)


class QuantilePower(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Histogram gradient boosting, one model per quantile; ``predict`` returns the first of ``quantiles``.

    ``predict_quantiles`` returns all of them. Models that are trained apart can cross, so each quantile is raised to
    at least the one below it. Missing features (NaN) are allowed.
    """

    def __init__(
        self,
        *,
        quantiles: tuple[float, ...] = (0.5, 0.9, 0.99),
        fit_rows: int | None = 50_000,
        trees: int = 60,
        random_state: int | None = 0,
    ) -> None:
        self.quantiles = quantiles
        self.fit_rows = fit_rows
        self.trees = trees
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit on features (n, features), NaN where missing, and watts (n,). Raises: ValueError."""
        table, watts = validate_data(self, X, y, y_numeric=True, dtype=np.float64, ensure_all_finite="allow-nan")
        if not self.quantiles or any(not 0.0 < q < 1.0 for q in self.quantiles):
            raise ValueError(f"quantiles {self.quantiles}: each must lie between 0 and 1")
        chance = np.random.default_rng(self.random_state)
        some, goal = _sample(table, watts, self.fit_rows, chance)
        self.models_ = [self._model(q).fit(some, goal) for q in self.quantiles]
        return self

    def _model(self, quantile: float) -> Any:
        return HistGradientBoostingRegressor(
            loss="quantile",
            quantile=quantile,
            max_iter=self.trees,
            early_stopping=False,
            random_state=self.random_state,
        )

    def predict_quantiles(self, X: ArrayLike) -> Floats:
        """Return the watts of each quantile, rising where ``quantiles`` rise. Shape (n, quantiles)."""
        check_is_fitted(self)
        table = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        raw = np.column_stack([m.predict(table) for m in self.models_])
        rising = np.argsort(self.quantiles)
        raw[:, rising] = np.maximum.accumulate(raw[:, rising], axis=1)
        return raw

    def predict(self, X: ArrayLike) -> Floats:
        """Return the watts of the first quantile. Shape (n,)."""
        return self.predict_quantiles(X)[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class HistoryPower(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Time-weighted user history (eq. 1-3): X holds a user (any number that identifies one) and a time in seconds.

    When fitting, the time is a job's completion and y its watts; when predicting, it is a submission, and only rows
    that had ended by then count. Before any had, the mean of all fitted rows. ``alpha`` is the exponent of eq. 3,
    ``window_s`` the window s of eq. 2.

    Reference: paper 4, eq. 1-3.
    """

    def __init__(
        self, *, alpha: float = 2.0, window_s: float = math.inf, user_column: int = 0, time_column: int = -1
    ) -> None:
        self.alpha = alpha
        self.window_s = window_s
        self.user_column = user_column
        self.time_column = time_column

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit on users and completions (n, columns) and watts (n,). Raises: ValueError as scikit-learn's do."""
        if not (0.0 <= self.alpha < math.inf and self.window_s > 0.0):
            raise ValueError(f"alpha {self.alpha}, window_s {self.window_s}: need alpha of 0 or more, a window above 0")
        table, watts = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        order = np.argsort(table[:, self.time_column], kind="stable")
        self.users_, self._user = np.unique(table[order, self.user_column], return_inverse=True)
        self._end_s, self._watts, self._mean = table[order, self.time_column], watts[order], float(watts.mean())
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return the watts at each submission. Shape (n,)."""
        from wattqueue.kernels.history import WALK_COLUMNS, history_replay, new_history

        check_is_fitted(self)
        table = validate_data(self, X, reset=False, dtype=np.float64)
        asked, fitted = len(table), len(self._end_s)
        place = np.minimum(np.searchsorted(self.users_, table[:, self.user_column]), len(self.users_) - 1)
        # One walk over predictions (rows before ``asked``, user -1 where unknown) and fitted rows (behind them).
        known = self.users_[place] == table[:, self.user_column]
        user = np.concatenate((np.where(known, place, -1), self._user)).astype(np.int32)
        time = np.concatenate((table[:, self.time_column], self._end_s))
        watts = np.concatenate((np.full(asked, np.nan), self._watts))
        state = new_history(np.bincount(self._user), alpha=self.alpha, window_s=self.window_s)
        out = np.empty((asked + fitted, WALK_COLUMNS))
        by_submit = np.argsort(table[:, self.time_column], kind="stable")
        history_replay(state, by_submit, np.arange(asked, asked + fitted), time, time, user, watts, out)
        answer = out[:asked, 0]
        return np.where(np.isnan(answer), self._mean, answer)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "users_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # it learns from users and times, of which random tables have none
        return tags


def _sample(table: Floats, target: Floats, rows: int | None, chance: np.random.Generator) -> tuple[Floats, Floats]:
    """Return at most ``rows`` rows, drawn without replacement and kept in their order."""
    if rows is None or len(table) <= rows:
        return table, target
    picked = np.sort(chance.choice(len(table), rows, replace=False))
    return table[picked], target[picked]
