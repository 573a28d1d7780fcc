"""Figure 1 as far as it needs no scheduler: which jobs of one queue a budget holds at one instant, and what they draw.

Three ways to count a job: the worst case of every socket; the watts that a profile on one socket showed; the prediction
for the very sockets that it takes (VT), the most efficient ones for its application first. Jobs are started first-fit,
then their true power runs on, each job in another phase of its run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats
from wattqueue_studies.sockets import COMPUTE_BOUND, PmcTrial, Values
from wattqueue_studies.variability.codes import applications
from wattqueue_studies.variability.physics import LIMIT_W, socket_watts
from wattqueue_studies.variability.recording import recorded_watts

BUDGET_W = 15_000.0
"""Budget of Figure 1."""
QUEUED = 400
"""Jobs of the queue: more than any budget holds."""
PROFILES = ("best", "median", "worst")
"""Profile sockets of the agnostic policy, by their watts of cholesky."""
CONSERVATIVE, AWARE = "conservative", "variability-aware"
POLICIES = (CONSERVATIVE, *(f"agnostic, {p}" for p in PROFILES), AWARE)
METRICS = ("busy_sockets", "peak_w", "mean_w", "over_percent")
"""Figures of a policy: sockets in use, highest and mean true power, its excess over the budget."""
Sockets = NDArray[np.int64]


def fill_budget(trial: PmcTrial) -> Values:
    """Return the figures of each policy, in the order of ``METRICS``."""
    rng = np.random.default_rng([trial.seed, 5])
    queue = [str(name) for name in rng.choice(list(applications()), QUEUED)]
    offset = rng.integers(0, 10_000, QUEUED)
    true = {
        name: [socket_watts(code, trial.chips, kind)[0] for kind in range(code.kinds)]
        for name, code in applications().items()
    }
    values: Values = {}
    for policy, (watts, rank) in _policies(trial).items():
        started = _first_fit(queue, watts, rank, trial.sockets)
        power = np.zeros(len(true["ferret"][0]))
        for job, sockets in started.items():
            kinds = applications()[queue[job]].kind_of()
            series = np.sum([true[queue[job]][kinds[k]][:, s] for k, s in enumerate(sockets)], axis=0)
            power += np.roll(series, offset[job])
        over = 100.0 * (power.max() / BUDGET_W - 1.0)
        figures = (sum(map(len, started.values())), power.max(), power.mean(), over)
        values |= {("15 kW", policy, m): float(v) for m, v in zip(METRICS, figures, strict=True)}
    return values


def _policies(trial: PmcTrial) -> Mapping[str, tuple[Callable[[str, Sockets], float], Mapping[str, Sockets]]]:
    """Return of each policy the watts of an application on given sockets, and the order in which it takes sockets."""
    by_number = {name: np.arange(trial.sockets) for name in applications()}
    found = {CONSERVATIVE: (lambda _, sockets: LIMIT_W * len(sockets), by_number)}
    order = np.argsort(trial.kernels.mean_w(COMPUTE_BOUND), kind="stable")
    for name, at in zip(PROFILES, (0, trial.sockets // 2, trial.sockets - 1), strict=True):
        found[f"agnostic, {name}"] = (_profiled(trial, int(order[at])), by_number)
    predicted = trial.predict("VT")
    peaks = {name: predicted[name].peak_w[code.kind_of()] for name, code in applications().items()}
    ranks = {name: np.argsort(p.mean(axis=0), kind="stable") for name, p in peaks.items()}

    def on_sockets(name: str, sockets: Sockets) -> float:
        return float(peaks[name][np.arange(len(sockets)), sockets].sum())

    found[AWARE] = (on_sockets, ranks)
    return found


def _profiled(trial: PmcTrial, socket: int) -> Callable[[str, Sockets], float]:
    """Return the watts of applications as a profile on one socket shows them, whatever sockets they get."""
    rng = np.random.default_rng([trial.seed, 6, socket])
    peak: dict[str, Floats] = {
        name: np.array([recorded_watts(rng, code, trial.chips, kind)[:, socket].max() for kind in range(code.kinds)])[
            code.kind_of()
        ]
        for name, code in applications().items()
    }
    return lambda name, _: float(peak[name].sum())


def _first_fit(
    queue: list[str], watts: Callable[[str, Sockets], float], rank: Mapping[str, Sockets], sockets: int
) -> dict[int, Sockets]:
    """Return the sockets of each job that starts: those that fit into free sockets and budget, in queue order."""
    free = np.ones(sockets, np.bool_)
    left, started = BUDGET_W, {}
    for job, name in enumerate(queue):
        need = applications()[name].processes
        if need > free.sum():
            continue
        taken = rank[name][free[rank[name]]][:need]
        drawn = watts(name, taken)
        if drawn <= left:
            free[taken] = False
            left -= drawn
            started[job] = taken
    return started
