"""Read an event: limits in watts, prices, intensities and alerts with their times, and what is refused.

Nothing of an event is taken that has no stated meaning: an unknown type, units that do not fit, a value of the wrong
kind each refuse that payload with a reason, and what else the event says is taken.

=========================  =========================================================================================
IMPORT_CAPACITY_LIMIT      KW, or PERCENT (0 to 1 of the machine's maximum); of the site, less its other load
CONTROL_SETPOINT           KW or PERCENT: the load or a change of it, as the site's rules say, or refused
PRICE                      a price per KWH in the site's currency; becomes a price per MWh
GHG                        g/kWh, which is the unit without a descriptor, too
ALERT_GRID_EMERGENCY       a text; the limit of the site's rules while it holds
=========================  =========================================================================================

Several values in one interval of PRICE or GHG divide it into equal parts (user guide, 7.3).

Reference: OpenADR 3.1.0, enumerations of event payloads and units; user guide, 7.3, 7.6, 7.9, 8.9.3 and 8.10.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from wattqueue.errors import InputError
from wattqueue.model import bounds
from wattqueue_grid.openadr.objects import PayloadDescriptor, ValuesMap, VtnEvent, VtnProgram
from wattqueue_grid.openadr.section import SiteRules
from wattqueue_grid.openadr.times import EventWindow, changed_s, windows

KEPT_S = 3600.0
"""How long a window is kept after its end: the limit may still be rising then."""
AHEAD_S = 8 * 86_400.0
"""How far ahead intervals that repeat are read: a week, and a day for the next look."""
EMERGENCY_PRIORITY = 0
"""Priority of an alert without one: no other event outranks it."""


class EventLimit(NamedTuple):
    """A limit in watts of the machine's cap scope. A lower ``priority`` prevails; inf for an event without one."""

    begin_s: float
    end_s: float
    limit_w: float
    event_id: str
    priority: float


class SignalFigure(NamedTuple):
    """A price (per MWh) or an intensity (gCO2/kWh); of equal priorities the event changed last prevails."""

    kind: Literal["price", "ghg"]
    begin_s: float
    end_s: float
    value: float
    event_id: str
    priority: float
    changed_s: float


class GridAlert(NamedTuple):
    """A text for people, and when it holds."""

    begin_s: float
    end_s: float
    text: str
    event_id: str


@dataclass
class EventReading:
    """What one event says to this site."""

    limits: list[EventLimit] = field(default_factory=list)
    figures: list[SignalFigure] = field(default_factory=list)
    alerts: list[GridAlert] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Reasons, each once."""
    end_s: float = -math.inf
    """End of the last window; -inf without one."""


@dataclass(frozen=True)
class _Payload:
    """A payload in its window, with all that says what it means."""

    window: EventWindow
    values: ValuesMap
    descriptor: PayloadDescriptor | None
    event: VtnEvent
    rules: SiteRules

    @property
    def units(self) -> str:
        """Return the units, empty for none."""
        return "" if self.descriptor is None or self.descriptor.units is None else self.descriptor.units

    @property
    def priority(self) -> float:
        """Return the priority of the event."""
        return math.inf if self.event.priority is None else self.event.priority

    def number(self) -> float:
        """Return the only value. Raises: InputError for several, or for one that is no finite number."""
        numbers = self.numbers()
        if len(numbers) != 1:
            raise InputError(f"{len(numbers)} values", hint="one value in each interval")
        return numbers[0]

    def numbers(self) -> list[float]:
        """Return the values. Raises: InputError for none, and for one that is no finite number."""
        if not self.values.values:
            raise InputError("no value", hint="one number in each interval")
        for value in self.values.values:
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise InputError(f"value {str(value)[:40]!r}", hint="a number")
        return [float(value) for value in self.values.values if isinstance(value, int | float)]


def read_event(
    event: VtnEvent, program: VtnProgram | None, rules: SiteRules, now_s: float, until_s: float = math.inf
) -> EventReading:
    """Return what an event says. ``until_s`` cuts its windows: the moment at which it was cancelled.

    Windows that ended more than ``KEPT_S`` before ``now_s`` are left out. What cannot be taken is in ``refused``.
    """
    reading = EventReading()
    try:
        changed_s(event)
        found = windows(event, rules.ven_name, now_s, AHEAD_S)
    except InputError as error:
        reading.refused.append(str(error))
        return reading
    if not event.intervals and not event.requests:
        reading.refused.append("no intervals, and no report is asked for")
    if event.intervals and not found and any(i.payloads for i in event.intervals):
        reading.refused.append("cancelled: its intervals have no duration")
    reading.end_s = max((w.end_s for w in found), default=-math.inf)
    descriptors = _descriptors(event, program)
    for window in found:
        window = window._replace(end_s=min(window.end_s, until_s))
        if window.end_s <= max(now_s - KEPT_S, window.begin_s):
            continue
        for values in window.interval.payloads:
            _take(_Payload(window, values, descriptors.get(values.type), event, rules), reading)
    return reading


def _descriptors(event: VtnEvent, program: VtnProgram | None) -> dict[str, PayloadDescriptor]:
    """Return descriptors by type: the event's before those of its program (user guide, 7.6)."""
    of_program: Sequence[PayloadDescriptor] = (program.descriptors or ()) if program is not None else ()
    return {one.payload_type: one for one in (*of_program, *(event.descriptors or ()))}


