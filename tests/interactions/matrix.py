"""The interaction matrix: worlds in which features meet, drawn until all of them acted, and what the oracles find."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.interactions.counters import Seen
from tests.interactions.features import FEATURES, NEVER, Feature
from tests.interactions.oracles import AT_LAST, ORACLES
from tests.interactions.watch import Trace, Watched, watched
from tests.interactions.worlds import Draft, base
from wattqueue.errors import WattQueueError

TRIES = 24
HELD, REFUSED, NOT_APPLICABLE, BROKEN, UNMET = "held", "refused", "not applicable", "broken", "unmet"
NOTED = "noted"
"""The run itself names one of the features as without effect."""


@dataclass
class Cell:
    """What came of some features together."""

    names: tuple[str, ...]
    outcome: str
    reason: str = ""
    tries: int = 0
    acted: dict[str, int] = field(default_factory=dict)


def draft_of(features: Sequence[Feature], attempt: int) -> Draft:
    """The world number ``attempt`` of some features."""
    names = sorted(feature.name for feature in features)
    draft = base((*(zlib.crc32(name.encode()) for name in names), attempt))
    for feature in features:
        feature.on(draft)
    for feature in features:
        feature.wants(draft)
    return draft


def conflict(features: Sequence[Feature]) -> str:
    """Say what two features decide differently; empty for nothing."""
    decided: dict[str, str] = {}
    for feature in features:
        for thing, value in feature.claims.items():
            if decided.setdefault(thing, value) != value:
                return f"both choose the {thing}"
    return ""


def judged(draft: Draft, trace: Trace, oracles: Iterable[str]) -> list[str]:
    """Return what oracles find, each named."""
    return [f"{name}: {text}" for name in oracles for text in ORACLES[name](draft, trace)]


def cell(names: Iterable[str], oracles: Sequence[str] = tuple(ORACLES)) -> Cell:
    """Draw worlds until all features acted in one; the oracles look at each of them."""
    order = list(FEATURES)
    features = [FEATURES[name] for name in sorted(names, key=order.index)]
    found = Cell(tuple(f.name for f in features), NOT_APPLICABLE)
    if reason := conflict(features):
        found.reason = reason
        return found
    most: dict[str, int] = {}
    for attempt in range(TRIES):
        found.tries = attempt + 1
        draft = draft_of(features, attempt)
        try:
            trace = watched(draft.simulation(Watched))
        except WattQueueError as error:
            found.outcome = REFUSED if error.hint else BROKEN
            found.reason = error.what if error.hint else f"refused without a hint: {error.what}"
            return found
        broken = judged(draft, trace, [name for name in oracles if name not in AT_LAST])
        acted = {f.name: int(f.acted(Seen(draft, trace, f.off))) for f in features} if not broken else {}
        if not broken and all(acted.values()):
            broken = judged(draft, trace, [name for name in oracles if name in AT_LAST])
        if broken:
            found.outcome, found.reason = BROKEN, f"world {attempt}: {broken[0]}"
            return found
        for name, times in acted.items():
            most[name] = max(most.get(name, 0), times)
        if all(acted.values()):
            found.outcome, found.acted = HELD, acted
            return found
    never = [name for name, times in most.items() if not times]
    said = [
        text
        for text in trace.run.without_effect
        for name in found.names
        if text.removeprefix("controls ").startswith(name.removeprefix("control "))
    ]
    if said:
        found.outcome, found.reason = NOTED, said[0]
        return found
    stated = [reason for pair, reason in NEVER.items() if pair <= set(found.names)]
    if not stated:
        found.outcome = UNMET
    found.reason = stated[0] if stated else f"in {TRIES} worlds {' and '.join(never) or 'all together'} never acted"
    return found
