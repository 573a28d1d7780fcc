"""Redistribution under power domains by its rules: dictionaries, recursion, and exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tests.reference.redistribution import (
    MICRO,
    Limits,
    Rates,
    lower_all,
    redistribute,
    reset_begun,
    water_level,
    whole,
)

ROOT = -1


@dataclass
class Hall:
    """Domains by number, -1 for the root, and what may be drawn below each, in microwatts."""

    parent: Sequence[int]
    of_device: Sequence[int]
    limit_uw: dict[int, int]
    minimum_w: float
    maximum_w: float
    cap: list[Fraction] = field(default_factory=list)

    def domains(self, below: int) -> list[int]:
        """A domain and all that it feeds, those below others first."""
        own = [k for k, above in enumerate(self.parent) if above == below]
        return [one for k in own for one in self.domains(k)] + [below]

    def devices(self, domain: int) -> list[int]:
        inside = set(self.domains(domain))
        return [i for i, k in enumerate(self.of_device) if k in inside]

    def path(self, domain: int) -> list[int]:
        return [domain] if domain == ROOT else [domain, *self.path(self.parent[domain])]

    def used(self, domain: int) -> int:
        return sum(whole(self.cap[i]) for i in self.devices(domain))

    def even_w(self, device: int) -> float:
        """The least share of a domain above it, within the hardware's limits."""
        path = self.path(self.of_device[device])
        shares = [self.limit_uw[k] // len(self.devices(k)) for k in path]
        return min(max(min(shares) / MICRO, self.minimum_w), self.maximum_w)

    def step(
        self, power: Sequence[float], cap: Sequence[float], rates: Rates, begins: Sequence[bool]
    ) -> list[Fraction]:
        """The caps of the next step."""
        self.cap = [Fraction(c) for c in cap]
        limits = Limits(self.minimum_w, self.maximum_w)
        for k in self.domains(ROOT):
            inside = self.devices(k)
            for i, c in zip(inside, lower_all([self.cap[i] for i in inside], limits, self.limit_uw[k]), strict=True):
                self.cap[i] = c
        spare = max(0, self.limit_uw[ROOT] - self.used(ROOT))
        # what each device gives, and asks for, by Algorithm 1 for it alone: without and with a pool that covers all
        gave, asked = list[int](), list[int]()
        for p, c in zip(power, self.cap, strict=True):
            lower, higher = (redistribute([p], [c], rates, limits, pool)[0] for pool in (0.0, 1e6))
            gave.append(int((c - lower) * MICRO) if lower < c else 0)
            asked.append(int((higher - c) * MICRO) if lower >= c else 0)
        self.cap = [c - Fraction(g, MICRO) for c, g in zip(self.cap, gave, strict=True)]
        used = {k: self.used(k) for k in self.limit_uw}
        got = [0] * len(self.cap)
        self._hand_out(ROOT, gave, asked, got, used, spare)
        self.cap = [c + Fraction(g, MICRO) for c, g in zip(self.cap, got, strict=True)]
        for k in self.domains(ROOT):
            self._reset(k, begins)
        return self.cap

    def _hand_out(
        self, k: int, gave: list[int], asked: list[int], got: list[int], used: dict[int, int], spare: int = 0
    ) -> int:
        """Hand out in all domains below, then here; return what is left for the domain above."""
        pool = spare + sum(gave[i] for i, own in enumerate(self.of_device) if own == k)
        pool += sum(self._hand_out(one, gave, asked, got, used) for one in self._fed(k))
        given = self._share(k, pool, asked, got, used) if pool > 0 else 0
        for above in self.path(k):
            used[above] += given
        return pool - given

    def _fed(self, k: int) -> list[int]:
        return [one for one, above in enumerate(self.parent) if above == k]

    def _asks(self, k: int, asked: list[int], got: list[int], used: dict[int, int]) -> int:
        """What a domain asks for: all that is asked for below it, as far as its limit and those below leave it."""
        own = sum(asked[i] - got[i] for i, at in enumerate(self.of_device) if at == k)
        below = sum(self._asks(one, asked, got, used) for one in self._fed(k))
        return min(own + below, max(0, self.limit_uw[k] - used[k]))

    def _share(self, k: int, pool: int, asked: list[int], got: list[int], used: dict[int, int]) -> int:
        own, fed = [i for i, at in enumerate(self.of_device) if at == k], self._fed(k)
        wants = [asked[i] - got[i] for i in own] + [self._asks(one, asked, got, used) for one in fed]
        level = water_level(wants, pool)
        for i, want in zip(own, wants, strict=False):
            got[i] += min(want, level)
        for one, want in zip(fed, wants[len(own) :], strict=True):
            if share := min(want, level):
                self._share(one, share, asked, got, used)
                used[one] += share
        return sum(min(want, level) for want in wants)

    def _reset(self, k: int, begins: Sequence[bool]) -> None:
        inside = self.devices(k)
        if not any(begins[i] for i in inside):
            return
        spare = max(0, min(self.limit_uw[one] - self.used(one) for one in self.path(k)))
        even = [self.even_w(i) for i in inside]
        new = reset_begun([self.cap[i] for i in inside], [begins[i] for i in inside], even, spare)
        for i, c in zip(inside, new, strict=True):
            self.cap[i] = c
