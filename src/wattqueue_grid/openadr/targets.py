"""Make load targets of the limits of all events, and series of their prices and intensities.

Events may overlap, load targets may not. Where limits overlap, the event of the highest priority prevails (the lowest
number, as the documents say; an event without a priority comes last), and of equal priorities the lowest limit, which
meets all of them. Figures overlap in the same way, and of equal priorities the event that was changed last prevails.

Reference: OpenADR 3.1.0, user guide, 7.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, Protocol, TypeVar

import numpy as np

from wattqueue.model import bounds
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.signals import Series
from wattqueue_grid.openadr.reading import EventLimit, SignalFigure


class _Span(Protocol):
    """Anything that holds from one instant to another."""

    @property
    def begin_s(self) -> float: ...

    @property
    def end_s(self) -> float: ...


Spanning = TypeVar("Spanning", bound=_Span)


def load_targets(limits: Iterable[EventLimit], known_s: Mapping[str, float], ramp_w_per_s: float) -> LoadTargets:
    """Return targets in watts that do not overlap; ``known_s`` is when each event was first read as it is now.

    A target without end ends at the last instant that the clock of jobs can count to.
    """
    pieces = prevailing(limits, lambda limit: (limit.priority, limit.limit_w, limit.event_id))
    latest = bounds.TIME_S.high
    return LoadTargets.of(
        *(
            LoadTarget(
                begin_s,
                min(end_s, latest),
                limit.limit_w,
                notice_s=max(begin_s - known_s.get(limit.event_id, begin_s), 0.0),
                ramp_w_per_s=ramp_w_per_s,
                correlation_id=limit.event_id,
            )
            for begin_s, end_s, limit in pieces
            if begin_s < latest
        )
    )


def series_of(kind: Literal["price", "ghg"], figures: Iterable[SignalFigure]) -> Series | None:
    """Return the series of one kind: a price per MWh, or gCO2/kWh; None without a figure.

    A value holds until the next one. So where the events leave a gap, the value before it holds in the gap.
    """
    mine = [figure for figure in figures if figure.kind == kind]
    pieces = prevailing(mine, lambda figure: (figure.priority, -figure.changed_s, figure.event_id))
    if not pieces:
        return None
    return Series(np.array([begin for begin, _, _ in pieces]), np.array([figure.value for _, _, figure in pieces]))


def prevailing(
    spans: Iterable[Spanning], rank: Callable[[Spanning], tuple[float | str, ...]]
) -> list[tuple[float, float, Spanning]]:
    """Return what prevails at each time, in order: (begin, end, span), the lowest rank of those that hold there.

    Neighbouring pieces of one span are one piece.
    """
    found = sorted(spans, key=rank)
    edges = sorted({edge for span in found for edge in (span.begin_s, span.end_s)})
    starts = sorted(found, key=lambda span: span.begin_s)
    pieces: list[tuple[float, float, Spanning]] = []
    held: Sequence[Spanning] = []
    coming = 0
    for begin_s, end_s in pairwise(edges):
        fresh = []
        while coming < len(starts) and starts[coming].begin_s <= begin_s:
            fresh.append(starts[coming])
            coming += 1
        held = [span for span in (*held, *fresh) if span.end_s > begin_s]
        if not held:
            continue
        first = min(held, key=rank)
        if pieces and pieces[-1][1] == begin_s and pieces[-1][2] is first:
            pieces[-1] = (pieces[-1][0], end_s, first)
        else:
            pieces.append((begin_s, end_s, first))
    return pieces
