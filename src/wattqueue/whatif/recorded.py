"""Compare the waits that the trace records with those of the replay without a cap.

A replay knows nodes, walltimes and queue order. It does not know shared nodes, reservations, priorities, dependencies,
downtime or nodes that are held back. Where the trace has start times, the waits that users really had show what that
ignorance costs: if both differ by more than ``WARN_FACTOR``, the replay's waits say little about this machine, and only
the comparison of caps with one another is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattqueue.model.jobs import Floats, Jobs

WARN_FACTOR = 2.0
"""Ratio of the mean waits, in either direction, beyond which the reader is warned."""
NEGLIGIBLE_S = 60.0
"""Added to both means before they are divided: 2 s against 10 s is no disagreement."""
SHORT_RUN_S = 10.0
"""Run times below this count as this much in the bounded slowdown (docs/semantics.md, metrics)."""


@dataclass(frozen=True, slots=True)
class RecordedWaits:
    """Waits in the trace and in the replay without a cap, over the jobs that have both.

    Attributes:
        jobs: Number of these jobs.
        wait_s_mean: Mean recorded wait.
        wait_s_p95: 95th percentile of the recorded wait.
        bounded_slowdown_mean: Mean bounded slowdown with the recorded waits.
        replay_wait_s_mean: Mean wait of the same jobs in the replay.
        replay_wait_s_p95: 95th percentile of their wait in the replay.
    """

    jobs: int
    wait_s_mean: float
    wait_s_p95: float
    bounded_slowdown_mean: float
    replay_wait_s_mean: float
    replay_wait_s_p95: float

    @property
    def factor(self) -> float:
        """Return by what factor the mean waits differ, at least 1."""
        pair = self.wait_s_mean + NEGLIGIBLE_S, self.replay_wait_s_mean + NEGLIGIBLE_S
        return max(pair) / min(pair)

    @property
    def disagree(self) -> bool:
        """Return whether the means differ by more than ``WARN_FACTOR``."""
        return self.factor > WARN_FACTOR


def recorded_waits(jobs: Jobs, replay_start_s: Floats) -> RecordedWaits | None:
    """Return recorded and replayed waits; None where the trace has no start times, or no such job ran.

    Jobs whose recorded start lies before their submission (wrong clocks, edited records) are left out.
    ``replay_start_s`` are the starts of the replay without a cap, NaN where a job never ran. Shape (n,).
    """
    if jobs.start_s is None:
        return None
    wait = jobs.start_s - jobs.submit_s
    good = np.isfinite(wait) & (wait >= 0) & np.isfinite(replay_start_s)
    if not good.any():
        return None
    recorded, replayed = wait[good], (replay_start_s - jobs.submit_s)[good]
    run = jobs.runtime_s[good]
    slowdown = np.maximum(1.0, (recorded + run) / np.maximum(run, SHORT_RUN_S))
    return RecordedWaits(
        int(good.sum()),
        float(recorded.mean()),
        float(np.quantile(recorded, 0.95)),
        float(slowdown.mean()),
        float(replayed.mean()),
        float(np.quantile(replayed, 0.95)),
    )
