"""What holds for the table of jobs after every round: columns agree with the cluster and the stored state, and a job
has moved along the arrows of ``TRANSITIONS`` alone."""

from __future__ import annotations

from functools import cache

from wattqueue.live.cluster import Job, JobKey
from wattqueue.live.planner import RoundState
from wattqueue.live.table import (
    ACTIVE_STAGES,
    OPEN_STAGES,
    PENDING,
    QUEUED_STAGES,
    TRANSITIONS,
    Owner,
    Stage,
)


@cache
def reachable(stage: Stage) -> frozenset[Stage]:
    """The stages in which a job may be found that was seen in this one: over any number of transitions."""
    found, new = {stage}, {stage}
    while new:
        new = set[Stage]().union(*(TRANSITIONS[one] for one in new)) - found
        found |= new
    return frozenset(found)


class TableCheck:
    """A stage at the end of each plan of one controller."""

    def __init__(self) -> None:
        self.last: dict[JobKey, tuple[Job, Stage]] = {}

    def __call__(self, now: RoundState) -> None:
        jobs = now.jobs
        assert {key: jobs.row[slot] for key, slot in jobs.slot.items()} == now.snapshot.by_key
        present = {key: (jobs.row[slot], Stage(jobs.stage[slot])) for key, slot in jobs.slot.items()}
        for key, (row, stage) in present.items():
            self.state(now, key, row, stage, Owner(jobs.owner[jobs.slot[key]]))
            if key in self.last:
                before, was = self.last[key]
                # a row that is the same has been moved by nobody but the controller, or by the clock: one arrow at most
                allowed = TRANSITIONS[was] | {was} if before is row else reachable(was)
                assert stage in allowed, f"{key.name} was {was.name}, is {stage.name}"
        self.last = present
        self.units(now)

    def state(self, now: RoundState, key: JobKey, row: Job, stage: Stage, owner: Owner) -> None:
        """Owner and stage agree with what the cluster shows and what is stored."""
        memory, control, said = now.planner.memory, now.planner.rules.mode == "control", f"{key.name}: {stage.name}"
        assert (stage in ACTIVE_STAGES) == row.active, said
        assert (stage in PENDING) == row.pending, said
        assert stage not in OPEN_STAGES or not row.held, said
        assert stage not in (Stage.UNDER_WAY, Stage.LATE) or key in memory.placed, said
        assert stage != Stage.STRAY or owner != Owner.OURS or key not in memory.placed, said
        assert stage != Stage.BACK_OFF or memory.refused[key].until_s > now.now_s, said
        assert (stage in (Stage.PARKED, Stage.RESUMING)) == (
            key in memory.parked and row.state in ("stopped", "running")
        ), said
        queued = stage in QUEUED_STAGES and owner == Owner.OURS
        assert now.jobs.is_queued(now.jobs.slot[key]) == queued, said
        if control and stage == Stage.HELD and owner == Owner.OURS:
            assert row.held, said
            assert row.watts >= 0, said

    def units(self, now: RoundState) -> None:
        """No unit is held twice, and running jobs stand before those that may start."""
        held = [unit for slot in now.holding for unit in now.jobs.units[slot]]
        assert sorted(held) == sorted(now.taken), "each unit once"
        active = [row.active for row in now.jobs.rows(now.holding)]
        assert active == sorted(active, reverse=True)
        assert sum(active) == now.holders
