"""Which events make up the activity of a component, by micro-architecture (``events.toml``, Table 1 of paper 2)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from wattqueue.errors import InputError, one_of

COMPONENTS = ("fetch", "branch", "alu", "fp", "l1", "l2", "l3", "memory")
"""Components of Table 1, in its order. Activity of one is events per unhalted cycle."""
LEVELS = ("active_cores", *COMPONENTS)
"""Columns of a table of activity: mean active cores, then the ratio of each component."""
_MODIFIER = re.compile(r":[a-zA-Z]+$")
_PMU = re.compile(r"^[a-z0-9_-]+/([^/]*)/[a-zA-Z]*$", re.IGNORECASE)

Term = tuple[str, ...]
"""Names of one event, in the order of preference."""


@dataclass(frozen=True, slots=True)
class Microarchitecture:
    """Events of one micro-architecture.

    Attributes:
        name: Its name in ``events.toml``.
        cycles: Names of the event that counts unhalted cycles.
        components: Terms of each component; their counts are added.
    """

    name: str
    cycles: Term
    components: Mapping[str, Sequence[Term]]

    def columns(self, counted: Collection[str]) -> tuple[str, dict[str, list[str]]]:
        """Return the counted events to use: that of cycles, and those of each component.

        Args:
            counted: Names of the events as they were recorded.

        Raises: InputError naming the first event that is missing.
        """
        by_name = {plain(event): event for event in counted}
        return self._pick("cycles", self.cycles, by_name), {
            component: [self._pick(component, term, by_name) for term in terms]
            for component, terms in self.components.items()
        }

    def _pick(self, component: str, term: Term, by_name: Mapping[str, str]) -> str:
        """Return the first event of a term that was counted. Raises: InputError."""
        for name in term:
            if name.lower() in by_name:
                return by_name[name.lower()]
        raise InputError(
            f"no event {term[0]} was counted, which {component} needs on {self.name}",
            where="events",
            hint=f"record one of {', '.join(term)}",
        )


def plain(event: str) -> str:
    """Return an event's name in small letters, without the PMU's name and without modifiers."""
    inside = _PMU.match(event.strip())
    return _MODIFIER.sub("", inside[1] if inside else event.strip()).lower()


@lru_cache
def microarchitectures() -> Mapping[str, Microarchitecture]:
    """Return all micro-architectures of ``events.toml`` by name."""
    document = tomllib.loads(files("wattqueue_studies.pmc").joinpath("events.toml").read_text(encoding="utf-8"))
    return {
        name: Microarchitecture(
            name, tuple(entry["cycles"]), {c: [tuple(t) for t in entry["components"][c]] for c in COMPONENTS}
        )
        for name, entry in document.items()
    }


def microarchitecture(name: str) -> Microarchitecture:
    """Return one micro-architecture. Raises: InputError for a name that the table does not have."""
    known = microarchitectures()
    if name not in known:
        raise InputError(f"no events of micro-architecture {name!r}", hint=one_of(name, known))
    return known[name]
