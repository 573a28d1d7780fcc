"""Eq. 1-3 of paper 4 as they are printed: every prediction looks at every finished job again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Done:
    """A finished job: user, completion, watts."""

    user: int
    end_s: float
    watts: float


def history_predict(
    done: Sequence[Done], user: int, now: float, *, alpha: float = 2.0, window_s: float = math.inf
) -> float:
    """Watts of a job submitted now."""
    known = [d for d in done if d.end_s <= now and d.watts > 0]
    own = [d for d in known if d.user == user and user >= 0]
    age = {d.end_s: Fraction(now) - Fraction(d.end_s) for d in own}  # exact, so that the twin has no error of its own
    s = Fraction(window_s) if window_s != math.inf else max(age.values(), default=Fraction(0))
    inside = [d for d in own if age[d.end_s] <= s]
    if not inside:
        return math.fsum(d.watts for d in known) / len(known) if known else math.nan
    theta = [float(1 - age[d.end_s] / s) ** alpha if s > 0 else 0.0 for d in inside]
    if math.fsum(theta) == 0:
        return math.fsum(d.watts for d in inside) / len(inside)
    return math.fsum(t * d.watts for t, d in zip(theta, inside, strict=True)) / math.fsum(theta)


def history_spread(done: Sequence[Done], user: int, now: float) -> float:
    """Standard deviation of the watts of the user's finished jobs."""
    own = [d.watts for d in done if d.user == user >= 0 and d.end_s <= now and d.watts > 0]
    if not own:
        return math.nan
    mean = math.fsum(own) / len(own)
    return math.sqrt(math.fsum((w - mean) ** 2 for w in own) / len(own))


def history_last(done: Sequence[Done], user: int, now: float) -> float:
    """Watts of the user's job that ended last; the later row where two end together."""
    own = [d for d in done if d.user == user >= 0 and d.end_s <= now and d.watts > 0]
    return max(enumerate(own), key=lambda e: (e[1].end_s, e[0]))[1].watts if own else math.nan


def corrected_w(base_w: float, full_w: float, margin: float, factors: Iterable[float]) -> float:
    """Watts of a unit of factor 1 with a margin: at most so many that the worst unit draws its maximum.

    Or what the base predicts, where that is more than the maximum ``full_w``. ``factors`` are those of a partition.
    """
    most = max(full_w, base_w) / max(factors)
    return base_w * margin if base_w * margin < most else most
