"""Set how many watts running jobs may hold together: by a licence reservation, or by the count in slurm.conf."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from wattqueue.errors import OutputError
from wattqueue.formats.atomic_write import atomic_text
from wattqueue.live.slurm.commands import LICENCE, Slurm, SlurmError, must

RESERVATION = "wattqueue"
"""Name of the licence reservation that withholds watts from jobs."""


class PoolMethod(Protocol):
    """How the pool is set. There is one implementation for each right that a site may grant."""

    def set(self, slurm: Slurm, open_w: int, total_w: int) -> None:
        """Let running jobs hold ``open_w`` of ``total_w`` together. Raises SlurmError."""
        ...


@dataclass(frozen=True)
class ReservationPool:
    """A licence reservation withholds watts from jobs: about 6 ms, the operator role suffices.

    While one stands, backfill of Slurm (22.05 to 26.05) does not plan for licences, and wide jobs starve; so the
    reservation is deleted where the whole pool is open. The reservation belongs to root: a user who could name it
    (``--reservation``) could use the watts in it.
    """

    name: str = RESERVATION

    def set(self, slurm: Slurm, open_w: int, total_w: int) -> None:
        shown = slurm.run(("scontrol", "-o", "show", "reservation", self.name))
        exists = shown.code == 0 and f"ReservationName={self.name} " in shown.out
        withheld_w = total_w - open_w
        if withheld_w <= 0:
            if exists:
                must(slurm, ("scontrol", "delete", f"ReservationName={self.name}"))
        elif exists:
            must(slurm, ("scontrol", "update", f"ReservationName={self.name}", f"Licenses={LICENCE}:{withheld_w}"))
        else:
            fields = ("StartTime=now", "Duration=UNLIMITED", "Flags=LICENSE_ONLY", "Users=root")
            licences = f"Licenses={LICENCE}:{withheld_w}"
            must(slurm, ("scontrol", "create", "reservation", f"ReservationName={self.name}", *fields, licences))


@dataclass(frozen=True)
class ReconfigurePool:
    """Rewrites a file that slurm.conf includes, then reconfigures: about 30 ms, needs the rights of SlurmUser.

    ``line`` is the whole ``Licenses=`` line of the site, with ``{watts}`` for our count: slurm.conf has one such
    line, so the site's other licences stand in it too. Running jobs keep their licences when the count falls below what
    is in use; Slurm then starts nothing until enough of them ended.
    """

    file: Path
    line: str = f"Licenses={LICENCE}:{{watts}}"

    def set(self, slurm: Slurm, open_w: int, total_w: int) -> None:
        try:
            line = self.line.format(watts=open_w)
            atomic_text(self.file, f"# written by wattqueue live\n{line}\n", mode=0o644)
        except OutputError as error:
            raise SlurmError(error.what, where=error.where, hint=error.hint) from error
        must(slurm, ("scontrol", "reconfigure"))
