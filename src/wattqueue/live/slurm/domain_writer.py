"""Carry out writes under power domains: what is withheld of their licences, and what jobs carry of them.

One reservation holds what is withheld of the pool and of all domains; a change of the one leaves the others as they
stand in Slurm, so that a release that knows no domains keeps what a controller withheld there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wattqueue.live.cluster import ChangeJob, SetDomains, Write
from wattqueue.live.slurm.commands import LICENCE, Slurm
from wattqueue.live.slurm.writer import ReservationPool, SlurmWriter
from wattqueue.model.plain_numbers import is_whole

HELD = re.compile(r" Licenses=(\S+)")
"""What a reservation holds, as scontrol prints it; 26.05 puts semicolons between licences."""


@dataclass(frozen=True)
class DomainReservation(ReservationPool):
    """A licence reservation of the pool's watts and of those of power domains; deleted where everything is open."""

    def set(self, slurm: Slurm, open_w: int, total_w: int) -> None:
        """Let running jobs hold ``open_w`` of ``total_w`` together. Raises SlurmError."""
        self.withhold(slurm, {LICENCE: total_w - open_w})

    def withhold(self, slurm: Slurm, watts: Mapping[str, int]) -> None:
        """Withhold watts from jobs, by their licences; what is not named stays. Raises SlurmError."""
        shown = self._shown(slurm)
        there = HELD.search(shown)
        pieces = [] if there is None else [piece.partition(":") for piece in there[1].replace(";", ",").split(",")]
        held = {name: int(count) for name, _, count in pieces if is_whole(count)}
        self._hold(slurm, shown, {**held, **watts})


class DomainWriter(SlurmWriter):
    """What carries out writes under power domains."""

    def apply(self, write: Write) -> None:
        """Carry one write out. Raises: SlurmError."""
        if isinstance(write, SetDomains) and isinstance(self.pool, DomainReservation):
            pools = {} if self.seen is None else self.seen.domains
            withheld = {name: pools[name].total - open_w for name, open_w in write.open_w if name in pools}
            self.pool.withhold(self.slurm, withheld)
        else:
            super().apply(self._with_watts(write))

    def apply_batch(self, writes: Sequence[Write]) -> list[str]:
        """Carry writes of one kind out; return the error of each."""
        return super().apply_batch([self._with_watts(write) for write in writes])

    def _with_watts(self, write: Write) -> Write:
        """Return a write that names a job's watts where it changes other licences: an update replaces them all."""
        row = None if self.seen is None or write.key is None else self.seen.by_key.get(write.key)
        if not isinstance(write, ChangeJob) or row is None or write.fields.domains is None:
            return write
        return replace(write, fields=write.fields._replace(watts=row.watts)) if write.fields.watts is None else write

    def _licences(self, write: Write) -> tuple[str, ...]:
        """Return what else a job carries than its watts: the site's licences, and those of domains."""
        row = None if self.seen is None or write.key is None else self.seen.by_key.get(write.key)
        if not isinstance(write, ChangeJob) or row is None or write.fields.watts is None:
            return super()._licences(write)
        domains = row.domains if write.fields.domains is None else write.fields.domains
        return (*super()._licences(write), *(f"{name}:{watts}" for name, watts in domains))
