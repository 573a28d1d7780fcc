"""What users allow a centre to do with their jobs during a load target, as columns of the job table.

Paper 5 (Matsui et al., section 2.2) divides jobs into allowed ones, which may be slowed down or held back while power
is saved, and disallowed ones, which may not. A user may add limits to an allowed job. Whether a job that states
nothing is allowed is decided by a default of its user, and where there is none by a default of the site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattqueue.errors import InputError
from wattqueue.model import bounds
from wattqueue.model.bounds import ALLOWED, CHECKPOINT, PRICE, SLOWDOWN

Floats = NDArray[np.float64]

LIMITS = {
    "allowed": ALLOWED,
    "greatest_slowdown": SLOWDOWN,
    "latest_end_s": bounds.TIME_S,
    "price_per_added_hour": PRICE,
    "checkpoint_s": CHECKPOINT,
}
"""The columns of a job table that state consent, each with its range."""
COLUMNS = tuple(LIMITS)


@dataclass(frozen=True, slots=True, eq=False)
class Consent:
    """The consent of n jobs; NaN where a job states nothing. Shapes (n,).

    Raises: InputError with column and row for a figure outside its range, or a flag that is neither 0 nor 1.
    Reference: paper 5, sections 2.2 and 3.2 (the allowed flag). The limits are WattQueue's own.
    """

    allowed: Floats
    """1 where the job may be slowed down or held back during a load target, 0 where it may not."""
    greatest_slowdown: Floats
    """Greatest run time, as a multiple of the one at full speed; NaN: no limit."""
    latest_end_s: Floats
    """The job may be slowed down only where it is still expected to end by then; NaN: no limit."""
    price_per_added_hour: Floats
    """What the user asks for an hour of added turnaround, in the currency of the tariff; NaN: nothing."""
    checkpoint_s: Floats
    """The job keeps its work at the end of every so many seconds of it, at reference speed, counted from its last
    start, and may be requeued where others are suspended; NaN: it keeps none, and is not requeued."""

    def __post_init__(self) -> None:
        for name, bound in LIMITS.items():
            column = getattr(self, name)
            if len(column) != len(self.allowed):
                raise InputError(f"{len(column)} rows, allowed has {len(self.allowed)}", where=f"column {name}")
            bound.require_column(column, name, missing=True)
        between = (self.allowed > 0) & (self.allowed < 1)
        if between.any():
            row = int(np.argmax(between))
            raise InputError(
                f"{self.allowed[row]:g} is neither 0 nor 1",
                where=f"column allowed, row {row + 1}",
                hint="write 1 for a job that may be slowed down or held back, 0 for one that may not",
            )

    @classmethod
    def build(cls, n: int, **columns: ArrayLike) -> Self:
        """Return the consent of n jobs from those columns that are stated. Raises: InputError as the class does."""
        gap = np.full(n, np.nan)
        return cls(*(np.ascontiguousarray(columns.get(name, gap), np.float64) for name in COLUMNS))

    def __len__(self) -> int:
        return len(self.allowed)

    @property
    def given(self) -> NDArray[np.bool_]:
        """Return which jobs may be slowed down or held back. Shape (n,). A job that states nothing may not."""
        given: NDArray[np.bool_] = self.allowed == 1
        return given

    def take(self, index: NDArray[Any] | slice) -> Consent:
        """Return the rows of ``index``, in that order."""
        from wattqueue.model.codec import take

        return take(self, index)


@dataclass(frozen=True, slots=True)
class ConsentDefaults:
    """What holds for jobs that state no ``allowed``: a default for each user, and one for all others."""

    users: Mapping[str, bool] = field(default_factory=dict)
    """By name of the user."""
    others: bool = False
    """For users who are not listed, and for jobs without a user."""

    def filled(self, consent: Consent | None, codes: NDArray[np.int32], names: tuple[str, ...]) -> Consent:
        """Return the consent of n jobs, each flag 0 or 1. ``codes`` and ``names`` are the column of users."""
        found = Consent.build(len(codes)) if consent is None else consent
        by_user = np.array([*(self.users.get(name, self.others) for name in names), self.others], np.float64)
        # Code -1, a job without a user, takes the last element.
        return replace(found, allowed=np.where(np.isnan(found.allowed), by_user[codes], found.allowed))
