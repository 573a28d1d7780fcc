"""The error tree. Every error says what was wrong, where, and how to mend it.

WattQueueError
├── InputError      a file or argument that cannot be used (trace, table, cap, number)
├── MachineError    a machine description that contradicts itself or the workload
├── PolicyError     an unknown policy, part or option, or a part that breaks its contract
├── OutputError     a result that could not be written
├── CampaignError   runs of a campaign that could not be done, or workers that cannot do them
└── EngineError     an invariant of the engine was broken: a defect of ours, please report it
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


class WattQueueError(Exception):
    """Base of all errors that the command line turns into one clear line and exit status 2."""

    def __init__(self, what: str, *, where: str | Path | None = None, mend: str | None = None) -> None:
        self.what, self.where, self.mend = what, where, mend
        super().__init__(what, where, mend)

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors of workers come back as they are."""
        return _again, (type(self), self.what, self.where, self.mend)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where is not None else ""
        cure = f" ({self.mend})" if self.mend else ""
        return f"{place}{self.what}{cure}"


def _again(kind: type[WattQueueError], what: str, where: str | Path | None, mend: str | None) -> WattQueueError:
    return kind(what, where=where, mend=mend)


class InputError(WattQueueError):
    """A file or argument that cannot be used."""


class MachineError(WattQueueError):
    """A machine description that contradicts itself or the workload."""


class PolicyError(WattQueueError):
    """An unknown policy, part or option, or a part that breaks its contract."""


class OutputError(WattQueueError):
    """A result that could not be written."""


class CampaignError(WattQueueError):
    """Runs of a campaign that could not be done, or workers that cannot do them; what was finished is kept."""


class EngineError(WattQueueError):
    """An invariant of the engine was broken: a defect of ours, please report it."""
