"""The naive twin of run times predicted from recent jobs: plain lists of what has ended."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class RecentRuns:
    """``keys[level][job]`` says to which group a job belongs, None for none; the narrowest level first."""

    keys: list[list[Any]]
    jobs: int
    fewest: int
    at: float | None
    ended: dict[Any, list[float]] = field(default_factory=lambda: defaultdict(list))

    def learn(self, job: int, seconds: float) -> None:
        for level, keys in enumerate(self.keys):
            self.ended[level, keys[job]].append(seconds)

    def seconds(self, job: int) -> float:
        for level, keys in enumerate(self.keys):
            known = self.ended[level, keys[job]]
            if keys[job] is not None and len(known) >= self.fewest:
                last = known[-self.jobs :]
                return float(np.mean(last) if self.at is None else np.quantile(last, self.at))
        return math.nan

    def planned(self, job: int, limit: float) -> float:
        seconds = self.seconds(job)
        return limit if math.isnan(seconds) else min(limit, max(1.0, seconds))


@dataclass
class NearestRuns:
    """The k nearest of the last jobs that ended; ``requests`` are (user, application, units, walltime) of each job."""

    requests: list[tuple[int, int, float, float]]
    k: int
    last: int
    at: float
    apart: tuple[float, float]
    ended: list[tuple[int, float]] = field(default_factory=list)

    def learn(self, job: int, seconds: float) -> None:
        self.ended.append((job, seconds))

    def distance(self, one: int, other: int) -> float:
        a, b = self.requests[one], self.requests[other]
        far = abs(math.log2(a[2]) - math.log2(b[2])) + abs(math.log2(a[3]) - math.log2(b[3]))
        return far + self.apart[0] * (a[0] != b[0]) + self.apart[1] * (a[1] != b[1])

    def seconds(self, job: int) -> float:
        newest_first = self.ended[::-1][: self.last]
        if len(newest_first) < self.k:
            return math.nan
        nearest = sorted(newest_first, key=lambda each: self.distance(job, each[0]))[: self.k]
        return float(np.quantile([seconds for _, seconds in nearest], self.at))


def tree_sum(model: Any, table: Any) -> Any:
    """What scikit-learn's own model answers."""
    return model.predict(table)
