"""Predict applications on all sockets of a machine from recordings: train, choose components, predict, tabulate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats
from wattqueue.model.unit_table import UnitTable
from wattqueue_studies.pmc.activity import ActivityTrace, SocketRun, merged
from wattqueue_studies.pmc.events import COMPONENTS
from wattqueue_studies.pmc.models import choose_components, power_ratio, variability_trained
from wattqueue_studies.pmc.weights import ALL, SeparateTraining, Subset, TrainingSet


@dataclass(frozen=True, slots=True, eq=False)
class PredictedTable:
    """Predicted unit factors, and how they came about.

    Attributes:
        table: Watts of each application on each socket.
        components: Components of each application's model.
        processes: Processes of each application, and how many of them differ.
        chosen: False for an application whose components could not be chosen, since its watts were not measured.
    """

    table: UnitTable
    components: Sequence[Subset]
    processes: Sequence[tuple[int, int]]
    chosen: Sequence[bool]

    def lines(self) -> Iterator[str]:
        """Yield a line per application."""
        for k, app in enumerate(self.table.apps):
            total, different = self.processes[k]
            names = ", ".join(COMPONENTS[c] for c in self.components[k]) or "none"
            how = "" if self.chosen[k] else " (not chosen: no watts)"
            watts = self.table.base_w[k] * self.table.factor[k]
            spread = f"{watts.min():.1f} to {watts.max():.1f} W"
            shared = f", {total} processes predicted as {different}" if total > 1 else ""
            yield f"{app}: {spread}; components {names}{how}{shared}"


def predict_table(
    training: Sequence[SocketRun],
    apps: Sequence[SocketRun],
    *,
    ratio_of: str | None = None,
    constant: bool = False,
    optimise: bool = True,
    peaks: bool = False,
) -> PredictedTable:
    """Predict every application on every socket that has training.

    Args:
        training: Kernels with watts, on every socket.
        apps: Processes of the applications, each recorded on one of these sockets.
        ratio_of: Kernel of the power ratio (PR); None for the variability-trained model (VT).
        constant: Whether the models have a constant.
        optimise: Whether to choose components, where an application's watts were measured.
        peaks: Whether to tabulate the highest interval of a run, by which admission counts a job, instead of the mean.

    Raises: InputError for a socket whose training has no watts or too low a rank, a missing benchmark, and an
    application that was recorded on a socket without training.
    """
    sockets = list(dict.fromkeys(run.socket for run in training))
    sets = {s: _trained([r for r in training if r.socket == s], s, constant) for s in sockets}
    every = SeparateTraining([sets[s] for s in sockets])
    ratio_w = None if ratio_of is None else np.array([_benchmark_w(training, ratio_of, s) for s in sockets])
    names = list(dict.fromkeys(run.trace.name for run in apps))
    watts, components, processes, chosen = [], [], [], []
    for name in names:
        runs = [r for r in apps if r.trace.name == name]
        profile = _profile_socket(runs, sockets)
        subset, was_chosen = _subset(sets[profile], runs, optimise=optimise)
        distinct, group = merged([r.trace for r in runs])
        subsets = [subset] * len(distinct)
        if ratio_w is None:
            found = variability_trained(every, distinct, subsets)
        else:
            found = power_ratio(sets[profile], ratio_w, sockets.index(profile), distinct, subsets)
        watts.append((found.peak_w if peaks else found.mean_w)[group].mean(axis=0))
        components.append(subset)
        processes.append((len(runs), len(distinct)))
        chosen.append(was_chosen)
    table = UnitTable.of_watts(names, sockets, np.stack(watts), "predicted")
    return PredictedTable(table, components, processes, chosen)


def _trained(runs: Sequence[SocketRun], socket: str, constant: bool) -> TrainingSet:
    """Return the training of one socket. Raises: InputError naming it."""
    level = np.concatenate([r.trace.level for r in runs])
    watts = np.concatenate([r.watts for r in runs])
    known = np.isfinite(watts)
    try:
        return TrainingSet.of(level[known], watts[known], constant=constant)
    except InputError as error:
        raise InputError(error.what, where=f"training of socket {socket}", hint=error.hint) from error


def _benchmark_w(training: Sequence[SocketRun], name: str, socket: str) -> float:
    """Return the mean watts of the benchmark on one socket. Raises: InputError where it did not run there."""
    found = [r.watts[np.isfinite(r.watts)] for r in training if (r.trace.name, r.socket) == (name, socket)]
    values = np.concatenate([*found, np.zeros(0)])
    if not len(values):
        raise InputError(f"no watts of {name}", where=f"training of socket {socket}", hint="run it on every socket")
    return float(values.mean())


def _profile_socket(runs: Sequence[SocketRun], sockets: Sequence[str]) -> str:
    """Return the socket on which an application's first process was recorded. Raises: InputError."""
    if runs[0].socket not in sockets:
        raise InputError(
            f"recorded on socket {runs[0].socket}, which has no training",
            where=runs[0].trace.name,
            hint="train the socket too",
        )
    return runs[0].socket


def _subset(profile: TrainingSet, runs: Sequence[SocketRun], *, optimise: bool) -> tuple[Subset, bool]:
    """Return the components of an application's model, by its processes on the profile socket.

    One model serves all processes of an application. The flag is False where a choice was wanted, but no watts are
    there to choose by.
    """
    there = [r for r in runs if r.socket == runs[0].socket]
    level: Floats = np.concatenate([r.trace.level for r in there])
    watts = np.concatenate([r.watts for r in there])
    known = np.isfinite(watts)
    if not optimise:
        return ALL, True
    if not known.any():
        return ALL, False
    whole = ActivityTrace(there[0].trace.name, np.arange(float(known.sum())), level[known])
    return choose_components(profile, [(whole, watts[known])])[0], True
