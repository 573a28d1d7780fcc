"""Lower frequencies for jobs that consent, for use in load targets (paper 5, section 3.2 and Figure 2)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from wattqueue.errors import PolicyError, one_of
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import Entries, Ints, Prediction
from wattqueue.parts.frequency._slowing import Slowing

STARTS = ("highest", "lowest")


class Consent_(Slowing):  # noqa: N801 - "Consent" is taken, and the file names the part
    """Add the lower options, as far as the user consents, to a window, for use in load targets.

    Outside of targets, and for jobs that do not consent, the window stays what it is: that of the parts before this one
    in a list, alone the highest frequency. How far a user consents is looked at by rule 20 of docs/semantics.md, as for
    every part.

    Args:
        frequency_hz: As in ``Slowing``.
        start: What a consenting job starts at while a target is in force: ``highest``, the highest frequency that fits;
            ``lowest``, the last to which its user consents (paper 5).

    Raises: PolicyError for another ``start``, and as ``Slowing``.
    Reference: paper 5, section 3.2.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("clocks", "targets", "consent")

    def __init__(self, *, frequency_hz: float | None = None, start: str = "highest") -> None:
        super().__init__(frequency_hz=frequency_hz)
        if start not in STARTS:
            raise PolicyError(f"start is {start!r}", where="consent", hint=one_of(start, STARTS))
        self.by_target = start == "lowest"

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        """Return the highest frequency of each entry's partition twice. Shapes (m,)."""
        first = np.asarray(machine.option_start[entries.partition], np.int32)
        return first, first

    def in_targets(self, entries: Entries, machine: Machine) -> Ints:
        """Return the last option of each entry for use in load targets. Shape (m,)."""
        return self.slow(entries, machine)
