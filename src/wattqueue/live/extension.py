"""Optional features of a controller: what each inserts into a round, and where.

A round is a list of stages (``live.stages``). An extension has stages of its own at named places of it; a controller
without the feature has no such stage, so nobody asks whether it is there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from wattqueue.errors import InputError, OutputError

if TYPE_CHECKING:
    from wattqueue.live.planner import RoundState, StageFunction

Place = Literal["observed", "classified", "learned", "decide", "decided", "planned", "writes", "written", "report"]
"""Where stages are inserted: when the snapshot is there, jobs have their stages, ended jobs were learned from; before
and after the policy decides; when the goal is known; before and after the writes; when the round is reported. The first
six are part of every plan, the others of a controller's round alone."""


@dataclass(frozen=True)
class Extension:
    """One optional feature."""

    stages: Mapping[Place, StageFunction]
    lines: Callable[[], Iterable[str]] = tuple
    """Returns what the status should report to a person."""
    start: Callable[[Callable[[str], None]], None] = lambda _say: None
    """Begins what works beside the rounds; its argument takes lines for the log."""
    close: Callable[[], None] = lambda: None
    """Ends it."""
    keeps: object = None
    """What it keeps from round to round."""
    knows_nodes: bool = field(default=False, kw_only=True)
    """Whether it knows of nodes what another controller could not find out: this one then keeps its layout."""


def beside(what: str, work: Callable[[RoundState], object]) -> StageFunction:
    """Return a stage on which no decision depends: what fails in it is reported, and the round goes on."""

    def guarded(now: RoundState) -> None:
        try:
            work(now)
        except Exception as error:
            text = str(error) if isinstance(error, OSError | OutputError | InputError) else _of_database(error)
            if text is None:
                raise
            now.troubles.append(f"{what}: {text}")

    return guarded


def _of_database(error: Exception) -> str | None:
    """Return what a database reported; None for another error. Where nothing uses one, SQLAlchemy is not imported."""
    errors = sys.modules.get("sqlalchemy.exc")
    if errors is None or not isinstance(error, errors.SQLAlchemyError):
        return None
    from wattqueue.store.failures import cause

    return cause(error)
