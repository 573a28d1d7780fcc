"""The paper's traffic with generated watts: power profiles with phases of 100 ms to 1 s, and true watts by chip.

Submissions, applications, sizes and estimates are those that the paper ran (``formats.workloads.cwm``); run times are
not published, so the estimate counts. Watts are generated (``physics``).

The published list of jobs has 14 names in 16 rows; the paper has 16 applications. **Assumed**: rows of bt-mz_D.8 with
an estimate of 120 s are sp-mz_D.8, and every second bt-mz_D.16 is sp-mz_D.16 (both have 200 s).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.unit_table import UnitTable
from wattqueue_studies.variability.codes import SAMPLE_S, Code, activity, applications
from wattqueue_studies.variability.physics import LEAKAGE_W, LIMIT_W, Chips, core_watts, true_watts, uncore_watts

SP_MZ_D8_S = 120.0
"""Estimate that distinguishes the rows of bt-mz_D.8: 240 s are bt-mz, 120 s sp-mz."""


@dataclass(frozen=True, slots=True, eq=False)
class UnitTruth:
    """What every application truly draws on every socket: the mean over its processes.

    Attributes:
        mean: Mean watts, as unit factors on those of the average socket.
        peak: Highest 100 ms, likewise.
        time_factor: Run time on each socket over the estimate. Shape (apps, sockets).
    """

    mean: UnitTable
    peak: UnitTable
    time_factor: Floats


def with_sp_mz(jobs: Jobs) -> Jobs:
    """Return the jobs with the names of all 16 applications (see the module's assumption).

    Raises: InputError for an application that the workload of paper 2 does not have.
    """
    names = jobs.app.values().astype(str)
    names[(names == "bt-mz_D.8") & (jobs.walltime_s == SP_MZ_D8_S)] = "sp-mz_D.8"
    names[np.flatnonzero(names == "bt-mz_D.16")[1::2]] = "sp-mz_D.16"
    unknown = sorted(set(names) - set(applications()))
    if unknown:
        raise InputError(f"no activity of application {unknown[0]!r}", where="column app", hint="see codes.toml")
    return replace(jobs, app=Labels.of(names))


def cores_of(code: Code) -> int:
    """Return the cores of an instance on one socket: 16, with the exceptions of section 4.1."""
    if code.name.startswith("lu-mz"):
        return 1
    return 8 if code.name in ("facesim", "fluidanimate") else 16


def with_watts(jobs: Jobs, stretch: float = 1.0) -> Jobs:
    """Return the jobs with power profiles of a socket of average chips, generated at 100 ms.

    Run times are ``stretch`` times the estimates, and known: no run time of the paper is published.

    A job's profile is the mean over its processes; each process begins it with the job. The column ``cores`` of
    ``extra`` has the cores of all its sockets together.

    Raises: InputError as ``with_sp_mz``, which names the applications first.
    """
    named = with_sp_mz(jobs)
    named = replace(named, runtime_s=stretch * named.runtime_s, walltime_s=stretch * named.walltime_s)
    codes = [applications()[name] for name in named.app.names]
    series = [_average_watts(code) for code in codes]
    first = np.concatenate(([0], np.cumsum([len(s) for s in series]))).astype(np.int64)
    profiles = PowerProfiles(
        named.app.codes.astype(np.int32),
        np.zeros(len(named)),
        np.ones(len(named)),
        np.concatenate([np.zeros(0), *series]).astype(np.float32),
        first,
        np.array([round(code.serial_s / SAMPLE_S) for code in codes], np.int64),
        SAMPLE_S,
    )
    per_socket = np.array([cores_of(code) for code in codes])
    cores: NDArray[np.int64] = named.nodes * per_socket[named.app.codes]
    return replace(
        named,
        mean_power_w=profiles.mean_power_w(named.runtime_s),
        max_power_w=profiles.max_power_w(named.runtime_s),
        profiles=profiles,
        origin="generated",
        extra={**named.extra, "cores": cores},
    )


def unit_truth(chips: Chips) -> UnitTruth:
    """Return what every application draws on drawn chips: what an oracle knows, and a simulation carries out."""
    found = {name: true_watts(code, chips) for name, code in applications().items()}
    units = [f"socket{k}" for k in range(len(chips))]
    share = {name: np.bincount(code.kind_of(), minlength=code.kinds) for name, code in applications().items()}
    mean, peak, slow = (
        np.stack([np.average(getattr(w, column), axis=0, weights=share[name]) for name, w in found.items()])
        for column in ("mean_w", "peak_w", "time_factor")
    )
    return UnitTruth(
        UnitTable.of_watts(list(found), units, mean, "generated"),
        UnitTable.of_watts(list(found), units, peak, "generated"),
        slow,
    )


def _average_watts(code: Code) -> Floats:
    """Return the watts of one unit on average chips: mean over the processes, limited. Shape (samples,)."""
    kinds = code.kind_of()
    each = []
    for kind in range(code.kinds):
        run = activity(code, kind)
        each.append(np.minimum(uncore_watts(run) + core_watts(code, run) + LEAKAGE_W, LIMIT_W))
    found: Floats = np.average(each, axis=0, weights=np.bincount(kinds, minlength=code.kinds))
    return found
