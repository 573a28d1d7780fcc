"""The two prediction models of paper 2: power ratio (eq. 2) and variability-trained (eq. 3), and their optimisation.

For each application the model may leave out components; the subset with the least MAPE (eq. 4) on the *profile
socket*, where the application's counters were recorded, is taken for all sockets. Choosing on the sockets that are
predicted would leak their watts into the prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats
from wattqueue_studies.pmc.activity import ActivityTrace
from wattqueue_studies.pmc.weights import ALL, SUBSETS, SocketTraining, Subset, TrainingSet, with_constant

TIE_DIGITS = 9
"""Digits of an error in per cent that count: what differs by rounding alone is a tie."""


@dataclass(frozen=True, slots=True, eq=False)
class SocketWatts:
    """Predicted watts of N processes on M sockets (section 2.3).

    Attributes:
        mean_w: Mean over the run. Shape (N, M).
        peak_w: Highest interval of the run, which admission counts. Shape (N, M).
    """

    mean_w: Floats
    peak_w: Floats


def mape_percent(actual: Floats, predicted: Floats) -> Floats:
    """Return the mean absolute percentage error over the first axis: eq. 4. Shapes (n, ...) -> (...).

    Raises: InputError for an actual value that is not above 0.
    """
    if not (actual > 0).all():
        raise InputError("an actual value is not above 0: the error in per cent is undefined", where="MAPE")
    found: Floats = 100.0 * np.mean(np.abs(actual - predicted) / actual, axis=0)
    return found


def choose_components(
    profile: TrainingSet, runs: Sequence[tuple[ActivityTrace, Floats]], subsets: Sequence[Subset] = SUBSETS
) -> list[Subset]:
    """Return the subset of components of least MAPE for each application, on the profile socket.

    Args:
        profile: Training on the profile socket.
        runs: Activity of each application on this socket, with its measured watts in the same intervals. Shapes (t,).
        subsets: Candidates; of equal errors the first is taken.

    Raises: InputError for several sockets, or watts that do not fit the activity.
    """
    weights = profile.all_subsets(subsets)
    chosen = []
    for trace, watts in runs:
        if len(watts) != len(trace.level):
            raise InputError(f"{len(watts)} watts, {len(trace.level)} intervals of activity", where=trace.name)
        errors = mape_percent(watts[:, None], with_constant(trace.level) @ weights)
        chosen.append(subsets[int(np.argmin(np.round(errors, TIE_DIGITS)))])
    return chosen


def variability_trained(
    training: SocketTraining, traces: Sequence[ActivityTrace], components: Sequence[Subset] | None = None
) -> SocketWatts:
    """Predict every trace on every socket with the socket's own weights: VT, eq. 3.

    Args:
        training: Training on all M sockets.
        traces: Activity of N processes, recorded on any socket.
        components: Components of each process's model; None for all of them.

    The highest watts of a run are those of the interval with the highest prediction.
    """
    subsets = [ALL] * len(traces) if components is None else list(components)
    if len(subsets) != len(traces):
        raise InputError(f"{len(subsets)} models for {len(traces)} processes", where="components")
    by_subset = {s: training.weights(s) for s in dict.fromkeys(subsets)}
    mean, peak = np.empty((2, len(traces), training.sockets))
    for k, (trace, subset) in enumerate(zip(traces, subsets, strict=True)):
        level, weights = with_constant(trace.level), by_subset[subset]
        mean[k] = level.mean(axis=0) @ weights
        peak[k] = (level @ weights).max(axis=0)
    return SocketWatts(mean, peak)


def power_ratio(
    profile: TrainingSet,
    benchmark_w: Floats,
    reference: int,
    traces: Sequence[ActivityTrace],
    components: Sequence[Subset] | None = None,
) -> SocketWatts:
    """Predict every trace on the profile socket, times the ratio of one benchmark's watts: PR, eq. 2.

    Args:
        profile: Training on the profile socket, which is the reference socket of the ratios.
        benchmark_w: Mean watts of the benchmark on all M sockets: a compute-bound one (PR-CB) or a memory-bound one
            (PR-MB). Shape (M,).
        reference: The profile socket's position in ``benchmark_w``.
        traces: Activity of N processes.
        components: Components of each process's model; None for all of them.

    Raises: InputError for benchmark watts that are not above 0, with the socket's position.
    """
    bad = np.flatnonzero(~(benchmark_w > 0))
    if len(bad):
        raise InputError("the benchmark's watts are not above 0", where=f"socket {bad[0]}", hint="measure it again")
    ratio = benchmark_w / benchmark_w[reference]
    at_profile = variability_trained(profile, traces, components)
    return SocketWatts(at_profile.mean_w * ratio, at_profile.peak_w * ratio)
