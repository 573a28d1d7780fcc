"""Slow consenting jobs that are submitted during a load target, whenever they start (paper 5, section 4.2)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import Entries, Ints, Prediction
from wattqueue.parts.frequency._slowing import Slowing


class TargetAtSubmission(Slowing):
    """Decide at submission: actions (iv), (vi) and (vii) of Figure 5.

    (iv) Is a load target in force when the job is submitted? (vi) Is the job allowed? Then (vii) its fall-back is
    carried out: it will run at the lower frequency, also where the target is over when it starts. A job that was
    submitted before a target is never slowed. All other jobs run at the highest frequency.

    Whether a job is allowed is looked at by rule 20 of docs/semantics.md, as for every part.

    Args:
        frequency_hz: As in ``Slowing``; how far DVFS goes is not in the text.

    Reference: paper 5, sections 4.1 (functions E to G) and 4.2 (the text misprints action (viii) of the first group).
    """

    acts_on: ClassVar[tuple[str, ...]] = ("clocks", "targets", "consent")

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        """Return the option of each entry twice. Shapes (m,)."""
        first = np.asarray(machine.option_start[entries.partition], np.int32)
        submit, targets = jobs.submit_s[entries.job], signals.targets
        if not len(targets):
            return first, first
        row = np.searchsorted(targets.start_s, submit, side="right") - 1
        saving = (row >= 0) & (submit < targets.end_s[row])
        option = np.where(saving, self.slow(entries, machine), first).astype(np.int32)
        return option, option
