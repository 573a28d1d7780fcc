"""True watts of a socket from the activity of its cores: deliberately not eq. 1 of paper 2.

    P = U0 + uncore(AC, l3, memory) + F * (cores(AC, level) + leakage(T))            at most the power limit

F is the chip's factor. Eq. 1 cannot express this exactly, so that no prediction is right by construction:

- cores: watts of a core saturate as its components compete for slots, and multiply with active cores, while eq. 1
  adds them; few active cores run faster (turbo); the energy of an event differs between codes (``toggle``); halts are
  seen by no counter;
- uncore: traffic of all cores together saturates at the memory's bandwidth, and has no chip factor;
- leakage grows exponentially with temperature.

All constants are assumed and frozen; what they are calibrated on stands in docs/variability-generator.md.

``Chips`` are what differs between sockets of one model: one factor on the watts of the cores, and little else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattqueue.errors import InputError, one_of
from wattqueue.model.jobs import Floats
from wattqueue_studies.variability.codes import Code, CodeActivity, activity

CORE_SD = 0.060
"""Standard deviation of the chips' factor on core watts: see docs/variability-generator.md."""
APP_SD = 0.006
"""Standard deviation of what an application adds to a chip's factor: parts of a core differ among themselves."""
SPEED_SD = 0.001
"""Standard deviation of speed below the power limit: chips of one model run at one frequency."""
WITHIN = 2.2
"""Factors lie within so many standard deviations: chips beyond are sold as another model."""
TEMPERATURE_C = (38.0, 42.0)
"""Sockets are kept within (section 4.1 of paper 2)."""


@dataclass(frozen=True, slots=True, eq=False)
class Chips:
    """Drawn sockets.

    Attributes:
        core: Factor on the watts of the cores. Shape (S,).
        app: Further factor on them, by application. Shape (A, S).
        speed: Speed below the power limit. Shape (S,).
        temperature_c: Mean temperature. Shape (S,).
        apps: Names of the applications.
    """

    core: Floats
    app: Floats
    speed: Floats
    temperature_c: Floats
    apps: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.core)

    def factor(self, app: str) -> Floats:
        """Return the factor on core watts for an application. Shape (S,). Raises: InputError for an unknown one."""
        if app not in self.apps:
            raise InputError(f"no application {app!r}", where="chips", hint=one_of(app, self.apps))
        found: Floats = self.core * self.app[self.apps.index(app)]
        return found


def draw_chips(rng: np.random.Generator, sockets: int, apps: Sequence[str]) -> Chips:
    """Draw the sockets of a machine.

    Args:
        rng: Source of random draws.
        sockets: Number of sockets.
        apps: Names of kernels and applications, in an order that is part of the draw.
    """
    core = 1.0 + CORE_SD * _within(rng, (sockets,))
    app = 1.0 + APP_SD * _within(rng, (len(apps), sockets))
    speed = 1.0 + SPEED_SD * _within(rng, (sockets,))
    return Chips(core, app, speed, rng.uniform(*TEMPERATURE_C, sockets), tuple(apps))


def _within(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Draw standard normal values, limited to ``WITHIN``."""
    return np.clip(rng.standard_normal(shape), -WITHIN, WITHIN)


LIMIT_W = 115.0
"""Highest watts of a socket (section 4.4 of paper 2 counts them as the worst case)."""
UNCORE_W = 17.0
"""Uncore without traffic."""
TRAFFIC_W = np.array([22.0, 90.0])
"""Watts per event of the third-level cache and of memory, per cycle and core."""
BANDWIDTH_W = 24.0
"""Uncore watts at which traffic saturates."""
CORE_W = 1.72
"""An active core without events."""
EVENT_W = np.array([0.40, 0.9, 0.38, 1.0, 0.65, 3.5])
"""Watts of an event per cycle on one core: fetch, branch, ALU, floating point, L1, L2."""
CORE_SATURATION_W = 9.0
"""Dynamic watts of a core at which its components saturate."""
TURBO = 0.35
"""Watts that a core alone on its socket draws more, relative."""
SOCKET_CORES = 16
"""Cores of a socket that applications use."""
LEAKAGE_W, LEAKAGE_C = 9.0, 25.0
"""Leakage of all cores at 40 C, and degrees after which it has grown by e."""
SPEED_EXPONENT = 2.5
"""Core watts grow with this power of the frequency, which limits the speed at the power limit."""


@dataclass(frozen=True, slots=True, eq=False)
class TrueWatts:
    """True figures of A kinds of process on S sockets over a run. Shapes (A, S).

    Attributes:
        mean_w: Mean watts.
        peak_w: Highest sample of ``codes.SAMPLE_S``.
        time_factor: Run time over that at reference speed: above 1 where the limit slows the cores.
    """

    mean_w: Floats
    peak_w: Floats
    time_factor: Floats


def core_watts(code: Code, run: CodeActivity) -> Floats:
    """Return the watts of the cores of a chip with factor 1, without leakage. Shape (samples,)."""
    cores, level = run.level[:, 0], run.level[:, 1:7]
    dynamic = code.toggle * (level @ EVENT_W)
    saturated = CORE_SATURATION_W * (1.0 - np.exp(-dynamic / CORE_SATURATION_W))
    turbo = 1.0 + TURBO * (1.0 - np.minimum(cores, SOCKET_CORES) / SOCKET_CORES)
    found: Floats = cores * (1.0 - run.halt) * turbo * (CORE_W + saturated)
    return found


def uncore_watts(run: CodeActivity) -> Floats:
    """Return the watts of the uncore, the same on every chip. Shape (samples,)."""
    traffic = run.level[:, 0] * (1.0 - run.halt) * (run.level[:, 7:] @ TRAFFIC_W)
    found: Floats = UNCORE_W + BANDWIDTH_W * traffic / (BANDWIDTH_W + traffic)
    return found


def leakage_watts(temperature_c: Floats) -> Floats:
    """Return the leakage of the cores of a chip with factor 1. Shape as ``temperature_c``."""
    found: Floats = LEAKAGE_W * np.exp((temperature_c - 40.0) / LEAKAGE_C)
    return found


def socket_watts(code: Code, chips: Chips, kind: int = 0) -> tuple[Floats, Floats]:
    """Return true watts of one kind of process on every socket, and its speed. Shapes (samples, S).

    At the limit the cores are slowed until the socket draws no more than the limit.
    """
    run, factor = activity(code, kind), chips.factor(code.name)
    uncore = uncore_watts(run)[:, None]
    cores = factor * (core_watts(code, run)[:, None] + leakage_watts(chips.temperature_c))
    room = np.minimum((LIMIT_W - uncore) / cores, 1.0)
    return uncore + cores * room, chips.speed * room ** (1.0 / SPEED_EXPONENT)


def true_watts(code: Code, chips: Chips) -> TrueWatts:
    """Return the true figures of each kind of process of a code on every socket. Shapes (kinds, S)."""
    each = [socket_watts(code, chips, kind) for kind in range(code.kinds)]
    mean = np.stack([watts.mean(axis=0) for watts, _ in each])
    peak = np.stack([watts.max(axis=0) for watts, _ in each])
    slow = np.stack([1.0 / speed.mean(axis=0) for _, speed in each])
    return TrueWatts(mean, peak, slow)
