"""What each application takes and draws on each hardware configuration at each frequency."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.ear import Coefficients, Metrics, project

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class HardwareProfile:
    """Applications on one hardware configuration, by frequency, the highest (the nominal) first.

    Shapes: ``frequency_hz`` (F,); ``power_w`` watts of one node and ``time_s`` of one benchmark run
    (A, F), NaN where the application has no entry.

    Raises: InputError for tables that do not fit.
    """

    frequency_hz: Floats
    power_w: Floats
    time_s: Floats

    def __post_init__(self) -> None:
        if self.power_w.shape != self.time_s.shape or self.power_w.shape[1:] != self.frequency_hz.shape:
            raise InputError("profile: watts and times need one column a frequency")
        if (np.diff(self.frequency_hz) >= 0).any():
            raise InputError("profile: frequencies must fall")


@dataclass(frozen=True, slots=True, eq=False)
class Profiles:
    """Profiles of A applications on several hardware configurations; ``source`` says from where."""

    apps: tuple[str, ...]
    hardware: Mapping[str, HardwareProfile]
    source: str

    def on(self, name: str) -> HardwareProfile:
        """The profile of one hardware configuration.

        Raises: InputError naming those there are.
        """
        if name not in self.hardware:
            raise InputError(f"no profile of hardware {name!r}", mend=f"known: {', '.join(self.hardware)}")
        return self.hardware[name]


def ear_profiles(
    apps: tuple[str, ...],
    coefficients: Mapping[str, Coefficients],
    metrics: Mapping[str, Metrics],
    source: str = "EAR coefficients",
) -> Profiles:
    """Profiles by equations 1 to 3; ``metrics`` are given at each configuration's nominal frequency.

    A frequency without coefficients is not in the profile, so nobody can be offered it.

    Raises: InputError where a configuration lacks coefficients or metrics, or a projection is not positive.
    """
    table = {}
    for name, seen in metrics.items():
        if name not in coefficients:
            raise InputError(f"metrics of hardware {name!r} without coefficients", mend="run the learning phase there")
        model = coefficients[name]
        found = project(model, seen, model.nominal_hz)
        for quantity in (found.power_w, found.time_s):
            if (quantity <= 0).any():
                row = int(np.argwhere(quantity <= 0)[0][0])
                raise InputError(
                    f"application {apps[row]} on {name}: the model gives watts or times that are not positive",
                    mend="its metrics lie too far from the benchmarks of the learning phase",
                )
        table[name] = HardwareProfile(found.frequency_hz, found.power_w, found.time_s)
    return Profiles(apps, table, source)
