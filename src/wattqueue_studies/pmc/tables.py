"""Tables and pictures of the study: errors by application and model, sockets under a budget; Figures 2, 3 and 5."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Table
from wattqueue.report.figure import Axis, Drawn, axis_of_time
from wattqueue.report.figures import boxes
from wattqueue.report.figures.boxes import Box
from wattqueue_studies.frame.figures import curves
from wattqueue_studies.frame.samples import Samples
from wattqueue_studies.pmc.budget import BUDGET_W, POLICIES
from wattqueue_studies.pmc.events import LEVELS
from wattqueue_studies.pmc.weights import with_constant
from wattqueue_studies.sockets import CONSTANT, PLAIN, RATIOS, WHOLE, PmcTrial, Values, share_of_kinds
from wattqueue_studies.variability.codes import RUN_S, applications
from wattqueue_studies.variability.physics import socket_watts
from wattqueue_studies.variability.recording import recorded_watts

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


VARIANTS = {"components chosen": PLAIN, "all components": WHOLE, "chosen, with constant": CONSTANT}
FACTORS = "unit factors alone"


def tables(samples: Samples) -> Iterator[Table]:
    """Yield all tables over the draws."""
    yield average_table(samples)
    yield application_table(samples)
    yield budget_table(samples)
    yield process_table(samples)


def average_table(samples: Samples) -> Table:
    """Return MAPE over all applications by model and variant."""

    def column(model: str) -> Callable[[str], str]:
        factors = with_interval(estimate(samples.of(AVERAGE, model, "factor_error_percent")), "", 2)
        errors = {v: samples.of(AVERAGE, model + ending, "mape_percent") for v, ending in VARIANTS.items()}
        return lambda variant: factors if variant == FACTORS else with_interval(estimate(errors[variant]), "")

    title = "MAPE of mean watts, mean over 16 applications (%)"
    note = "Unit factors alone: error of watts over their mean over the sockets, components chosen."
    return Table.of((*VARIANTS, FACTORS), [(m, column(m)) for m in RATIOS], title, note, head="variant")


def application_table(samples: Samples) -> Table:
    """Return Figure 5: MAPE of each application by model, its deviation over the sockets, and all components."""

    def mean(model: str, metric: str = "mape_percent") -> Callable[[str], str]:
        return lambda app: f"{samples.of(app, model, metric).mean():.1f}"

    columns = [c for m in RATIOS for c in ((m, mean(m)), ("±", mean(m, "deviation_percent")))]
    columns += [(f"{m}\nall components", mean(m + WHOLE)) for m in RATIOS]
    title = "Figure 5: MAPE of mean watts over the sockets (%)"
    note = "±: deviation of the error over the sockets; both are means over the draws."
    return Table.of((AVERAGE, *applications()), columns, title, note, head="application", key="figure5")


def budget_table(samples: Samples) -> Table:
    """Return what a budget of 15 kW holds at one instant under each policy (Figure 1 without a scheduler)."""

    def of(policy: str, metric: str) -> Floats:
        return samples.of("15 kW", policy, metric)

    columns = (
        ("sockets", lambda p: f"{of(p, 'busy_sockets').mean():.0f}"),
        ("mean kW", lambda p: f"{of(p, 'mean_w').mean() / 1e3:.2f}"),
        ("highest kW", lambda p: f"{of(p, 'peak_w').mean() / 1e3:.2f}"),
        ("over the budget", lambda p: f"{100 * (of(p, 'over_percent') > 0).mean():.0f} % of draws"),
    )
    title = f"Figure 1 at one instant: jobs of one queue under {BUDGET_W / 1e3:g} kW, true power"
    return Table.of(POLICIES, columns, title, head="policy", key="figure1")


def process_table(samples: Samples) -> Table:
    """Return what one factor for all processes of an application costs against the sum process by process."""

    def of(app: str, metric: str) -> Floats:
        return samples.of(app, "unit factors", metric)

    apps = [a for a, p, m in samples.values if (p, m) == ("unit factors", "sum_error_percent")]
    columns = (
        ("mean", lambda a: f"{of(a, 'sum_error_percent').mean():.3f}"),
        ("greatest", lambda a: f"{of(a, 'sum_error_max_percent').max():.2f}"),
    )
    title = "Unit factors (mean of the processes) against the exact sum, process by process: error of a job's watts (%)"
    return Table.of(apps, columns, title, "200 random sets of sockets per draw.", head="application")


SHOWN = ("blackscholes", "bodytrack", "lu-mz_C.16", "sp-mz_D.8")
"""Codes of Figure 2."""
QUANTITIES = {
    "active_cores": ("cores", "active cores"),
    "fetch": ("fetch", "micro operations per cycle"),
    "l1": ("L1", "L1 references per cycle"),
}
"""What Figure 2 shows besides watts: key of the picture, and axis."""


def pictures(trial: PmcTrial) -> Iterator[Drawn]:
    """Yield Figures 2, 3 and 5 of one draw."""
    yield from figure_2(trial)
    yield figure_3(trial)
    yield from figure_5(trial)


def figure_2(trial: PmcTrial) -> Iterator[Drawn]:
    """Yield Figure 2: watts, active cores, fetch unit and L1 of four codes on the profile socket."""
    watts = {name: socket_watts(applications()[name], trial.chips)[0][:, trial.profile] for name in SHOWN}
    says = "Generated, on the profile socket; of multi-node codes one process. Watts are samples of 100 ms."
    yield _over_time("watts", "Figure 2: power", says, Axis("power", "W"), watts)
    for column, (key, name) in QUANTITIES.items():
        levels = {app: trial.runs[app][0][0].level[:, LEVELS.index(column)] for app in SHOWN}
        says = "Generated, as counters show it every second."
        yield _over_time(key, f"Figure 2: {name}", says, Axis(name), levels)


def figure_3(trial: PmcTrial) -> Drawn:
    """Return Figure 3: measured and predicted watts of blackscholes on the sockets of least, middle and most watts."""
    rng = np.random.default_rng([trial.seed, 7])
    measured = recorded_watts(rng, applications()["blackscholes"], trial.chips)
    order = np.argsort(measured.max(axis=0), kind="stable")
    weights = trial.training[False].weights(trial.components[False]["blackscholes"])
    predicted = with_constant(trial.runs["blackscholes"][0][0].level) @ weights
    lines: dict[str, Floats] = {}
    for name, socket in (("least", order[0]), ("middle", order[len(order) // 2]), ("most", order[-1])):
        lines |= {f"{name}: measured": measured[:, socket], f"{name}: VT": predicted[:, socket]}
    low, high = measured.max(axis=0)[order[[0, -1]]]
    says = f"Blackscholes peaks at {low:.0f} to {high:.0f} W over {trial.sockets} generated sockets; seconds."
    return _over_time("sockets", "Figure 3: measured and predicted power", says, Axis("power", "W"), lines)


def figure_5(trial: PmcTrial) -> Iterator[Drawn]:
    """Yield Figure 5, one picture per model: the error of each application over the sockets."""
    for model in RATIOS:
        errors = socket_errors(trial, model)
        says = f"Error of mean watts on {trial.sockets - 1} sockets, one draw; the profile socket is left out."
        shown = {app: Box.of(e) for app, e in errors.items()}
        axis = Axis("error of mean watts", "%")
        yield boxes.figure(model, f"Figure 5: {model}", says, axis, shown, rows="application"), "boxes"


def _over_time(key: str, title: str, says: str, y: Axis, lines: Mapping[str, Floats]) -> Drawn:
    """Return lines over the time of a run, one per name."""
    x = replace(axis_of_time(RUN_S, None), name="time since the start")
    return curves(key, title, says, (x, y), lines, RUN_S), "overlay"
