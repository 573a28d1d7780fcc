"""Watts of applications on single units (chips, sockets, nodes) relative to their mean: a table of unit factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats


@dataclass(frozen=True, slots=True, eq=False)
class UnitTable:
    """Factors of A applications on U units, measured or predicted.

    Attributes:
        apps: Names of the applications.
        units: Names of the units.
        base_w: Watts of one unit of each application, to which the factors refer. Shape (A,).
        factor: Watts on each unit over ``base_w``; NaN where the application was not measured there. Shape (A, U).
        origin: ``measured``, ``predicted`` or ``generated``.
        time_factor: Run time on each unit over the mean, as ``factor``; None where it was not measured. Shape (A, U).

    Raises: InputError for names that occur twice, shapes that do not fit, and a factor that is not above 0.
    """

    apps: tuple[str, ...]
    units: tuple[str, ...]
    base_w: Floats
    factor: Floats
    origin: str = "measured"
    time_factor: Floats | None = None

    def __post_init__(self) -> None:
        for kind, names in (("application", self.apps), ("unit", self.units)):
            if len(set(names)) < len(names):
                twice = next(n for n in names if names.count(n) > 1)
                raise InputError(f"{kind} {twice} occurs twice", where="unit factors", hint="keep one row")
        if self.factor.shape != (len(self.apps), len(self.units)) or len(self.base_w) != len(self.apps):
            raise InputError(f"factors of shape {self.factor.shape}", where="unit factors")
        bad = np.argwhere(~((self.factor > 0) & np.isfinite(self.factor)) & ~np.isnan(self.factor))
        if len(bad):
            app, unit = self.apps[bad[0][0]], self.units[bad[0][1]]
            value = self.factor[bad[0][0], bad[0][1]]
            raise InputError(
                f"factor {value:g} is not above 0", where=f"unit factors, {app} on {unit}", hint="measure it again"
            )
        if not ((self.base_w > 0) & np.isfinite(self.base_w)).all():
            raise InputError("base watts must be finite and above 0", where="unit factors")

    @classmethod
    def of_watts(cls, apps: Sequence[str], units: Sequence[str], watts: Floats, origin: str = "measured") -> UnitTable:
        """Return the table of watts by application and unit, NaN where not measured. Shape (A, U).

        The base is the mean over the units on which the application was measured.

        Raises: InputError as the class does, and for an application without any watts.
        """
        found = np.isfinite(watts)
        empty = np.flatnonzero(~found.any(axis=1))
        if len(empty):
            raise InputError(f"application {apps[empty[0]]} has no watts", where="unit factors")
        base = np.nansum(watts, axis=1) / found.sum(axis=1)
        return cls(tuple(apps), tuple(units), base, watts / base[:, None], origin)
