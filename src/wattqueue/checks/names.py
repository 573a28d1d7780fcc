"""Methods whose name is nearly one of the interfaces' names: most likely misspelt, and then never called.

Interfaces are structural (``parts/contracts.py``): a class is a part because of its methods' names. A class with
``predct`` is therefore no part at all, and an order with ``rerrank`` is one that is never re-ranked; neither is an
error anywhere. ``misspelt`` finds such names by similarity. Names with a leading underscore are a class's own business.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from wattqueue.policy.interfaces import METHODS, axes_of, method_of

CLOSE = 0.75
"""Similarity from which a name counts as misspelt in a class that is no part."""
CLOSE_IN_A_PART = 0.85
"""The same in a class that is a part: its other methods may have any name, so only slips of one letter count."""


def misspelt(found: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield (name, method that it resembles) of each public method that is nearly an interface's.

    A class that is a part is compared with the further methods of its axes only.
    """
    axes = axes_of(found)
    names = [name for axis in axes or METHODS for name in METHODS[axis] if method_of(found, name) is None]
    known = {name for methods in METHODS.values() for name in methods}
    least = CLOSE_IN_A_PART if axes else CLOSE
    for name in _public_methods(found):
        if name in known:
            continue
        ratio, meant = max(((_similarity(name, other), other) for other in names), default=(0.0, ""))
        if ratio >= least:
            yield name, meant


def _similarity(name: str, other: str) -> float:
    """Return the similarity of two names, 1 for names that differ in case and underscores only."""
    one, two = (text.replace("_", "").lower() for text in (name, other))
    return SequenceMatcher(None, one, two).ratio()


def _public_methods(found: type[Any]) -> list[str]:
    """Return the names of public methods that a class or its bases define in Python, without those of object."""
    return [
        name
        for name in dir(found)
        if not name.startswith("_") and method_of(found, name) is not None and name not in vars(object)
    ]
