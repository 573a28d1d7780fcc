"""Find jobs that cannot start, and say so: under no limit to come (rule 19), or on no nodes of the resource manager.

A job that can start under no limit to come holds no head of the queue and no reservation: it is left out of what the
policy decides about. It stays held in Slurm, and the status, ``live why``, the log and the metrics name it with the
reason. What each job needs is computed when the queue changes, by the simulator's kernel (``kernels/progress.py``);
each round compares it with the highest limit to come, so that a cap that rises, or nodes that are switched off, bring a
job back and nothing has to be stored.

A job that no nodes could serve is mostly refused by job_submit.lua at its submission. What that does not examine
(features, ``--tmp``, nodes that were changed since) is found at a start: the resource manager then holds the job
itself. It is tried again less and less often, in case nodes are added. After ``STUCK_AFTER`` times ``live why`` says
that it is impossible, and so does the job's comment where its owner wrote none: an operator of Slurm may change no
other text that users see. The job is held by the controller then, since Slurm releases a job that it holds itself at
any change of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.kernels.calls import least_of_jobs
from wattqueue.live.cluster import Job, JobKey, Snapshot
from wattqueue.live.goal import JobGoal
from wattqueue.live.job_tables import PendingJobs
from wattqueue.live.reports.why import impossible_text
from wattqueue.live.state.memory import STUCK_AFTER, ControllerState, Refused
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import Reason, reason_of
from wattqueue.policy.build import PassSettings, build_view
from wattqueue.policy.capabilities import Capabilities
from wattqueue.policy.sensors import LICENSED_SHARE

Needs = NDArray[np.int64]
"""Microwatts of each job (``least_of_jobs``): at least, without a margin, the margin, at least in a target. (n, 4)."""


@dataclass
class NeverStarting:
    """Finds the jobs of one policy that can start under no limit to come."""

    machine: Machine
    needs: Capabilities
    _of: tuple[PendingJobs, Needs] | None = None
    """What the jobs of a table need."""
    _left: tuple[PendingJobs, bytes, PendingJobs, Mapping[int, str]] | None = None
    """A table, the reasons of its jobs, what was left of it, and the rest: the same objects while both are the same."""

    def set_aside(
        self, pending: PendingJobs, predicted: PendingJobs, highest_w: float, base_uw: int, *,
        target_w: float = -np.inf,
    ) -> tuple[PendingJobs, Mapping[int, str]]:  # fmt: skip
        """Return the table without the jobs that never start, and these with the reasons, by slot.

        ``predicted``: the same jobs with what their estimator predicted, also where ``pending`` counts maxima since
        telemetry is lost. ``highest_w``: the highest limit to come, inf for none. ``base_uw``: idle watts in its scope.
        ``target_w``: the highest limit while a load target is in force that is known, -inf for none (``by_target``).
        """
        if not math.isfinite(highest_w):
            return pending, {}
        # a control may switch idle nodes off: then their watts are no reason that a job never starts
        room = codes.microwatts(highest_w) - (0 if self.needs.controls else base_uw)
        needs = self._needed(predicted)
        never = (needs[:, 0] > room) & (needs[:, 0] < codes.NO_CAP)  # without an entry there is nothing to compare
        if math.isfinite(target_w):
            never &= needs[:, 3] > room - codes.microwatts(highest_w) + codes.microwatts(target_w)
        if not never.any():
            return pending, {}
        reason = np.where(needs[:, 1] <= room, Reason.LEDGER, Reason.NEVER_FITS) * never
        last = self._left
        if last is None or last[0] is not pending or last[1] != reason.tobytes():
            why = {
                int(pending.slots[k]): reason_of(Reason(int(reason[k])), float(needs[k, 2]) / codes.MICRO)
                for k in np.flatnonzero(never).tolist()
            }
            last = self._left = (pending, reason.tobytes(), pending.take(~never), why)
        return last[2], last[3]

    def _needed(self, pending: PendingJobs) -> Needs:
        """Return what the jobs of a table need where nothing runs, that of the last time for the same table."""
        if self._of is None or self._of[0] is not pending:
            settings: PassSettings = self.needs.pass_settings(self.machine.cap_scope)
            view = build_view(
                pending.jobs, self.machine, pending.prediction, pending.entries, pending.window, settings,
                rank=pending.rank, planned_s=pending.planned_s,
            )  # fmt: skip
            # where controls stop nodes, idle watts of the job's own nodes alone (rule 19)
            least = np.array([*self.needs.least_margin(LICENSED_SHARE), -1.0 if self.needs.controls else 0.0])
            found = np.zeros((len(pending.jobs), 4), np.int64)
            least_of_jobs(view, least, np.arange(len(pending.jobs), dtype=np.int32), found)
            self._of = pending, found
        return self._of[1]


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
