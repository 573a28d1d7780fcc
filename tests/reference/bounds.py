"""Naive twins of the kernels of bounds: every tick, every subset, every order, exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise, product


@dataclass
class TickWorld:
    """Jobs with options, and what is free at each tick: lists of plain integers.

    ``options[j]`` are (run, amounts, pay) of job j; after the last tick everything is as at it.
    """

    release: list[int]
    options: list[list[tuple[int, list[int], int]]]
    free: list[list[int]]

    def at(self, tick: int) -> list[int]:
        return self.free[min(tick, len(self.free) - 1)]

    def fits(self, used: dict[int, list[int]], start: int, run: int, amount: Sequence[int]) -> bool:
        return all(
            u + a <= f
            for t in range(start, start + run)
            for u, a, f in zip(used.get(t, [0] * len(amount)), amount, self.at(t), strict=True)
        )

    def earliest_start(self, used: dict[int, list[int]], release: int, run: int, amount: Sequence[int]) -> int | None:
        latest = max([release, len(self.free), *(t + 1 for t in used)])
        return next((s for s in range(release, latest + 1) if self.fits(used, s, run, amount)), None)

    def list_schedule(self, order: Sequence[int]) -> list[tuple[int, int]] | None:
        """Start and option of each job of a list, the option with the least start and pay."""
        used: dict[int, list[int]] = {}
        found: list[tuple[int, int]] = [(0, 0)] * len(self.release)
        for job in order:
            tried = [
                (start + pay, start, o)
                for o, (run, amount, pay) in enumerate(self.options[job])
                if (start := self.earliest_start(used, self.release[job], run, amount)) is not None
            ]
            if not tried:
                return None
            _, start, o = min(tried, key=lambda one: (one[0], one[2]))
            found[job] = (start, o)
            self._occupy(used, start, *self.options[job][o][:2], sign=1)
        return found

    def _occupy(self, used: dict[int, list[int]], start: int, run: int, amount: Sequence[int], *, sign: int) -> None:
        for t in range(start, start + run):
            used[t] = [u + sign * a for u, a in zip(used.get(t, [0] * len(amount)), amount, strict=True)]

    def optimum(self) -> int | None:
        """Least sum of starts and pays: every order of jobs, every option, each at its earliest start."""
        return self._least({}, frozenset(range(len(self.release))), 0, None)

    def _least(self, used: dict[int, list[int]], left: frozenset[int], paid: int, best: int | None) -> int | None:
        if not left:
            return paid
        if best is not None and paid + sum(self.release[j] + min(o[2] for o in self.options[j]) for j in left) >= best:
            return best
        for job in left:
            for run, amount, pay in self.options[job]:
                start = self.earliest_start(used, self.release[job], run, amount)
                if start is None:
                    continue
                self._occupy(used, start, run, amount, sign=1)
                found = self._least(used, left - {job}, paid + start + pay, best)
                self._occupy(used, start, run, amount, sign=-1)
                best = found if best is None else min(best, found if found is not None else best)
        return best

    def least_bill(self, limit: int, price: Sequence[float], *, times: bool) -> float | None:
        """Least sum of watts times prices, and of ends with ``times``: every start of every job within a limit.

        Watts are the last amount of an option; ``price`` holds for a tick each, the last one for ever.
        """
        return self._least_bill({}, 0, 0, None, (limit, price, times))

    def _least_bill(
        self, used: dict[int, list[int]], job: int, paid: float, best: float | None,
        rule: tuple[int, Sequence[float], bool],
    ) -> float | None:  # fmt: skip
        if job == len(self.release):
            return paid if best is None else min(best, paid)
        limit, price, times = rule
        for start in range(self.release[job], self.release[job] + limit + 1):
            for run, amount, _ in self.options[job]:
                if self.fits(used, start, run, amount):
                    bill = sum(amount[-1] * price[min(t, len(price) - 1)] for t in range(start, start + run))
                    self._occupy(used, start, run, amount, sign=1)
                    best = self._least_bill(used, job + 1, paid + bill + times * (start + run), best, rule)
                    self._occupy(used, start, run, amount, sign=-1)
        return best

    def optimum_of_admission(self, horizon: int) -> int | None:
        """Least sum where the last resource is asked at starts only: every start of every job up to a horizon."""
        last = len(self.free[0]) - 1
        best = None
        rows = [
            [(s, o) for s in range(r, horizon) for o in options]
            for r, options in zip(self.release, self.options, strict=True)
        ]
        for chosen in product(*rows):
            if self._admitted(chosen, last):
                total = sum(start + pay for start, (_, _, pay) in chosen)
                best = total if best is None else min(best, total)
        return best

    def _admitted(self, chosen: Sequence[tuple[int, tuple[int, list[int], int]]], last: int) -> bool:
        for t in sorted({t for start, (run, _, _) in chosen for t in range(start, start + run)}):
            running = [amount for start, (run, amount, _) in chosen if start <= t < start + run]
            starts = any(start == t for start, _ in chosen)
            for i, free in enumerate(self.at(t)):
                if (i < last or starts) and sum(amount[i] for amount in running) > free:
                    return False
        return True


def best_set(worth: Sequence[float], nodes: Sequence[int], room: int) -> float:
    """Greatest worth of a subset that fits."""
    every = (pick for k in range(len(worth) + 1) for pick in combinations(range(len(worth)), k))
    return max(sum(worth[i] for i in pick) for pick in every if sum(nodes[i] for i in pick) <= room)


def cheapest_start(
    edge: Sequence[int], slope: Sequence[Fraction], release: int, run: int, until: int
) -> tuple[Fraction, int]:
    """Least sum of a start and what is paid while it runs, over every tick up to ``until``; and that start."""
    price = {t: s for (low, high), s in zip(pairwise(edge), slope, strict=True) for t in range(low, high)}
    return min(
        (start + sum((price.get(t, Fraction(0)) for t in range(start, start + run)), Fraction(0)), start)
        for start in range(release, until + 1)
    )
