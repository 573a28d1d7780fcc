"""Which users consent at which reward: an acceptance curve from a TOML file.

::

    name = "Acceptance, assumed"
    origin = "generated"        # or "surveyed": where the curve comes from
    source = "assumed for the example; no users were asked"
    value_per_node_h = 0.08     # what a node-hour of added wait or run time costs a user
    points = [[0.0, 0.05], [0.5, 0.30], [1.0, 0.55], [2.0, 0.80], [4.0, 0.95]]

A point is (multiple of the reward model's rates, share of users who consent); between points the curve is straight,
beyond them constant. No public record says how users of a computing centre answer such an offer, so a curve is an
assumption unless a site has asked its users; every result says which of the two it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from wattqueue.errors import InputError
from wattqueue.formats.bounded import Money, Number
from wattqueue.formats.checked_toml import StrictTable, read_model
from wattqueue.formats.source import sha256_of
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue_grid.money import decimal_of


@dataclass(frozen=True, slots=True)
class AcceptanceCurve:
    """Share of users who consent, by the multiple of the reward model's rates."""

    name: str
    origin: str
    source: str
    value_per_node_h: Decimal
    points: tuple[tuple[float, float], ...]
    sha256: str = ""

    def share(self, multiple: float) -> float:
        """Return the share of users who consent at a multiple of the rates."""
        x, y = zip(*self.points, strict=True)
        return float(np.interp(multiple, x, y))


class _File(StrictTable):
    name: Annotated[str, Field(min_length=1)]
    origin: Literal["generated", "surveyed"]
    source: Annotated[str, Field(min_length=1)]
    value_per_node_h: Money
    points: Annotated[list[list[Number]], Field(min_length=2)]


def read_acceptance(path: Path) -> AcceptanceCurve:
    """Return the acceptance curve of a TOML file.

    Raises: InputError naming file and key; points must be pairs whose multiples rise and whose shares do not fall.
    """
    file = read_model(path, _File)
    points = np.array([p for p in file.points if len(p) == 2], np.float64)
    good = len(points) == len(file.points) and (np.diff(points[:, 0]) > 0).all() and (np.diff(points[:, 1]) >= 0).all()
    if not good or (points < 0).any() or (points[:, 1] > 1).any():
        raise InputError(
            "points are no acceptance curve",
            where=f"{path}: points",
            hint="pairs [multiple, share]: multiples rise from 0 on, shares do not fall and lie within 0 and 1",
        )
    value = decimal_of(file.value_per_node_h, f"{path}: value_per_node_h")
    pairs = tuple((float(x), float(y)) for x, y in points)
    return AcceptanceCurve(file.name, file.origin, file.source, value, pairs, sha256_of(path))


def with_consent_of(jobs: Jobs, share: float, seed: int) -> Jobs:
    """Return the jobs with the consent of a random share of users; the users of a smaller share are among them.

    Each user draws a number once; those below ``share`` consent, with all their jobs. Jobs without a user do not.
    Limits and prices that jobs state stay as they are.
    """
    rng = np.random.default_rng(seed)
    draws = np.append(rng.random(len(jobs.user.names)), 1.0)
    allowed: NDArray[np.float64] = (draws[jobs.user.codes] < share).astype(np.float64)
    stated = jobs.consent or Consent.build(len(jobs))
    return replace(jobs, consent=replace(stated, allowed=allowed))
