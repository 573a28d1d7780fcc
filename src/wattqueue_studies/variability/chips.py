"""What differs between sockets of one model: one factor on the watts of the cores, and little else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattqueue.errors import InputError, one_of
from wattqueue.model.jobs import Floats

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
