"""Least squares of eq. 1: watts of a socket as active cores and activity ratios times weights.

    P = AC * W_cores + sum over components of AR_c * W_c (+ a constant)

The equation has no constant; a fit with one is offered beside it, since idle watts have no activity. All sockets share
the activity of the training kernels, so that one QR factorisation of the activity serves all sockets and all subsets
of components: for columns s, the weights are the least-squares solution of R[:, s] against Q' P.

Reference: paper 2, equations 1 and 3; Golub and Van Loan, Matrix Computations, section 5.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats
from wattqueue_studies.pmc.events import COMPONENTS, LEVELS

TERMS = (*LEVELS, "constant")
"""Terms of eq. 1 and the constant: rows of a table of weights."""
RANK_TOLERANCE = 1e-9
"""A singular value below this share of the greatest one counts as 0, columns scaled to length 1."""
Subset = tuple[int, ...]
"""Components of a model, by their position in ``COMPONENTS``."""
ALL: Subset = tuple(range(len(COMPONENTS)))
"""All eight components: the model that is not optimised."""
SUBSETS: tuple[Subset, ...] = tuple(s for size in range(len(ALL), -1, -1) for s in combinations(ALL, size))
"""All 256 subsets, the largest first: of equal errors, the model with more components is taken."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSet:
    """The training kernels' activity, factorised, with their watts on S sockets.

    Attributes:
        triangle: R of the activity's QR factorisation. Shape (k, k).
        projected: Q' times the watts. Shape (k, S).
        constant: Whether the model has a constant.
    """

    triangle: Floats
    projected: Floats
    constant: bool

    @classmethod
    def of(cls, level: Floats, watts: Floats, *, constant: bool = False) -> TrainingSet:
        """Factorise the activity of n observations of the kernels.

        Args:
            level: Active cores and ratios. Shape (n, 9).
            watts: Measured watts on each socket. Shape (n, S), or (n,) for one socket.
            constant: Whether the model has a constant.

        Raises: InputError for watts that are not finite or not positive, for shapes that do not fit, and for training
        that does not determine all weights, with its rank.
        """
        watts = watts[:, None] if watts.ndim == 1 else watts
        if level.ndim != 2 or level.shape[1] != len(LEVELS) or len(level) != len(watts):
            raise InputError(f"activity {level.shape} and watts {watts.shape} do not fit", where="training")
        if not (np.isfinite(watts).all() and (watts > 0).all()):
            raise InputError("watts must be finite and above 0", where="training", hint="leave the observation out")
        columns = with_constant(level) if constant else level
        require_rank(columns, TERMS)
        q, r = np.linalg.qr(columns)
        return cls(r, q.T @ watts, constant)

    @property
    def sockets(self) -> int:
        """Return the number of sockets."""
        return int(self.projected.shape[1])

    def on(self, sockets: NDArray[np.integer] | list[int]) -> TrainingSet:
        """Return the training of some sockets."""
        return TrainingSet(self.triangle, self.projected[:, sockets], self.constant)

    def weights(self, components: Subset = ALL) -> Floats:
        """Return the weights of a model with some components, active cores always kept. Shape (10, S); unused are 0.

        A weight may be negative: least squares does not bound it, and neither does the paper.
        """
        used = [0, *(1 + c for c in components), *([len(LEVELS)] if self.constant else [])]
        found = np.zeros((len(TERMS), self.sockets))
        found[used] = np.linalg.lstsq(self.triangle[:, used], self.projected, rcond=None)[0]
        return found

    def all_subsets(self, subsets: Iterable[Subset] = SUBSETS) -> Floats:
        """Return the weights of one socket for every subset. Shape (10, subsets).

        Raises: InputError for a training set of several sockets: a subset is chosen on one, the profile socket.
        """
        if self.sockets != 1:
            raise InputError(f"{self.sockets} sockets", where="training", hint="choose on the profile socket alone")
        return np.hstack([self.weights(s) for s in subsets])


class SocketTraining(Protocol):
    """What models need of training: the sockets, and their weights for a subset of components."""

    @property
    def sockets(self) -> int:
        """Return the number of sockets."""
        ...

    def weights(self, components: Subset = ALL) -> Floats:
        """Return the weights with some components. Shape (10, S)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SeparateTraining:
    """Training sets of single sockets, each with the activity that was recorded on it."""

    sets: Sequence[TrainingSet]

    @property
    def sockets(self) -> int:
        """Return the number of sockets."""
        return len(self.sets)

    def weights(self, components: Subset = ALL) -> Floats:
        """Return the weights with some components. Shape (10, S)."""
        return np.hstack([one.weights(components) for one in self.sets])


def with_constant(level: Floats) -> Floats:
    """Return activity with a column of ones for the constant. Shape (n, 9) -> (n, 10)."""
    return np.column_stack([level, np.ones(len(level))])


def least_squares(columns: Floats, watts: Floats, names: Sequence[str]) -> Floats:
    """Return the weights of any columns of activity, for sites that record other ones. Shapes (n, k), (n,) -> (k,).

    Raises: InputError for columns that do not determine all weights, with their rank.
    """
    require_rank(columns, names)
    return np.asarray(np.linalg.lstsq(columns, watts, rcond=None)[0], np.float64)


def require_rank(columns: Floats, names: Sequence[str]) -> None:
    """Check that observations determine every weight.

    Raises: InputError with rank and number of weights, and the terms that cannot be told apart.
    """
    length = np.linalg.norm(columns, axis=0)
    scaled = columns / np.where(length > 0, length, 1.0)
    _, size, rows = np.linalg.svd(scaled, full_matrices=True)
    rank = int((size > RANK_TOLERANCE * size.max(initial=0.0)).sum())
    if rank == columns.shape[1]:
        return
    # Terms with a share in the directions that no observation measures.
    loose = np.abs(rows[rank:]).max(axis=0) > 1e-3
    names = ", ".join(name for name, is_loose in zip(names, loose, strict=False) if is_loose)
    raise InputError(
        f"training has rank {rank}, the model has {columns.shape[1]} weights: {names} cannot be told apart",
        where="training",
        hint="add kernels that use these components differently",
    )
