"""Slurm's commands as the guard runs them: those that ask the accounting must not keep writes and heartbeats waiting.

slurmdbd, or its database, may hang for minutes while slurmctld works. The guard does one thing at a time, so a command
that asks it waits a few seconds at most; after one without an answer the next ones are refused at once for a while.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wattqueue.live.slurm.commands import CommandResult, Slurm, SlurmError

NAMES = frozenset({"sacct", "sacctmgr"})
"""Commands that ask slurmdbd."""
MOST_S = 5.0
"""Longest wait for one of them."""
QUIET_S = 60.0
"""Time without another try after one that gave no answer."""


@dataclass
class BriefAccounting:
    """Runs commands by ``slurm``, those of the accounting by ``brief`` (``live.slurm.commands.Slurm``)."""

    slurm: Slurm
    brief: Slurm
    clock: Callable[[], float] = time.monotonic
    _failed_s: float = field(default=-math.inf)
    """When one of the accounting gave no answer last."""

    def run(self, argv: Sequence[str]) -> CommandResult:
        """Run one command to its end. Raises: SlurmError where it does not answer in time."""
        if argv[0] not in NAMES:
            return self.slurm.run(argv)
        if self.clock() - self._failed_s < QUIET_S:
            raise SlurmError(f"{argv[0]} is not run: the accounting gave no answer a moment ago")
        try:
            return self.brief.run(argv)
        except SlurmError:
            self._failed_s = self.clock()
            raise
