"""Bring measured power back below the cap: by device limits, then by parking jobs that opted in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.parts.actions import Action, Requeue, Resume, SetDeviceLimits, Suspend
from wattqueue.parts.contracts import Floats
from wattqueue.parts.controls.park_consenting import fewest

if TYPE_CHECKING:
    from wattqueue.policy.device_power import DevicePower
    from wattqueue.policy.view import View

Rows = NDArray[np.int32]
ORDER = ("limits", "park", "requeue")
ASKED_S = 30.0
"""For so long a job that was asked to stop, or to go on, counts as if it had: a cluster shows it later."""
LEAST_RAISE_W = 1.0
"""Less room than this raises no limit."""
INF = float("inf")


class LowerMeasured:
    """While measured power is above the cap, take watts from running jobs; give them back when there is room.

    What is needed is worked off in the ``order`` of the steps, each as far as it reaches:

    - ``limits``: limits of the devices on which jobs run, all lowered by the same share of what they draw above
      the least that each can be limited to. This needs no consent.
    - ``park``: as few jobs as possible are suspended, of those whose users consent.
    - ``requeue``: jobs that write checkpoints and whose users consent are requeued with their work up to the last one,
      if they have reached one since their start: a job that is requeued again and again gets on.

    The last running job is never parked or requeued. While power is above the cap, or a parked job waits for room,
    nothing else starts beside the jobs that run (``holds_starts``).

    Then, in the opposite order: parked jobs go on, the first one first, where their watts fit, or where nothing else
    runs; what is left over raises the limits, by equal shares, until they are lifted.

    It aims at ``room``, a share of what the cap leaves above idle watts, below the cap: power that moves does not cross
    it at once. Nobody is stopped for an excess that is no greater than that: it may be the noise of a meter. What its
    last action took from a device counts as taken until a newer reading says otherwise.

    Power is ``view.device_power``: where no reading says what a device draws now the prediction counts, so that a meter
    that is lost takes nothing from anybody, and one that stands still gives nothing back. The cap is the one without
    load targets: those have controls of their own.

    Raises: InputError for steps that are unknown or named twice, and a room that is no share.
    Reference: WattQueue's own (rule 16 of docs/semantics.md).
    """

    acts_on: ClassVar[tuple[str, ...]] = ("limit",)
    events: frozenset[str] = frozenset({"signal", "completion"})
    acts_by_power: bool = True
    reads_sensors: bool = True

    def __init__(self, *, order: Sequence[str] = ORDER, period_s: float = 10.0, room: float = 0.02) -> None:
        if not order or len(set(order)) < len(order) or not set(order) <= set(ORDER):
            raise InputError(
                f"order is {order!r}", where="lower-measured", hint=f"some of {', '.join(ORDER)}, once each"
            )
        if not 0.0 <= room < 1.0:
            raise InputError(f"room is {room}", where="lower-measured", hint="a share from 0 to below 1")
        self.order, self.period_s, self.room = tuple(order), period_s, room
        self.sets_limits, self.parks = "limits" in self.order, "park" in self.order
        self.begin()

    def begin(self) -> None:
        """Forget limits and jobs of a run before."""
        self.holds_starts = False
        """Whether nothing starts now beside the jobs that run."""
        self._limit_w = np.zeros(0)
        """Limits that were asked for and not refused, in a simulation; inf for none."""
        self._asked: tuple[SetDeviceLimits, Floats] | None = None
        """The last limits, and those before them."""
        self._acted_s = -INF
        self._parked: dict[str, tuple[float, float]] = {}
        """When each job was asked to stop, and what it drew."""
        self._resumed: dict[str, tuple[float, float]] = {}
        """When each job was asked to go on, and what it is to draw."""

    def act(self, view: View) -> Sequence[Action]:
        """Return what takes watts from jobs, or gives them back."""
        power = view.device_power
        if power is None:
            return []
        self._look_back(view)
        net, cap_w = self._net_w(view, power), view.cap_alone_w
        measured_w, aim_w = view.base_w + float(net.sum()), cap_w
        if cap_w < INF:
            aim_w -= self.room * max(0.0, cap_w - view.base_w)
        above = measured_w > cap_w + 1e-6
        if above:
            found = self._lower(view, power, net, measured_w - aim_w, cap_w - aim_w)
        else:
            found = self._give_back(view, power, aim_w - measured_w, cap_w - view.base_w)
        waiting = len(view.suspended) - sum(isinstance(action, Resume) for action in found)
        self.holds_starts = above or (self.parks and waiting > 0)
        if found:
            self._acted_s = view.now_s
        return found

    # -- what is drawn -----------------------------------------------------------------------------
    def _look_back(self, view: View) -> None:
        """Take over what was refused, and forget jobs that are gone."""
        if len(self._limit_w) != view.machine.devices:
            self._limit_w = np.full(view.machine.devices, INF)
        refused = [refusal.action for refusal in view.refusals]
        if self._asked is not None and any(action is self._asked[0] for action in refused):
            action, before = self._asked
            self._limit_w[np.asarray(action.devices)] = before
        self._asked = None
        gone = {action.job for action in refused if isinstance(action, Suspend | Requeue)}
        self._parked = {job: one for job, one in self._parked.items() if job not in gone and view.job_row(job) >= 0}
        late = {action.job for action in refused if isinstance(action, Resume)}
        self._resumed = {
            job: one
            for job, one in self._resumed.items()
            if job not in late and view.now_s - one[0] < ASKED_S and view.job_row(job) >= 0
        }

    def _limits(self, view: View) -> Floats:
        """Return the limits in force, inf for none. Shape (D,)."""
        return self._limit_w if view.limits is None else view.limits.cap_w

    def _net_w(self, view: View, power: DevicePower) -> Floats:
        """Return what devices draw, with what was asked for since they were read. Shape (D,)."""
        net = power.net_w.copy()
        old = power.since_s < self._acted_s
        net[old] = np.minimum(net[old], np.maximum(self._limits(view) - power.idle_w, 0.0)[old])
        for job, (asked_s, _) in self._parked.items():
            row = view.job_row(job)
            stops = view.job_option(row) >= 0 and row not in view.suspended and view.now_s - asked_s < ASKED_S
            if stops and job not in self._resumed:
                net[view.machine.device_of_unit[view.job_units(row)]] = 0.0
        for job, (asked_s, drawn_w) in self._resumed.items():
            row = view.job_row(job)
            if view.job_option(row) >= 0:
                devices = np.unique(view.machine.device_of_unit[view.job_units(row)])
                unseen = devices[power.since_s[devices] < asked_s]
                net[unseen] = np.maximum(net[unseen], drawn_w / len(devices))
        return net

    def _drawn_w(self, view: View, rows: Rows, net: Floats) -> Floats:
        """Return what each job draws of its devices, by its share of their busy units. Shape (k,)."""
        device = view.machine.device_of_unit
        busy = np.bincount(device[~np.isnan(view.counted_unit_w)], minlength=view.machine.devices)
        share = net / np.maximum(busy, 1)
        return np.array([float(share[device[view.job_units(int(row))]].sum()) for row in rows])

    # -- what is lowered ---------------------------------------------------------------------------
    def _lower(self, view: View, power: DevicePower, net: Floats, needed_w: float, room_w: float) -> list[Action]:
        """Return actions that take so many watts from jobs, or all that they can.

        ``room_w`` of them are below the cap. Nobody is stopped for an excess that is no more than that.
        """
        found: list[Action] = []
        for step in self.order:
            if needed_w <= (1e-6 if step == "limits" else 2.0 * room_w + 1e-6):
                break
            if step == "limits":
                actions, freed_w = self._limit(view, power, net, needed_w)
            else:
                stopped = {action.job for action in found if isinstance(action, Suspend)}
                actions, freed_w = self._stop(view, net, needed_w - room_w, stopped, requeues=step == "requeue")
            found += actions
            needed_w -= freed_w
        return found

    def _limit(self, view: View, power: DevicePower, net: Floats, needed_w: float) -> tuple[list[Action], float]:
        """Return lower limits, and the watts that they take; ``net`` becomes what they leave."""
        limits, before = view.limits, self._limits(view)
        low, may = power.idle_w, power.draws
        if limits is not None:
            low, may = limits.low_w, power.draws & limits.settable
        can = np.where(may, np.maximum(net + power.idle_w - low, 0.0), 0.0)
        total_w = float(can.sum())
        if total_w <= 0.0:
            return [], 0.0
        taken = can * min(1.0, needed_w / total_w)
        new = np.maximum(net + power.idle_w - taken, low)
        which = np.flatnonzero((can > 0.0) & (new < before))
        net -= taken
        return self._ask(which, new[which], before), float(taken.sum())

    def _stop(
        self, view: View, net: Floats, needed_w: float, stopped: set[str], *, requeues: bool
    ) -> tuple[list[Action], float]:
        """Return jobs to suspend, or to requeue, and what they draw. ``stopped``: those that are suspended already."""
        rows = view.active
        known = [view.job_id(int(row)) not in self._parked.keys() | stopped for row in rows]
        rows = rows[np.array(known, np.bool_)]
        running = len(rows)
        rows = rows[view.may_park(rows)]
        kept = view.kept_work_s(rows)
        if requeues:
            rows, kept = rows[kept > 0.0], kept[kept > 0.0]
        drawn = self._drawn_w(view, rows, net)
        good = np.flatnonzero(drawn > 0.0)
        chosen = good[fewest(drawn[good], needed_w)][: max(0, running - 1)]
        found: list[Action] = []
        for k in chosen:
            job = view.job_id(int(rows[k]))
            self._parked[job] = view.now_s, float(drawn[k])
            found.append(Requeue(job, float(kept[k])) if requeues else Suspend(job))
        return found, float(drawn[chosen].sum())

    # -- what is given back ------------------------------------------------------------------------
    def _give_back(self, view: View, power: DevicePower, room_w: float, most_w: float) -> list[Action]:
        """Return which parked jobs go on, and which limits are raised, with so many watts.

        ``most_w`` are all that the cap leaves: what even the maxima of busy devices leave of them is room, too.
        """
        unlimited_w = self._most_w(view)
        left_w = most_w - float(np.maximum(unlimited_w - power.idle_w, 0.0)[power.draws].sum())
        room_w = max(room_w, left_w)
        found: list[Action] = []
        running, still = len(view.running) - len(view.suspended), 0
        for job, needed_w in self._waiting(view) if self.parks else ():
            if needed_w > room_w and running:
                still += 1
                continue
            room_w, left_w, running = room_w - needed_w, left_w - needed_w, running + 1
            self._parked.pop(job, None)
            self._resumed[job] = view.now_s, needed_w
            found.append(Resume(job))
        return found if still else [*found, *self._raise(view, unlimited_w, INF if left_w >= 0.0 else room_w)]

    def _waiting(self, view: View) -> list[tuple[str, float]]:
        """Return the suspended jobs, the first one first, with the watts that each needs to go on."""
        rows = view.suspended
        predicted = view.net_watts_of(rows, view.job_options(rows))
        found = []
        for row, net_w in zip(rows.tolist(), predicted.tolist(), strict=True):
            job = view.job_id(row)
            asked_s, drawn_w = self._parked.get(job, (-INF, 0.0))
            if job not in self._resumed:
                found.append((asked_s, row, job, max(net_w, drawn_w)))
        return [(job, net_w) for _, _, job, net_w in sorted(found)]

    @staticmethod
    def _most_w(view: View) -> Floats:
        """Return what each device can draw at most; inf where the machine states no maximum. Shape (D,)."""
        machine = view.machine
        unit = machine.by_unit([INF if p.max_w is None else p.max_w for p in machine.partitions])
        return np.add.reduceat(unit, machine.device_start[:-1])

    def _raise(self, view: View, most_w: Floats, room_w: float) -> list[Action]:
        """Return higher limits, by equal shares of the room; one that reaches what its device can draw is lifted."""
        before = self._limits(view)
        if view.limits is not None:
            most_w = np.where(view.limits.settable, np.minimum(most_w, view.limits.high_w), -INF)
        which = np.flatnonzero(before < most_w) if self.sets_limits else np.zeros(0, np.intp)
        if not len(which) or room_w < LEAST_RAISE_W:
            return []
        new = before[which] + room_w / len(which)
        new[new >= most_w[which]] = INF
        return self._ask(which, new, before)

    def _ask(self, which: NDArray[np.intp], new: Floats, before: Floats) -> list[Action]:
        """Return the action that sets limits, and remember it; none for none."""
        if not len(which):
            return []
        action = SetDeviceLimits(which, new)
        self._asked = action, before[which].copy()
        self._limit_w[which] = new
        return [action]
