"""Jobs that the resource manager itself holds at each start, since no nodes could serve them: owners get a message.

job_submit.lua refuses most of them at their submission. What it does not examine (features, ``--tmp``, nodes that were
changed since) is found at a start: the resource manager then holds the job itself. It is tried again less and less
often, in case nodes are added. After ``STUCK_AFTER`` times ``live why`` says that it is impossible, and so does the
job's comment where its owner wrote none: an operator of Slurm may change no other text that users see. The job is held
by the controller then, since Slurm releases a job that it holds itself at any change of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wattqueue.live.cluster import Job, JobKey, Snapshot
from wattqueue.live.goal import JobGoal
from wattqueue.live.reports.why import impossible_text
from wattqueue.live.state.memory import STUCK_AFTER, ControllerState, Refused

OURS = "wattqueue: impossible"
"""Begin of the message to an owner."""
BY_SLURM = "held by Slurm itself: "
"""Begin of the reason of a refusal, before what Slurm says. It is kept: the controller may hold the job since then."""


def why_held(row: Job) -> str:
    """Return the reason of the refusal of a job that was released and is held again."""
    return f"{BY_SLURM if row.held_by == 'manager' else 'held again: '}{row.reason}"


def is_impossible(row: Job, refused: Refused | None) -> bool:
    """Whether the resource manager held a job itself after each of so many starts."""
    if refused is None or refused.times < STUCK_AFTER or not refused.reason.startswith(BY_SLURM):
        return False
    return row.held_by in ("manager", "operator")  # neither released again, nor held since for another reason


@dataclass
class Owners:
    """Writes messages to the owners of impossible jobs, after each refusal once."""

    memory: ControllerState
    _sent: dict[JobKey, int] = field(default_factory=dict)
    """Number of refusals of which each owner got a message; a write that failed is tried again after the next one."""

    def goals(self, snapshot: Snapshot) -> list[JobGoal]:
        """Return the messages that owners of jobs in a snapshot are to get now."""
        refused, out = self.memory.refused, []
        self._sent = {key: times for key, times in self._sent.items() if key in refused}
        for key, one in refused.items():
            row, details = snapshot.by_key.get(key), snapshot.details.get(key)
            if row is None or not is_impossible(row, one) or self._sent.get(key) == one.times:
                continue
            self._sent[key] = one.times
            if details is not None and (not details.comment or details.comment.startswith(OURS)):
                reason = one.reason.removeprefix(BY_SLURM)
                text = f"wattqueue: {impossible_text(one.times, reason)}"
                out.append(JobGoal(key, held=True, comment=text, why=f"refused {one.times} times: {reason}"))
        return out
