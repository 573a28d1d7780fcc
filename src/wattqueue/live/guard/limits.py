"""How far the time limit of a job that holds nodes may be shortened: to what its user asked for, and the pauses.

Slurm's clock runs on while a job stands still or runs slowly, so a planner lengthens its limit, and takes back what was
not used. The guard remembers the limit before the first of it, and how long it had the job stand still. Of a job that
it knows nothing of, as after it was started again, no limit is shortened.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from wattqueue.live.cluster import LIMIT_STEP_S, ChangeJob, ContinueJob, Job, JobKey, StopJob, Write


@dataclass
class LeastLimits:
    """The shortest limits that jobs may be given."""

    _known: dict[JobKey, tuple[float, float | None]] = field(default_factory=dict)
    """The limit that the user asked for with all pauses that are over, and since when the job stands still."""

    def note(self, write: Write, row: Job | None, now_s: float) -> None:
        """Take over a write that was carried out for a job that was in this state."""
        if row is None or not row.active or not isinstance(write, StopJob | ContinueJob | ChangeJob):
            return
        least_s, since_s = self._known.get(row.key, (row.walltime_s, None))
        if isinstance(write, StopJob) and since_s is None:
            since_s = now_s
        elif isinstance(write, ContinueJob) and since_s is not None:
            least_s, since_s = least_s + now_s - since_s, None
        self._known[row.key] = least_s, since_s

    def least_s(self, row: Job, now_s: float) -> float:
        """Return the shortest limit of a job in seconds; limits are written in steps of ``LIMIT_STEP_S``."""
        if not row.active:
            return 0.0
        least_s, since_s = self._known.get(row.key, (row.walltime_s, None))
        return min(row.walltime_s, least_s - LIMIT_STEP_S + (0.0 if since_s is None else now_s - since_s))

    def keep(self, keys: Container[JobKey]) -> None:
        """Forget all other jobs."""
        self._known = {key: value for key, value in self._known.items() if key in keys}
