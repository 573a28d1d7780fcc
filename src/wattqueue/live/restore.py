"""Take back what a controller did for a load target, where none is at work: ``live release`` and ``live uninstall``.

Parked jobs get their watts and their time limit, and continue; drained nodes take jobs again, and are powered up.
Limits of nodes need nothing: an agent restores what it found when the controller's word expires (``wattqueue_agent``).

While a target is in force its jobs stay parked: a controller that is started again finds them so. They continue where
the target is over that they were parked for, or where their time limit is close: a job that nobody continues would be
ended by it.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattqueue.live.cluster import ContinueJob, SetDrain, Snapshot, Write
from wattqueue.live.goal import Goal, NodeGoal, plan_writes
from wattqueue.live.parking import GRACE_S, continued
from wattqueue.live.state.database import open_state
from wattqueue.live.state.memory import ControllerState

CLOSE_S = GRACE_S / 4.0
"""A parked job continues in any case when so little is left of its time limit."""
WHY = "no controller is at work"


@dataclass
class Restorer:
    """What the state of a controller says is parked and drained, and what takes it back."""

    memory: ControllerState

    def writes(self, snapshot: Snapshot, now_s: float, *, now: bool = False) -> list[Write]:
        """Return the writes that take back what is due; all of it with ``now``.

        What somebody else continued or drained since is left alone.
        """
        jobs = []
        for row in snapshot.jobs:
            known = self.memory.parked.get(row.key)
            if known is None or row.state != "stopped":
                continue
            close = row.start_s + row.walltime_s - now_s < CLOSE_S
            if now or close or known.until_s <= now_s:
                jobs.append(continued(row, known, now_s))
        nodes = [
            NodeGoal(name, True, WHY, drained=False)
            for name, until_s in self.memory.drained.items()
            if now or until_s <= now_s
        ]
        return plan_writes(snapshot, Goal(jobs=tuple(jobs), nodes=tuple(nodes)))

    def note(self, write: Write) -> None:
        """Forget what a write has taken back. A state that cannot be written keeps it: the next snapshot tells."""
        if isinstance(write, ContinueJob) and write.key is not None:
            self.memory.unpark([write.key])
        elif isinstance(write, SetDrain):
            self.memory.undrain([write.target])


def restorer_of(url: str) -> Restorer:
    """Open the state of a controller that is not at work; one of an earlier version is upgraded.

    Raises: InputError where there is none or where its version is newer, SQLAlchemyError where it fails.
    """
    return Restorer(ControllerState(open_state(url, make=False)))
