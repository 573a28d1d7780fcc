"""Run time and watts of each application on each hardware configuration at each frequency.

The input of the estimator ``ear``, whether it comes from EAR's coefficients or from Table 1 of paper 1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError, one_of

if TYPE_CHECKING:
    from wattqueue.model.ear import Coefficients, Signatures

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class HardwareProfile:
    """Applications on one hardware configuration, by frequency, the highest (the nominal) first.

    Raises: InputError for tables whose shapes do not match, or frequencies that do not fall.
    """

    frequency_hz: Floats
    """Falling. Shape (F,)."""
    power_w: Floats
    """Watts of one node, NaN where the application has no profile. Shape (A, F)."""
    time_s: Floats
    """Seconds of one benchmark run, NaN likewise. Only ratios are used. Shape (A, F)."""

    def __post_init__(self) -> None:
        if self.power_w.shape != self.time_s.shape or self.power_w.shape[1:] != self.frequency_hz.shape:
            raise InputError("watts and times need one column a frequency", where="profile")
        if (np.diff(self.frequency_hz) >= 0).any():
            raise InputError("frequencies must fall", where="profile")


@dataclass(frozen=True, slots=True, eq=False)
class AppProfiles:
    """Profiles of A applications on several hardware configurations."""

    apps: tuple[str, ...]
    """Names of the applications: rows of every profile."""
    hardware: Mapping[str, HardwareProfile]
    """Profiles by hardware configuration (usually a partition's name)."""
    source: str
    """Where the figures come from, for reports."""

    def among(self, names: Collection[str]) -> AppProfiles:
        """Return the profiles of some hardware configurations."""
        return replace(self, hardware={name: one for name, one in self.hardware.items() if name in names})

    def on(self, name: str) -> HardwareProfile:
        """Return the profile of one hardware configuration.

        Raises: InputError with the known ones in the hint.
        """
        if name not in self.hardware:
            raise InputError(
                "no profile of this hardware", where=f"hardware {name!r}", hint=one_of(name, self.hardware)
            )
        return self.hardware[name]


def ear_profiles(
    apps: tuple[str, ...],
    coefficients: Mapping[str, Coefficients],
    metrics: Mapping[str, Signatures],
    source: str = "EAR coefficients",
) -> AppProfiles:
    """Return profiles by equations 1 to 3 from ``metrics`` at each configuration's nominal frequency.

    A frequency without coefficients is not in the profile, so the estimator never offers it.

    Raises: InputError where a configuration lacks coefficients or metrics, or a projection is not positive.
    """
    from wattqueue.model.ear import project

    table = {}
    for name, seen in metrics.items():
        if name not in coefficients:
            raise InputError(
                "metrics without coefficients", where=f"hardware {name!r}", hint="run the learning phase there"
            )
        model = coefficients[name]
        found = project(model, seen, model.nominal_hz)
        for quantity in (found.power_w, found.time_s):
            if (quantity <= 0).any():
                row = int(np.argwhere(quantity <= 0)[0][0])
                raise InputError(
                    "the model gives watts or times that are not positive",
                    where=f"application {apps[row]} on {name}",
                    hint="its metrics lie too far from the benchmarks of the learning phase",
                )
        table[name] = HardwareProfile(found.frequency_hz, found.power_w, found.time_s)
    return AppProfiles(apps, table, source)
