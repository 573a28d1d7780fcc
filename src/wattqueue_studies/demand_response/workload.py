"""The two workloads of paper 5, generated from the ranges of Tables 2 to 4, and who of their users consents."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wattqueue.formats.machine.file import load_machine
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine

DAY_S = 86_400.0
"""All jobs are submitted within 24 hours (section 5.1)."""
HIGH_W = 509e3
"""Maximum power limitation (Table 2), which the busy machine does not reach: 507,360 W."""


@dataclass(frozen=True, slots=True)
class Mix:
    """One of the two workloads: numbers and ranges of Tables 3 and 4. Distributions are assumed to be uniform."""

    jobs: int
    run_s: tuple[float, float]
    nodes: tuple[int, int]


MIXES = {"1": Mix(100, (7_200.0, 21_600.0), (1, 16)), "2": Mix(3_000, (100.0, 3_000.0), (1, 4))}
"""By number of the experiment."""


def generate(experiment: str, seed: int) -> tuple[Jobs, Floats]:
    """Return the jobs of an experiment, and a number in [0, 1) for each: jobs below a share are the allowed ones.

    The allowed jobs of a smaller share are among those of a greater one, so that shares are compared on paired draws.
    Walltimes are the run times, since none are stated.
    """
    mix, rng = MIXES[experiment], np.random.default_rng((int(experiment), seed))
    submit = np.sort(rng.uniform(0.0, DAY_S, mix.jobs))
    run, nodes = rng.uniform(*mix.run_s, mix.jobs), rng.integers(mix.nodes[0], mix.nodes[1] + 1, mix.jobs)
    watts = np.full(mix.jobs, load_machine("osaka").partitions[0].max_w)
    jobs = Jobs.build(submit, nodes, run, mean_power_w=watts, origin="generated")
    return jobs, rng.random(mix.jobs)


def with_share(jobs: Jobs, place: Floats, share: float) -> Jobs:
    """Return the jobs with a share of them allowed."""
    return replace(jobs, consent=Consent.build(len(jobs), allowed=(place < share).astype(np.float64)))


def machine_for(limit_w: float, alpha: float) -> Machine:
    """Return the machine with two frequencies: full speed, and the highest at which it is busy within the limit.

    How far DVFS goes is not in the text. Watts above idle go with the frequency to the power of ``alpha``.
    """
    machine = load_machine("osaka")
    part = machine.partitions[0]
    full_hz, idle_w, busy_w = part.frequencies_hz[0], machine.idle_w, part.units * ((part.max_w or 0.0) - part.idle_w)
    fits = [hz for hz in part.frequencies_hz if idle_w + busy_w * (hz / full_hz) ** alpha <= limit_w]
    chosen = fits[0] if fits else part.frequencies_hz[-1]
    return replace(
        machine, partitions=(replace(part, frequencies_hz=tuple(dict.fromkeys((full_hz, chosen))), dvfs_alpha=alpha),)
    )
