"""Admit jobs beside what a site has settled: limits of groups, nodes that may serve a job (``SiteConstraints``).

The planner asks two questions:

* ``barred``, before the policy decides: which waiting jobs cannot start now, and why. The policy does not see
  them in this round, so that they take neither nodes nor watts from others;
* ``Admission``, after it has decided: which of the starts fit *together*. Two jobs may each fit the last
  free place of a group. What does not fit waits for the next round, in which it is barred.

Both only ever leave out a start. What a driver cannot state (or states too generously) is refused by the resource
manager itself, and learned from the reason that it shows (``stages.classify``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from wattqueue.live.cluster import Job, JobKey, SiteConstraints


class Admission:
    """Counts what is left of limits and nodes while jobs are admitted one after the other."""

    def __init__(self, site: SiteConstraints, busy: Iterable[Job], free: Collection[str]) -> None:
        """Begin with the jobs that run or are about to (``busy``) and the names of the nodes that are ``free``."""
        self.site = site
        self.room = dict(site.limits)
        self.free = set(free)
        self._counts: dict[int, int] = {}
        for row in busy:
            self._take(row)

    def _take(self, row: Job) -> None:
        for claim in self.site.claims.get(row.key, ()):
            if claim.limit in self.room:
                self.room[claim.limit] -= claim.amount

    def why_not(self, row: Job) -> str:
        """Return why a waiting job cannot start now beside what was admitted; empty where it can."""
        site = self.site
        if (text := site.barred.get(row.key)) is not None:
            return text
        for claim in site.claims.get(row.key, ()):
            if claim.amount > self.room.get(claim.limit, claim.amount) + 1e-9:
                return f"limit {claim.limit}"
        able = site.reserved.get(row.key, site.nodes.get(row.key))
        if able is not None and self._left(able) < row.nodes:
            return f"{row.nodes} nodes that may serve it, {self._left(able)} of {len(able)} are free"
        return ""

    def _left(self, able: frozenset[str]) -> int:
        """Return how many of some nodes are free; counted once for equal sets while nothing was admitted."""
        known = self._counts.get(id(able))
        if known is None:
            known = self._counts[id(able)] = len(able & self.free)
        return known

    def admit(self, row: Job, nodes: Sequence[str]) -> bool:
        """Count a start if it fits beside those before it; ``nodes`` are those that the policy chose.

        A job that only some nodes may serve takes free ones of those, in the order of their names.
        """
        if self.why_not(row):
            return False
        self._take(row)
        able = self.site.reserved.get(row.key, self.site.nodes.get(row.key))
        self.free.difference_update(nodes if able is None else sorted(able & self.free)[: len(nodes)])
        self._counts = {}
        return True


def barred(
    site: SiteConstraints, waiting: Iterable[Job], busy: Iterable[Job], free: Collection[str]
) -> dict[JobKey, str]:
    """Return the waiting jobs that the site's rules keep from starting now, and why."""
    if site.empty:
        return {}
    admission = Admission(site, busy, free)
    found = ((row.key, admission.why_not(row)) for row in waiting)
    return {key: text for key, text in found if text}
