"""The events of a settlement: load targets on the clock of the grid, with the terms of the contract.

All targets of the file count as event days, which baselines leave out, whichever of them are settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.formats.epoch import DATED_FROM_S
from wattqueue.model.load_target import LoadTargets
from wattqueue_grid.settlement.contract import Contract
from wattqueue_grid.settlement.load_history import CalledEvent


def called_events(
    targets: LoadTargets, contract: Contract, epoch_s: float | None, where: str | Path
) -> tuple[CalledEvent, ...]:
    """Return the events of a table of load targets, in order of their begins.

    Args:
        targets: Load targets on the clock of a trace, or in Unix time.
        contract: Terms of each event, by its correlation id.
        epoch_s: Unix time of the trace's 0; None where it is unknown, then the targets must be in Unix time.
        where: File of the targets, for errors.

    Raises:
        InputError: No target, targets on an unknown clock, two targets of one id, terms of an event that is not there,
            a begin that is no whole second.
    """
    if not len(targets):
        raise InputError("no event", where=where, hint="one load target per event")
    if epoch_s is None and float(targets.start_s[0]) < DATED_FROM_S:
        raise InputError(
            "times are on the clock of a trace whose date is not known", where=where,
            hint="give --start 2023-01-01T00:00Z, or write start_s and end_s in Unix time",
        )  # fmt: skip
    shift = 0.0 if float(targets.start_s[0]) >= DATED_FROM_S else float(epoch_s or 0.0)
    names = [name or f"target-{i + 1}" for i, name in enumerate(targets.correlation_id)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"two targets of the id {twice}", where=where,
            hint="an event is one target: give each part a correlation id",
        )  # fmt: skip
    unknown = sorted(set(contract.events) - set(names))
    if unknown:
        raise InputError(
            f"the contract has terms for the event {unknown[0]}", where=where, hint=f"events here: {', '.join(names)}"
        )
    found = []
    for i, name in enumerate(names):
        begin, end = float(targets.start_s[i]) + shift, float(targets.end_s[i]) + shift
        if begin != round(begin) or end != round(end):
            raise InputError("begins or ends within a second", where=f"{where}: event {name}", hint="whole seconds")
        terms = contract.terms(name)
        found.append(CalledEvent(name, round(begin), round(end), terms.committed_w, terms.test))
    return tuple(found)


def chosen(events: Sequence[CalledEvent], names: Sequence[str], where: str | Path) -> tuple[CalledEvent, ...]:
    """Return the events of some ids, all of them without ids. Raises: InputError for an id that is not there."""
    known = {event.event_id: event for event in events}
    for name in names:
        if name not in known:
            raise InputError(f"no event {name}", where=where, hint=f"events here: {', '.join(known)}")
    return tuple(event for event in events if not names or event.event_id in names)
