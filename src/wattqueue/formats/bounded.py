"""Numbers of configuration files and messages with their bounds: the types of the fields of pydantic models.

Every number of a file, an event or a message has a stated range (``model.bounds`` has the reasons): one beyond is a
typing error, a wrong unit or an attack, and is refused with its key before anything computes or waits with it. A test
walks the fields of all models and asks for both ends. NaN and infinity are in no range.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from wattqueue.model import bounds
from wattqueue.model.bounds import Bound

MOST_KW = bounds.CAP_W.high / 1e3
MOST_WHOLE = 2**63 - 1
"""Largest whole number of 64 bits: numbers of messages in nanoseconds reach 2**61 in this century."""


def within(bound: Bound) -> Any:
    """Return pydantic's form of a limit of ``model.bounds``."""
    return Field(ge=bound.low, le=bound.high)


Units = Annotated[int, Field(ge=1, le=int(bounds.UNITS.high))]
"""Units of a machine."""
Count = Annotated[int, Field(ge=1, le=int(bounds.COUNT.high))]
"""Another whole number that is not 0."""
CountOrNone = Annotated[int, Field(ge=0, le=int(bounds.COUNT.high))]
"""Another whole number; 0 for none."""
Serial = Annotated[int, Field(ge=0, le=MOST_WHOLE)]
"""A number that only grows: of messages, or of what was counted."""
Seconds = Annotated[float, within(bounds.PERIOD_S)]
"""A period, a timeout, an age: one millisecond to a year."""
Instant = Annotated[float, within(bounds.TIME_S)]
"""Seconds since the epoch."""
Watts = Annotated[float, within(bounds.UNIT_W)]
"""Watts of one node or unit."""
Kilowatts = Annotated[float, Field(ge=0, le=MOST_KW)]
"""Kilowatts of a cluster or a site."""
Setting = Annotated[float, Field(ge=0, le=bounds.FREQUENCY_HZ.high)]
"""Watts or hertz of a limit: a negative figure among others would make their sum look smaller than it is."""
Counted = Annotated[float, Field(ge=0, le=1e24)]
"""Events of a node's counters since its agent started: all cycles of a large node in a thousand years."""
Number = Annotated[float, Field(ge=-1e15, le=1e15)]
"""A figure whose meaning only a later reader knows; float64 tells whole numbers of this size apart."""
WholeNumber = Annotated[int, Field(ge=-(10**15), le=10**15)]
"""The same as a whole number."""
Money = Annotated[float, Field(ge=0, le=1e9)]
"""An amount, or a rate for an hour, a kilowatt or a megawatt-hour."""
Share = Annotated[float, Field(ge=0, le=1)]
"""A share or a probability."""
