"""Load targets in the live session: whoever has them, the controller takes them into its cap in each round.

A source gives the targets that it knows, in watts of the cap's scope, and never waits. The controller puts them into
the cap (``model.signals.capped``): the pool, the pass and reservations then follow them like a cap that was announced,
and parts of a policy see the targets themselves. The lower of cap and target is in force, so that no target, and no
failure of its source, lets the cluster draw more than the cap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from wattqueue.live.extension import Extension
from wattqueue.live.planner import RoundState
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.signals import Cap, RiseScale, capped


class TargetSource(Protocol):
    """Where load targets come from; it works in a thread beside the controller."""

    def start(self, say: Callable[[str], None]) -> None:
        """Begin; ``say`` gets lines for the log. Raises: InputError where it cannot."""
        ...

    def close(self) -> None:
        """End."""
        ...

    def targets(self) -> LoadTargets:
        """Return the targets, in watts; the same object as long as they are the same."""
        ...

    def problems(self) -> Sequence[str]:
        """Return what a person should act on."""
        ...

    def unusable(self) -> int:
        """Return how much of what the source stated last cannot be used, for the metrics; each has a problem."""
        ...

    def measured(self, time_s: float, power_w: float, *, measured: bool, consenting_w: float | None = None) -> None:
        """Take what the cluster draws; ``measured`` where no node counts its maximum in place of a measurement.

        ``consenting_w`` is what running jobs whose users consent count for, None where the site asks no consent.
        """
        ...


@dataclass
class TargetedCap:
    """The site's cap with the targets of a source in it, made again when one of both has changed.

    Attributes:
        source: Where targets come from.
        stated: The cap without them.
        scale: How the limit rises after them.
        targets: Those that are in ``limit``.
    """

    source: TargetSource
    stated: Cap
    scale: RiseScale
    targets: LoadTargets = field(default_factory=LoadTargets.none)
    _made: tuple[Cap, Cap] | None = None
    """The limit, and the stated cap that it was made of."""

    @property
    def limit(self) -> Cap:
        """Return the cap with the targets in it, as of the last look."""
        return self.stated if self._made is None else self._made[0]

    def restate(self, cap: Cap) -> None:
        """Take another cap of the site."""
        self.stated = cap

    def changed(self) -> bool:
        """Look at the source; whether another limit is to be kept now."""
        targets = self.source.targets()
        if self._made is not None and targets is self.targets and self._made[1] is self.stated:
            return False
        self.targets, self._made = targets, (capped(self.stated, targets, self.scale), self.stated)
        return True


def target_name(targets: LoadTargets, now_s: float) -> str:
    """Return the target in force in words, for the audit log and the user of a job that is parked for it."""
    row = targets.in_force(now_s)
    if row < 0:
        return "no load target is in force"
    name = targets.correlation_id[row][:60]
    return f"load target {name} of {targets.limit[row]:.6g} W".replace("  ", " ")


def target_end_s(targets: LoadTargets, now_s: float) -> float:
    """Return the end of the target in force; the present where there is none."""
    row = targets.in_force(now_s)
    return now_s if row < 0 else float(targets.end_s[row])


def in_words(targets: LoadTargets) -> str:
    """Return targets as the audit log has them, the first ten."""
    rows = [targets.row(row) for row in range(min(len(targets), 10))]
    texts = [f"{t.limit:.6g} W from {t.start_s:.0f} to {t.end_s:.0f} ({t.correlation_id[:60]})" for t in rows]
    return f"{len(targets)} load targets" + (f": {'; '.join(texts)}" if texts else "")


def consenting_w(now: RoundState) -> float | None:
    """Return the net watts of running jobs whose users consent; None where the site asks no consent."""
    slots = np.array(now.holding[: now.holders], np.int64)
    sheds_w = now.jobs.net_w[slots[now.jobs.consent[slots, 0] > 0]].sum()
    return float(sheds_w) if now.asks_consent else None


def demand_extension(demand: TargetedCap, note: Callable[[str, str], None]) -> Extension:
    """Return the stages that put load targets into the cap, and tell their source what the cluster draws.

    ``note`` records in the audit log.
    """
    source = demand.source

    def take(now: RoundState) -> None:
        planner = now.planner
        if demand.changed():
            planner.cap, planner.announced.targets = demand.limit, demand.targets
            note("targets", in_words(demand.targets))

    def tell(now: RoundState) -> None:
        now.unusable_targets = source.unusable()
        if not now.power:
            return
        measured = all(one.label == "measured" for one in now.power.values())
        watts = sum(one.power_w for one in now.power.values())
        source.measured(now.now_s, watts, measured=measured, consenting_w=consenting_w(now))

    return Extension({"observed": take, "report": tell}, source.problems, source.start, source.close)