def _take(payload: _Payload, reading: EventReading) -> None:
    """Add what a payload says to the reading, or why it is refused."""
    kind = payload.values.type
    reader = _READERS.get(kind)
    try:
        if reader is None:
            raise InputError("is not acted on", hint=f"this site takes {', '.join(_READERS)}")
        reader(payload, reading)
    except InputError as error:
        reason = f"{kind[:40]}: {error}"
        if reason not in reading.refused:
            reading.refused.append(reason)


def _import_limit(payload: _Payload, reading: EventReading) -> None:
    watts = _watts(payload, lowest=0.0)
    _limit(payload, reading, watts - payload.rules.beside_w, payload.priority)


def _setpoint(payload: _Payload, reading: EventReading) -> None:
    rules = payload.rules
    if rules.setpoint == "refuse":
        raise InputError("its meaning is not stated", hint='set setpoint = "absolute" or "relative" in [openadr]')
    if rules.setpoint == "absolute":
        _limit(payload, reading, _watts(payload, lowest=0.0) - rules.beside_w, payload.priority)
        return
    if rules.reference_w is None:
        raise InputError("a relative setpoint needs a reference", hint="set reference_kw in [openadr]")
    change = _watts(payload, lowest=-math.inf)
    _limit(payload, reading, rules.reference_w + change - rules.beside_w, payload.priority)


def _price(payload: _Payload, reading: EventReading) -> None:
    currency = None if payload.descriptor is None else payload.descriptor.currency
    if payload.units != "KWH":
        raise InputError(f"units {payload.units or 'none'}", hint="KWH: a price of energy")
    if currency != payload.rules.currency:
        raise InputError(f"currency {(currency or 'none')[:8]}", hint=f"{payload.rules.currency}, as in [openadr]")
    _figures(payload, reading, "price", [value * 1000.0 for value in payload.numbers()])


def _intensity(payload: _Payload, reading: EventReading) -> None:
    if payload.units not in ("", "GHG"):
        raise InputError(f"units {payload.units[:20]}", hint="GHG: g/kWh")
    numbers = payload.numbers()
    if min(numbers) < 0:
        raise InputError(f"{min(numbers):g} g/kWh", hint="0 or more")
    _figures(payload, reading, "ghg", numbers)


def _alert(payload: _Payload, reading: EventReading) -> None:
    texts = [value for value in payload.values.values if isinstance(value, str)]
    text = "".join(letter if letter.isprintable() else " " for letter in (texts[0] if texts else ""))[:128]
    window, rules = payload.window, payload.rules
    reading.alerts.append(GridAlert(window.begin_s, window.end_s, text, payload.event.id))
    if rules.emergency_w is None:
        raise InputError("limits nothing", hint="set emergency_kw in [openadr] to the load in an emergency")
    _limit(payload, reading, rules.emergency_w - rules.uncounted_w, min(payload.priority, EMERGENCY_PRIORITY))


_READERS: dict[str, Callable[[_Payload, EventReading], None]] = {
    "IMPORT_CAPACITY_LIMIT": _import_limit,
    "CONTROL_SETPOINT": _setpoint,
    "PRICE": _price,
    "GHG": _intensity,
    "ALERT_GRID_EMERGENCY": _alert,
}


def _watts(payload: _Payload, lowest: float) -> float:
    """Return the value in watts. Raises: InputError for other units, and for a value below ``lowest`` or too great."""
    value, rules = payload.number(), payload.rules
    if payload.units == "KW":
        watts = value * 1000.0
    elif payload.units == "PERCENT":
        if rules.maximum_w is None:
            raise InputError("units PERCENT of a maximum that the machine does not state", hint="KW")
        if not -1.0 <= value <= 1.0:
            raise InputError(f"{value:g} PERCENT", hint="a share between -1.0 and 1.0: 0.8 is 80 %")
        watts = value * (rules.maximum_w + rules.beside_w)
    else:
        raise InputError(f"units {payload.units[:20] or 'none'}", hint="KW or PERCENT")
    if watts < lowest:
        raise InputError(f"{value:g} {payload.units}", hint="0 or more")
    if abs(watts) > bounds.CAP_W.high:
        raise InputError(f"{value:g} {payload.units}", hint=f"at most {bounds.CAP_W.high / 1e3:g} KW")
    return watts


def _limit(payload: _Payload, reading: EventReading, watts: float, priority: float) -> None:
    """Add a limit. Raises: InputError, after it was added at idle watts, for one below them."""
    window, idle_w = payload.window, payload.rules.idle_w
    reading.limits.append(EventLimit(window.begin_s, window.end_s, max(watts, idle_w), payload.event.id, priority))
    if watts < idle_w:
        raise InputError(
            f"{watts / 1e3:.6g} kW is below the {idle_w / 1e3:.6g} kW of the idle machine", hint="held at idle watts"
        )


def _figures(payload: _Payload, reading: EventReading, kind: Literal["price", "ghg"], values: list[float]) -> None:
    """Add figures that divide a window into equal parts. Raises: InputError for figures out of range."""
    begin_s, end_s = payload.window.begin_s, payload.window.end_s
    if len(values) > 1 and not math.isfinite(end_s):
        raise InputError(f"{len(values)} values in an interval without end", hint="one value")
    for value in values:
        bounds.SIGNAL.require(value, kind)
    step_s = 0.0 if len(values) == 1 else (end_s - begin_s) / len(values)
    changed = changed_s(payload.event)
    for i, value in enumerate(values):
        last_s = end_s if i == len(values) - 1 else begin_s + (i + 1) * step_s
        reading.figures.append(
            SignalFigure(kind, begin_s + i * step_s, last_s, value, payload.event.id, payload.priority, changed)
        )
