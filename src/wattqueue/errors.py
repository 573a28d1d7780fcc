"""The error tree. Every error says what was wrong, where, and how to correct it.

WattQueueError
├── InputError      a file or argument that cannot be used (trace, table, cap, number)
├── MachineError    a machine description that contradicts itself or the workload
├── PolicyError     an unknown policy, part or option, or a part that breaks its contract
├── OutputError     a result that could not be written
├── CampaignError   runs of a campaign that failed, or workers that cannot do them
└── EngineError     an invariant of the engine was broken: a defect of WattQueue, please report it

The command line prints any of them as one line ``where: what (hint)`` and exits with status 2; a program catches the
base class or one kind, and reads the three fields. Raise the kind that names the cause, with ``where`` as exact as it
is known (file, line, key or option), and a ``hint`` wherever the reader can do something::

    raise InputError("no column runtime_s", where="jobs.csv", hint="rename the column, or import with --format")
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any


class WattQueueError(Exception):
    """Base of all errors that the command line prints as one line, with exit status 2.

    ``what``: what was wrong, with the offending value. ``where``: file, line, key, option or part; None where there is
    no place. ``hint``: what to do about it, as an imperative or an example; None where nothing helps. Tests assert
    kind, ``where`` and ``hint``, never the wording.
    """

    def __init__(self, what: str, *, where: str | Path | None = None, hint: str | None = None) -> None:
        self.what, self.where, self.hint = what, where, hint
        super().__init__(what, where, hint)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with all three fields: Exception's own way would pass them by position, which fails in a worker."""
        return _rebuilt, (type(self), self.what, self.where, self.hint)

    def __str__(self) -> str:
        """Return ``where: what (hint)``, leaving out what is missing."""
        place = f"{self.where}: " if self.where is not None else ""
        advice = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.what}{advice}"


def _rebuilt(kind: type[WattQueueError], what: str, where: str | Path | None, hint: str | None) -> WattQueueError:
    return kind(what, where=where, hint=hint)


class InputError(WattQueueError):
    """A file or argument that cannot be used."""


class MachineError(WattQueueError):
    """A machine description that contradicts itself or the workload."""


class PolicyError(WattQueueError):
    """An unknown policy, part or option, or a part that breaks its contract."""


class OutputError(WattQueueError):
    """A result that could not be written."""


class CampaignError(WattQueueError):
    """Runs of a campaign that failed, or workers that cannot do them; finished runs are kept."""


class EngineError(WattQueueError):
    """An invariant of the engine was broken: a defect of WattQueue, please report it."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Return ``did you mean X? `` for a name that is close to one of ``names``, else an empty text.

    It ends with a space, so that a hint may begin with it whether it is empty or not.
    """
    import difflib  # errors are imported by everything, and most commands succeed

    close = difflib.get_close_matches(name, list(names), 1, 0.6)
    return f"did you mean {close[0]}? " if close else ""


def one_of(name: str, names: Iterable[str]) -> str:
    """Return the hint for an unknown name: the nearest of ``names``, and all of them in their order."""
    names = list(names)
    return f"{nearest(name, names)}one of {', '.join(names)}"
