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

    Raises: InputError for names that occur twice, shapes that do not fit, and a factor that is not above 0.
    """

    apps: tuple[str, ...]
    units: tuple[str, ...]
    base_w: Floats
    factor: Floats
    origin: str = "measured"

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

    @property
    def complete(self) -> UnitTable:
        """Return the units on which every application was measured."""
        everywhere = np.flatnonzero(np.isfinite(self.factor).all(axis=0))
        return self.on([self.units[k] for k in everywhere])

    def on(self, units: Sequence[str]) -> UnitTable:
        """Return the factors of some units in their order, such as those of a machine.

        Raises: InputError for a unit that the table does not have: nothing is known about its watts.
        """
        at = {name: k for k, name in enumerate(self.units)}
        lacking = [u for u in units if u not in at]
        if lacking:
            more = f" and {len(lacking) - 1} others" if len(lacking) > 1 else ""
            raise InputError(
                f"unit {lacking[0]}{more} is missing", where="unit factors", hint="measure it, or leave it out"
            )
        return UnitTable(self.apps, tuple(units), self.base_w, self.factor[:, [at[u] for u in units]], self.origin)

    def for_apps(self, apps: Sequence[str]) -> tuple[Floats, int]:
        """Return the factors for a list of applications, and how many of them the table does not have.

        An application that was never profiled, and a unit on which it was not, get the worst factor: the greatest of
        any application on any unit. Callers report the count. Shape (apps, U).
        """
        at = {name: k for k, name in enumerate(self.apps)}
        worst = float(np.nanmax(self.factor))
        found = np.full((len(apps), len(self.units)), worst)
        for k, app in enumerate(apps):
            if app in at:
                row = self.factor[at[app]]
                found[k] = np.where(np.isnan(row), worst, row)
        return found, sum(app not in at for app in apps)
