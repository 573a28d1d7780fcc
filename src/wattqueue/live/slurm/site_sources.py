"""Read the sources of a Slurm site's own rules: settings, associations, fair shares, facts of jobs, nodes.

Each source has an age from which it is read again; facts of jobs at once where a waiting job is new. A source that
cannot be read keeps its last content, is a problem of the snapshot, and is tried again: nothing here is needed to hold
the budget, and a round does not fail for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from wattqueue.errors import WattQueueError
from wattqueue.live.cluster import Job, JobKey
from wattqueue.live.slurm.associations import ASSOCIATIONS, SHARES, Associations, parse_associations, parse_shares
from wattqueue.live.slurm.budget_checks import PARTITIONS
from wattqueue.live.slurm.commands import Slurm, SlurmError, read
from wattqueue.live.slurm.job_facts import EXCLUDED, FACTS, JobFacts, parse_facts
from wattqueue.live.slurm.multifactor import PartitionFactors, parse_partitions
from wattqueue.live.slurm.suitable import FEATURES, RESERVATIONS, Reservation, parse_features, parse_reservations

CONFIG = ("scontrol", "show", "config")
AGES_S = {"config": 60.0, "associations": 30.0, "shares": 30.0, "facts": 10.0, "nodes": 5.0}
"""Age of each source from which it is read again."""


@dataclass
class SiteSources:
    """What was read, each source as it was last readable; equal contents stay the same object. Used by one thread."""

    slurm: Slurm
    wait: Callable[[float], None]
    priorities: bool = False
    """Whether priorities are wanted, which need fair shares."""
    problems: dict[str, str] = field(default_factory=dict)
    """Sources that cannot be read, each with the reason."""
    config: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, PartitionFactors] = field(default_factory=dict)
    associations: Associations = field(default_factory=Associations)
    shares: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    facts: Mapping[JobKey, JobFacts] = field(default_factory=dict)
    reservations: tuple[Reservation, ...] = ()
    features: Mapping[str, frozenset[str]] = field(default_factory=dict)
    _read_s: dict[str, float] = field(default_factory=dict)
    _missing: frozenset[JobKey] = frozenset()
    """Jobs that the last list of facts lacked."""

    def refresh(self, waiting: Iterable[Job], now_s: float) -> bool:
        """Read again what is too old, and the facts where a waiting job has none; return whether anything changed."""
        before = self.facts, self.associations, self.partitions, self.reservations, self.features
        self._source("config", now_s, self._read_config)
        if self.config.get("AccountingStorageType", "").endswith("slurmdbd"):
            self._source("associations", now_s, self._read_associations)
            if self.priorities:
                self._source("shares", now_s, self._read_shares)
        self._source("nodes", now_s, self._read_nodes)
        new = {row.key for row in waiting} - self.facts.keys() - self._missing
        if new:
            self._read_s.pop("facts", None)
        self._source("facts", now_s, self._read_facts)
        if new:
            self._missing = frozenset(new - self.facts.keys())
        after = self.facts, self.associations, self.partitions, self.reservations, self.features
        return any(old is not now for old, now in zip(before, after, strict=True))

    def _source(self, name: str, now_s: float, work: Callable[[], None]) -> None:
        """Read a source if it is too old; one that fails is a problem until it is read again."""
        if now_s - self._read_s.get(name, -math.inf) < AGES_S[name]:
            return
        self._read_s[name] = now_s
        try:
            work()
            self.problems.pop(name, None)
        except (WattQueueError, ValueError, KeyError, IndexError) as error:
            self.problems[name] = f"the site's {name}: {error}"[:200]

    def _text(self, argv: tuple[str, ...]) -> str:
        return read(self.slurm, argv, wait=self.wait)

    def _read_config(self) -> None:
        found = parse_config(self._text(CONFIG))
        partitions = parse_partitions(self._text(PARTITIONS))
        self.config = found
        if partitions != self.partitions:
            self.partitions = partitions

    def _read_associations(self) -> None:
        found = parse_associations(self._text(ASSOCIATIONS))
        if found != self.associations:
            self.associations = found

    def _read_shares(self) -> None:
        self.shares = parse_shares(self._text(SHARES))

    def _read_nodes(self) -> None:
        features, reservations = parse_features(self._text(FEATURES)), parse_reservations(self._text(RESERVATIONS))
        if features != self.features:
            self.features = features
        if reservations != self.reservations:
            self.reservations = reservations

    def _read_facts(self) -> None:
        found = parse_facts(self._text(FACTS), self._text(EXCLUDED))
        if found != self.facts:
            self.facts = found


def parse_config(text: str) -> dict[str, str]:
    """Return the settings that ``scontrol show config`` prints. Raises: SlurmError where there is none."""
    found = {m[1]: m[2].strip() for m in re.finditer(r"^([A-Za-z_]\w*)\s*= (.*)$", text, re.MULTILINE)}
    if not found:
        raise SlurmError("scontrol show config printed no settings")
    return found
