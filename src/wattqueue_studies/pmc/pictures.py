"""Pictures of the study: Figures 2, 3 and 5 of paper 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.report.figure import Axis, Drawn, axis_of_time
from wattqueue.report.figures import boxes, curves
from wattqueue.report.figures.boxes import Box
from wattqueue_studies.pmc.events import LEVELS
from wattqueue_studies.pmc.scores import socket_errors
from wattqueue_studies.pmc.weights import with_constant
from wattqueue_studies.sockets import RATIOS, PmcTrial
from wattqueue_studies.variability.codes import RUN_S, applications
from wattqueue_studies.variability.physics import socket_watts
from wattqueue_studies.variability.recording import recorded_watts

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
    return curves.figure(key, title, says, (x, y), lines, RUN_S), "overlay"
