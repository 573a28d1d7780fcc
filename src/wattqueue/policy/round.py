"""A round of a live controller as a session's driver: a snapshot, and what this round has taken from it.

What an action takes counts at once: the units of a start, the watts of a unit that boots, a unit that is told to stop.
What it frees does not, whatever the action: a requeued job holds its units and watts, and a stopped unit its idle
watts, until a later snapshot shows them free (rule 2 of docs/semantics.md). A round in which jobs are requeued and
units are stopped therefore releases nothing into their place, and nothing that it releases can be refused for it.

``ROUND`` is the table of such a driver. The controller adds reasons of its own where the site does not allow an
action (``round_abilities``).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes, state
from wattqueue.kernels.calls import set_budget
from wattqueue.kernels.codes import microwatts
from wattqueue.kernels.snapshot import load_unusable
from wattqueue.model.signals import Signals
from wattqueue.parts import actions
from wattqueue.parts.contracts import Floats
from wattqueue.policy.actions import (
    NO_FREE_UNIT,
    NO_OPTION,
    NO_POWER,
    WRONG_STATE,
    delay_start,
    start_job,
    unit_is_free,
)
from wattqueue.policy.capabilities import DriverAbilities
from wattqueue.policy.decide import PolicySnapshot, starts_of, view_of
from wattqueue.policy.device_limits import OUT_OF_REACH, DeviceLimits, DeviceReadings
from wattqueue.policy.identity import JobNames
from wattqueue.policy.view import View

NO_AGENT = "no agent on the nodes carries it out"
"""Why frequencies and limits of running jobs are refused on a cluster without agents."""
NOBODY: Mapping[str, float] = {}


class Round:
    """One round: the view of a snapshot, and the actions that were carried out on it."""

    def __init__(
        self,
        snapshot: PolicySnapshot,
        abilities: DriverAbilities,
        unit_state: NDArray[np.int8] | None = None,
        under_way: frozenset[str] = frozenset(),
        limits: DeviceLimits | None = None,
        parked_w: Mapping[str, float] = NOBODY,
        readings: DeviceReadings | None = None,
    ) -> None:
        """Load a snapshot.

        ``unit_state`` (units,) are the states of ``kernels/codes.py``; without them a unit that cannot be used counts
        as down. ``under_way`` names jobs that hold units in the snapshot and do not run yet: there is nothing to
        requeue. ``limits``: of devices, None where no agents set them. ``parked_w``: net watts for which each job
        counts again that an action suspended. ``readings``: measured power of devices, None where no part reads it.
        """
        self.snapshot, self.abilities, self.under_way, self.readings = snapshot, abilities, under_way, readings
        self.limits, self._limits_before = limits, limits
        self.limited: dict[int, float] = {}
        """Watts to which devices are to be limited."""
        self.options: dict[str, int] = {}
        """Options at which running jobs are to go on, by their names."""
        self.kernel: state.KernelView = view_of(snapshot)
        set_budget(self.kernel)  # a control reads what is available before the pass computes it
        self.names = JobNames(snapshot.jobs.job_id, distinct=True)
        if unit_state is None:
            unit_state = np.full(snapshot.machine.units, codes.UNIT_ON, np.int8)
            unit_state[snapshot.unusable] = codes.UNIT_DOWN
        self.unit_state = unit_state.copy()
        self.requeued: list[str] = []
        """Jobs to requeue."""
        self.parked_w = parked_w
        self.suspended: list[str] = []
        """Jobs to suspend."""
        self.resumed: list[str] = []
        """Suspended jobs to continue."""
        self.powered: dict[int, int] = {}
        """State that each unit of a node was told to take: UNIT_STOPPING or UNIT_BOOTING."""
        self._states_before = self.unit_state.copy()
        self.drained: list[int] = []
        """A unit of each node to drain."""
        self.undrained: list[int] = []
        """A unit of each draining node that is to take jobs again."""
        self.base_added_uw = 0
        """Microwatts that the base of the cap counts more since the snapshot, for units that boot or stop."""

    def view(self, refusals: tuple[actions.Refusal, ...], part: object = None) -> View:
        """Return the present as a part sees it."""
        seen = self.snapshot
        return View(
            seen.jobs, seen.machine, self.kernel, self.unit_state, refusals, self.names, seen.signals, self.limits,
            self.readings,
        )  # fmt: skip

    @property
    def signals(self) -> Signals:
        """Return what has been announced."""
        return self.snapshot.signals

    @property
    def device_limits_w(self) -> Floats:
        """Return the limits of all devices, inf where no agents set them. Shape (D,)."""
        return np.full(self.snapshot.machine.devices, np.inf) if self.limits is None else self.limits.cap_w

    def starts(self) -> list[actions.StartJob]:
        """Return what starts in this round, in order, with its units."""
        return starts_of(self.kernel, self.names)

    def start_rows(self) -> list[int]:
        """Return the row of each start in the job table, in the order of ``starts``."""
        kernel = self.kernel
        rows: list[int] = kernel.entries.job[kernel.start_entry[: int(kernel.now.starts)]].tolist()
        return rows

    def wider(self, snapshot: PolicySnapshot) -> Round:
        """Return the same round on another snapshot, before any action."""
        before = self.states_before(), self.under_way, self._limits_before, self.parked_w, self.readings
        return Round(snapshot, self.abilities, *before)

    def states_before(self) -> NDArray[np.int8]:
        """Return the unit states of the snapshot, without the actions of this round."""
        return self._states_before.copy()

    def node_units(self, unit: int) -> NDArray[np.int32]:
        """Return the units of the node in which ``unit`` stands: power is switched by the node. Shape (k,)."""
        machine = self.snapshot.machine
        node = machine.node_of_unit[unit]
        return np.arange(machine.node_start[node], machine.node_start[node + 1], dtype=np.int32)

    def tell(self, units: NDArray[np.int32], state: int) -> None:
        """Note that the node of ``units`` was told to take a state."""
        self.unit_state[units] = state
        self.powered |= dict.fromkeys(units.tolist(), state)

    def count_base(self, more_uw: int) -> bool:
        """Add to the base of the cap, if the ledger has room for it; less than nothing is not taken off it.

        A figure that falls would free watts that the next snapshot has not shown yet.
        """
        if more_uw <= 0 or not self.kernel.now.scope_machine:
            return True
        if not self._count(base_uw=more_uw):
            return False
        self.base_added_uw += more_uw
        return True

    def count_job(self, more_uw: int) -> bool:
        """Count a running job for more, if the ledger has room for it; less is counted when it is observed."""
        return more_uw <= 0 or self._count(ledger_uw=more_uw)

    def _count(self, base_uw: int = 0, ledger_uw: int = 0) -> bool:
        """Count more watts; take them back and return False where the cap has no room for them."""
        now = self.kernel.now
        now.base_uw, now.ledger_uw = now.base_uw + base_uw, now.ledger_uw + ledger_uw
        set_budget(self.kernel)
        if now.cap_uw < codes.NO_CAP and now.available_uw < 0:
            now.base_uw, now.ledger_uw = now.base_uw - base_uw, now.ledger_uw - ledger_uw
            set_budget(self.kernel)
            return False
        return True


def _start(now: Round, action: actions.StartJob) -> str:
    return start_job(now.kernel, now.names, action)


def _other_state(now: Round, unit: int, state: int) -> str:
    """Return why an action on a unit in ``state`` is refused: there is no such unit, or it is in another state."""
    if not 0 <= unit < len(now.unit_state):
        return NO_OPTION
    return "" if now.unit_state[unit] == state else WRONG_STATE


def _stop(now: Round, action: actions.StopNode) -> str:
    """Shut a free node down: nothing starts there from now on, and its idle watts stay counted."""
    unit = operator.index(action.node)
    if refused := _other_state(now, unit, codes.UNIT_ON):
        return refused
    units = now.node_units(unit)
    if not all(unit_is_free(now.kernel, each) for each in units.tolist()):
        return NO_FREE_UNIT
    part = now.snapshot.machine.partitions[partition_of(now.kernel, unit)]
    if not now.count_base(microwatts(max(part.shutdown_w, part.off_w)) - len(units) * microwatts(part.idle_w)):
        return NO_POWER
    load_unusable(now.kernel, units)
    now.kernel.now.dirty = 1
    now.tell(units, codes.UNIT_STOPPING)
    return ""


def _drain(now: Round, action: actions.DrainNode) -> str:
    """Have a node take no new job; it shuts down when a snapshot shows it drained and idle."""
    unit = operator.index(action.node)
    if refused := _other_state(now, unit, codes.UNIT_ON):
        return refused
    units = now.node_units(unit)
    load_unusable(now.kernel, np.array([u for u in units.tolist() if unit_is_free(now.kernel, u)], np.int32))
    now.kernel.now.dirty = 1
    now.unit_state[units] = codes.UNIT_DRAINING
    now.drained.append(int(units[0]))
    return ""


def _wake(now: Round, action: actions.WakeNode) -> str:
    """Boot a node that is off: the greater of its boot and idle watts counts from now on. A drain is taken back."""
    unit = operator.index(action.node)
    draining = not _other_state(now, unit, codes.UNIT_DRAINING)
    if draining and unit not in (*now.drained, *now.undrained):
        now.undrained.append(unit)  # what it frees counts when it is seen in service
        return ""
    if refused := _other_state(now, unit, codes.UNIT_OFF):
        return refused
    part = now.snapshot.machine.partitions[partition_of(now.kernel, unit)]
    units = now.node_units(unit)
    if not now.count_base(max(microwatts(part.boot_w), len(units) * microwatts(part.idle_w)) - microwatts(part.off_w)):
        return NO_POWER
    now.tell(units, codes.UNIT_BOOTING)
    return ""


def _frequency(now: Round, action: actions.SetFrequency) -> str:
    """Run a job at another option from now on, through the agents of its nodes.

    A faster option counts its predicted watts at once. What a slower one frees counts when it is measured.
    """
    row, option = now.names.row(action.job), operator.index(action.option)
    if now.limits is None:
        return NO_AGENT
    running = row >= 0 and now.kernel.held.option[row] >= 0 and row in now.snapshot.running.row
    if not running or action.job in now.under_way or action.job in now.requeued or now.kernel.held.parked[row] != 0:
        return WRONG_STATE
    partition, before = now.kernel.units.option_partition, int(now.kernel.held.option[row])
    if not 0 <= option < len(partition) or partition[option] != partition[before]:
        return NO_OPTION
    view, hertz = now.view(()), float(now.snapshot.machine.option_frequency_hz[option])
    nodes = now.snapshot.machine.device_of_unit[view.job_units(row)]
    # Not a number, for a machine without frequencies or an agent that sets none, is in no range.
    if not ((now.limits.low_hz[nodes] <= hertz) & (hertz <= now.limits.high_hz[nodes])).all():
        return OUT_OF_REACH
    counted_uw = int(now.snapshot.running.net_uw[now.snapshot.running.row == row][0])
    if not now.count_job(microwatts(view.net_watts(row, option)) - counted_uw):
        return NO_POWER
    now.kernel.held.option[row] = option
    now.options[action.job] = option
    return ""


def _device_limits(now: Round, action: actions.SetDeviceLimits) -> str:
    """Limit devices through the agents of their nodes.

    The ledger counts what it did: jobs are admitted at full speed, so that a limit that is raised needs no room.
    """
    if now.limits is None:
        return NO_AGENT
    now.limits, new, reason = now.limits.with_caps(action)
    now.limited |= new
    return reason


def _requeue(now: Round, action: actions.Requeue) -> str:
    """Have a running job requeued: it holds what it holds until a snapshot shows it gone."""
    row = now.names.row(action.job)
    if not _acts(now, row, action.job):
        return WRONG_STATE
    now.requeued.append(action.job)
    return ""


def _suspend(now: Round, action: actions.Suspend) -> str:
    """Have a running job suspended: it counts what it counts until a snapshot shows it suspended."""
    row = now.names.row(action.job)
    if not _acts(now, row, action.job) or now.kernel.held.parked[row] != 0:
        return WRONG_STATE
    now.suspended.append(action.job)
    return ""


def _resume(now: Round, action: actions.Resume) -> str:
    """Have a job continued that an action suspended: its watts count at once."""
    row = now.names.row(action.job)
    if not _acts(now, row, action.job) or now.kernel.held.parked[row] == 0:
        return WRONG_STATE
    counted_uw = int(now.snapshot.running.net_uw[now.snapshot.running.row == row][0])
    watts = now.parked_w.get(action.job, now.view(()).net_watts(row, int(now.kernel.held.option[row])))
    if not now.count_job(microwatts(watts) - counted_uw):
        return NO_POWER
    now.resumed.append(action.job)
    return ""


def _delay(now: Round, action: actions.DelayStart) -> str:
    """Delay the start of a job that waits; the driver keeps it for the rounds to come."""
    return delay_start(now.kernel, now.snapshot.jobs.consent, now.names, action)


def _acts(now: Round, row: int, job: str) -> bool:
    """Return whether a job holds units in the snapshot, and this round has not asked for anything about it."""
    running = row >= 0 and now.kernel.held.option[row] >= 0 and row in now.snapshot.running.row
    return running and job not in now.under_way and job not in (*now.requeued, *now.suspended, *now.resumed)


def partition_of(kernel: state.KernelView, unit: int) -> int:
    """Return the partition of a unit."""
    return int(np.searchsorted(kernel.units.unit_start, unit, side="right")) - 1


ROUND = DriverAbilities(
    "the live controller",
    {
        actions.StartJob: _start,
        actions.SetFrequency: _frequency,
        actions.SetDeviceLimits: _device_limits,
        actions.StopNode: _stop,
        actions.WakeNode: _wake,
        actions.Requeue: _requeue,
        actions.Suspend: _suspend,
        actions.Resume: _resume,
        actions.DrainNode: _drain,
        actions.DelayStart: _delay,
    },
    ranked_placement=True,
    unit_factors=True,
    planned_times=True,
    telemetry=True,
)
"""What a live controller carries out where its site allows everything, and every node is measured.

Under a measured ledger it hands the session running jobs with what was measured of them (``live.watts.tracking``).
"""


def round_abilities(refused: dict[type, str]) -> DriverAbilities:
    """Return what a live controller carries out where its site refuses some actions, with reasons."""
    return replace(ROUND, actions={**ROUND.actions, **refused})
