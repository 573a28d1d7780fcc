"""Generated sockets that differ, and every prediction of their watts: one draw, as both studies of paper 2 take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue_studies.pmc.activity import ActivityTrace
from wattqueue_studies.pmc.models import SocketWatts, choose_components, power_ratio, variability_trained
from wattqueue_studies.pmc.weights import ALL, Subset, TrainingSet
from wattqueue_studies.variability.codes import Code, applications, kernels
from wattqueue_studies.variability.physics import Chips, TrueWatts, draw_chips, true_watts
from wattqueue_studies.variability.recording import (
    KernelRecordings,
    record_kernels,
    recorded_activity,
    recorded_watts,
)

COMPUTE_BOUND, MEMORY_BOUND = "cholesky", "sparseLU"
"""Benchmarks of PR-CB and PR-MB."""
PLAIN, WHOLE, CONSTANT = "", ", all components", ", with constant"
"""Endings of a model's name."""
RATIOS = {"VT": None, "PR-CB": COMPUTE_BOUND, "PR-MB": MEMORY_BOUND}
"""Models with the kernel of their ratio."""
Values = dict[tuple[str, str, str], float]
"""Figures of one draw by (setting, model, metric)."""


@dataclass(frozen=True, eq=False)
class PmcTrial:
    """Drawn sockets with the recordings of kernels and applications.

    Attributes:
        seed: Seed of sockets and noise.
        sockets: Number of sockets.
    """

    seed: int
    sockets: int = 256

    @cached_property
    def chips(self) -> Chips:
        """Return the drawn chips."""
        return draw_chips(np.random.default_rng([self.seed, 0]), self.sockets, (*kernels(), *applications()))

    @cached_property
    def profile(self) -> int:
        """Return the socket on which applications are recorded: any, since a site has no reason to choose it."""
        rng = np.random.default_rng([self.seed, 1])
        return int(rng.integers(self.sockets))

    @cached_property
    def kernels(self) -> KernelRecordings:
        """Return the recordings of the training kernels on all sockets."""
        return record_kernels(np.random.default_rng([self.seed, 2]), self.chips)

    @cached_property
    def runs(self) -> Mapping[str, list[tuple[ActivityTrace, Floats]]]:
        """Return the activity of each kind of process of each application, with its watts on the profile socket."""
        rng = np.random.default_rng([self.seed, 3])
        return {
            name: [
                (
                    recorded_activity(rng, code, kind, kind),
                    recorded_watts(rng, code, self.chips, kind)[:, self.profile],
                )
                for kind in range(code.kinds)
            ]
            for name, code in applications().items()
        }

    @cached_property
    def truth(self) -> Mapping[str, TrueWatts]:
        """Return the true watts of each kind of process of each application."""
        return {name: true_watts(code, self.chips) for name, code in applications().items()}

    @cached_property
    def training(self) -> Mapping[bool, TrainingSet]:
        """Return the training of all sockets, without and with a constant."""
        return {c: TrainingSet.of(self.kernels.level, self.kernels.watts, constant=c) for c in (False, True)}

    @cached_property
    def components(self) -> Mapping[bool, Mapping[str, Subset]]:
        """Return the components of each application's model, without and with a constant.

        One choice serves all processes of an application.
        """
        whole = []
        for app, runs in self.runs.items():
            level = np.concatenate([trace.level for trace, _ in runs])
            trace = ActivityTrace(app, np.arange(float(len(level))), level)
            whole.append((trace, np.concatenate([watts for _, watts in runs])))
        return {
            c: dict(zip(self.runs, choose_components(every.on([self.profile]), whole), strict=True))
            for c, every in self.training.items()
        }

    def predict(self, model: str) -> Mapping[str, SocketWatts]:
        """Return the prediction of each application's kinds of process on every socket."""
        constant, ratio = model.endswith(CONSTANT), RATIOS[model.partition(",")[0]]
        training = self.training[constant]
        found = {}
        for app, runs in self.runs.items():
            traces = [trace for trace, _ in runs]
            subsets = [ALL if model.endswith(WHOLE) else self.components[constant][app]] * len(runs)
            if ratio is None:
                found[app] = variability_trained(training, traces, subsets)
            else:
                benchmark_w = self.kernels.mean_w(ratio)
                found[app] = power_ratio(training.on([self.profile]), benchmark_w, self.profile, traces, subsets)
        return found


def share_of_kinds(code: Code) -> Floats:
    """Return the share of processes of each kind. Shape (kinds,)."""
    return np.bincount(code.kind_of(), minlength=code.kinds) / code.processes


def sockets_figures(trial: PmcTrial) -> Values:
    """Return what the generator is calibrated on, as this draw has it."""
    values: Values = {}
    for kernel in (COMPUTE_BOUND, MEMORY_BOUND):
        watts = trial.kernels.mean_w(kernel)
        values["sockets", kernel, "spread_percent"] = float(100.0 * watts.std(ddof=1) / watts.mean())
    peak = trial.truth["blackscholes"].peak_w[0]
    values["sockets", "blackscholes", "range_percent"] = float(100.0 * (peak.max() - peak.min()) / peak.max())
    weight = [HEAVY_MIX[app] for app in trial.truth]
    peaks = [share_of_kinds(applications()[app]) @ t.peak_w for app, t in trial.truth.items()]
    values["sockets", "all applications", "socket_w"] = float(np.average(np.mean(peaks, axis=1), weights=weight))
    return values


HEAVY_MIX = {
    "blackscholes": 162 * 200, "bodytrack": 145 * 140, "dedup": 162 * 110, "facesim": 206 * 350, "ferret": 178 * 50,
    "fluidanimate": 176 * 150, "freqmine": 171 * 80, "streamcluster": 169 * 60, "swaptions": 159 * 45,
    "bt-mz_D.8": 125 * 8 * 240, "bt-mz_D.16": 110 * 16 * 200, "bt-mz_D.64": 69 * 64 * 45,
    "lu-mz_C.8": 116 * 8 * 100, "lu-mz_C.16": 92 * 16 * 50, "sp-mz_D.8": 136 * 8 * 120, "sp-mz_D.16": 110 * 16 * 200,
}  # fmt: skip
"""Socket-seconds of each application in the heavy traffic (cwm-simulator: jobs x sockets x estimate)."""
