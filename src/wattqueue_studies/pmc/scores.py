"""Scores of one draw: errors of every model against the truth, and of one factor for all processes."""

from __future__ import annotations

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue_studies.sockets import CONSTANT, PLAIN, RATIOS, WHOLE, PmcTrial, Values, share_of_kinds
from wattqueue_studies.variability.codes import applications

MODELS = tuple(name + ending for ending in (PLAIN, WHOLE, CONSTANT) for name in RATIOS)
"""All scored models."""
AVERAGE, WORST_APP = "average", "worst application"
"""Settings besides the applications: mean over them, and the one with the greatest error."""
NOT_OPTIMISED = "not optimised"
"""The three models with all components together, of which a text names the greatest error."""
MISPREDICTED = ("bodytrack", "facesim")
"""Applications that the paper finds mispredicted."""


def predicted_and_true(trial: PmcTrial, model: str) -> dict[str, tuple[Floats, Floats]]:
    """Return predicted and true mean watts of each application on the sockets other than the profile socket.

    Watts are the mean over an application's processes. Shapes (sockets - 1,).
    """
    others = np.delete(np.arange(trial.sockets), trial.profile)
    found = {}
    for app, predicted in trial.predict(model).items():
        share = share_of_kinds(applications()[app])
        found[app] = ((share @ predicted.mean_w)[others], (share @ trial.truth[app].mean_w)[others])
    return found


def socket_errors(trial: PmcTrial, model: str) -> dict[str, Floats]:
    """Return each application's error of mean watts in per cent on each of these sockets. Shapes (sockets - 1,)."""
    return {a: 100.0 * np.abs(true - guess) / true for a, (guess, true) in predicted_and_true(trial, model).items()}


def factor_error_percent(trial: PmcTrial, model: str) -> float:
    """Return the error of unit factors in per cent, mean over applications and sockets.

    A factor is the watts on a socket over their mean over the sockets: what is left of the error when the level of an
    application is right, which is what ranks sockets.
    """
    each = [np.abs((g / g.mean()) / (t / t.mean()) - 1.0).mean() for g, t in predicted_and_true(trial, model).values()]
    return float(100.0 * np.mean(each))


def score(trial: PmcTrial) -> Values:
    """Return MAPE and its deviation over the sockets, by application and model, and what claims need beside them."""
    values: Values = {}
    for model in MODELS:
        errors = socket_errors(trial, model)
        mape = {app: float(e.mean()) for app, e in errors.items()}
        for app, e in errors.items():
            values[app, model, "mape_percent"] = mape[app]
            values[app, model, "deviation_percent"] = float(e.std())
        values[AVERAGE, model, "mape_percent"] = float(np.mean(list(mape.values())))
        values[AVERAGE, model, "deviation_percent"] = float(np.mean([e.std() for e in errors.values()]))
        values[AVERAGE, model, "factor_error_percent"] = factor_error_percent(trial, model)
        values[WORST_APP, model, "mape_percent"] = max(mape.values())
        others = np.mean([m for app, m in mape.items() if app not in MISPREDICTED])
        for app in MISPREDICTED:
            values[app, model, "relative_error"] = float(mape[app] / others)
    worst = (values[WORST_APP, name + WHOLE, "mape_percent"] for name in RATIOS)
    return values | {(WORST_APP, NOT_OPTIMISED, "mape_percent"): max(worst)}


def processes(trial: PmcTrial, draws: int = 200) -> Values:
    """Return what unit factors, one figure for all processes, cost in per cent of a job's true watts.

    ``draws`` random sets of sockets for each multi-node application: the exact sum, process by process, against that
    of the mean over processes on the same sockets.
    """
    rng = np.random.default_rng([trial.seed, 4])
    values: Values = {}
    for app, code in applications().items():
        if code.processes == 1 or code.processes > trial.sockets:
            continue
        watts = trial.truth[app].mean_w[code.kind_of()]
        mean = watts.mean(axis=0)
        errors = np.empty(draws)
        for k in range(draws):
            at = rng.permutation(trial.sockets)[: code.processes]
            exact = watts[np.arange(code.processes), at].sum()
            errors[k] = 100.0 * abs(mean[at].sum() - exact) / exact
        values[app, "unit factors", "sum_error_percent"] = float(errors.mean())
        values[app, "unit factors", "sum_error_max_percent"] = float(errors.max())
    return values
