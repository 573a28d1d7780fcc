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
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes, state
from wattqueue.kernels.schedule import budget_once
from wattqueue.kernels.snapshot import load_unusable
from wattqueue.policy.actions import (
    REASONS,
    Refusal,
    Requeue,
    SetDomainCaps,
    SetFrequency,
    StartJob,
    StopNode,
    WakeNode,
)
from wattqueue.policy.capabilities import DriverAbilities
from wattqueue.policy.decide import PolicySnapshot, starts_of, view_of
from wattqueue.policy.identity import JobNames
from wattqueue.policy.starts import start_job, unit_is_free
from wattqueue.policy.view import View

NO_AGENT = "no agent on the nodes carries it out"
"""Why frequencies and limits of running jobs are refused live."""
WRONG_STATE = REASONS[codes.REFUSED_STATE]


class Round:
    """One round: the view of a snapshot, and the actions that were carried out on it."""

    def __init__(
        self,
        snapshot: PolicySnapshot,
        abilities: DriverAbilities,
        unit_state: NDArray[np.int8] | None = None,
        under_way: frozenset[str] = frozenset(),
    ) -> None:
        """Load a snapshot.

        ``unit_state`` (units,) are the states of ``kernels/codes.py``; without them a unit that cannot be used counts
        as down. ``under_way`` names jobs that hold units in the snapshot and do not run yet: there is nothing to
        requeue.
        """
        self.snapshot, self.abilities, self.under_way = snapshot, abilities, under_way
        self.kernel: state.KernelView = view_of(snapshot)
        budget_once(self.kernel)  # a control reads what is available before the pass computes it
        self.names = JobNames(snapshot.jobs.job_id, distinct=True)
        if unit_state is None:
            unit_state = np.full(snapshot.machine.units, codes.UNIT_ON, np.int8)
            unit_state[snapshot.unusable] = codes.UNIT_DOWN
        self.unit_state = unit_state.copy()
        self.requeued: list[str] = []
        """Jobs to requeue."""
        self.powered: dict[int, int] = {}
        """State that each unit of a node was told to take: UNIT_STOPPING or UNIT_BOOTING."""
        self.base_added_uw = 0
        """Microwatts that the base of the cap counts more since the snapshot, for units that boot or stop."""

    def view(self, refusals: tuple[Refusal, ...], part: object = None) -> View:
        """Return the present as a part sees it."""
        seen = self.snapshot
        return View(seen.jobs, seen.machine, self.kernel, self.unit_state, refusals, self.names, seen.signals)

    def starts(self) -> list[StartJob]:
        """Return what starts in this round, in order, with its units."""
        return starts_of(self.kernel, self.names)

    def start_rows(self) -> list[int]:
        """Return the row of each start in the job table, in the order of ``starts``."""
        kernel = self.kernel
        rows: list[int] = kernel.entries.job[kernel.start_entry[: int(kernel.counter[codes.STARTS])]].tolist()
        return rows

    def wider(self, snapshot: PolicySnapshot) -> Round:
        """Return the same round on another snapshot, before any action."""
        return Round(snapshot, self.abilities, self.states_before(), self.under_way)

    def states_before(self) -> NDArray[np.int8]:
        """Return the unit states of the snapshot, without the actions of this round."""
        states = self.unit_state.copy()
        for unit, asked in self.powered.items():
            states[unit] = codes.UNIT_ON if asked == codes.UNIT_STOPPING else codes.UNIT_OFF
        return states

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
        count = self.kernel.counter
        if more_uw <= 0 or not count[codes.SCOPE_MACHINE]:
            return True
        count[codes.BASE] += more_uw
        budget_once(self.kernel)
        if count[codes.CAP] < codes.NO_CAP and count[codes.AVAILABLE] < 0:
            count[codes.BASE] -= more_uw
            budget_once(self.kernel)
            return False
        self.base_added_uw += more_uw
        return True


def _start(now: Round, action: StartJob) -> str:
    return start_job(now.kernel, now.names, action)


def _stop(now: Round, action: StopNode) -> str:
    """Shut a free node down: nothing starts there from now on, and its idle watts stay counted."""
    unit = operator.index(action.node)
    if not 0 <= unit < len(now.unit_state):
        return REASONS[codes.REFUSED_OPTION]
    if now.unit_state[unit] != codes.UNIT_ON:
        return WRONG_STATE
    units = now.node_units(unit)
    if not all(unit_is_free(now.kernel, each) for each in units.tolist()):
        return REASONS[codes.REFUSED_BUSY]
    part = now.snapshot.machine.partitions[partition_of(now.kernel, unit)]
    if not now.count_base(microwatts(max(part.shutdown_w, part.off_w)) - len(units) * microwatts(part.idle_w)):
        return REASONS[codes.REFUSED_POWER]
    load_unusable(now.kernel, units)
    now.kernel.counter[codes.DIRTY] = 1
    now.tell(units, codes.UNIT_STOPPING)
    return ""


def _wake(now: Round, action: WakeNode) -> str:
    """Boot a node that is off: the greater of its boot and idle watts counts from now on."""
    unit = operator.index(action.node)
    if not 0 <= unit < len(now.unit_state):
        return REASONS[codes.REFUSED_OPTION]
    if now.unit_state[unit] != codes.UNIT_OFF:
        return WRONG_STATE
    part = now.snapshot.machine.partitions[partition_of(now.kernel, unit)]
    units = now.node_units(unit)
    if not now.count_base(max(microwatts(part.boot_w), len(units) * microwatts(part.idle_w)) - microwatts(part.off_w)):
        return REASONS[codes.REFUSED_POWER]
    now.tell(units, codes.UNIT_BOOTING)
    return ""


def _requeue(now: Round, action: Requeue) -> str:
    """Have a running job requeued: it holds what it holds until a snapshot shows it gone."""
    row = now.names.row(action.job)
    running = row >= 0 and now.kernel.held.option[row] >= 0 and row in now.snapshot.running.row
    if not running or action.job in now.under_way or action.job in now.requeued:
        return WRONG_STATE
    now.requeued.append(action.job)
    return ""


def microwatts(watts: float) -> int:
    """Return watts as the ledger counts them."""
    return round(watts * codes.MICRO)


def partition_of(kernel: state.KernelView, unit: int) -> int:
    """Return the partition of a unit."""
    return int(np.searchsorted(kernel.units.unit_start, unit, side="right")) - 1


ROUND = DriverAbilities(
    "the live controller",
    {
        StartJob: _start,
        SetFrequency: NO_AGENT,
        SetDomainCaps: NO_AGENT,
        StopNode: _stop,
        WakeNode: _wake,
        Requeue: _requeue,
    },
    ranked_placement=True,
    unit_factors=True,
)
"""What a live controller carries out where its site allows everything."""


def round_abilities(refused: dict[type, str]) -> DriverAbilities:
    """Return what a live controller carries out where its site refuses some actions, with reasons."""
    return replace(ROUND, actions={**ROUND.actions, **refused})
