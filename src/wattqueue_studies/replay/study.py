"""The study of paper 2, section 4.2: a recorded schedule is replayed with recordings of every application."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Table
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples, sweep
from wattqueue_studies.replay.trial import JOBS, REPLAYS, SETTING, Experiment, estimates_of, machine

TOLD = published("wattqueue_studies.replay")
"""What the paper prints (claims.toml)."""
SHOWN = {
    "time_change_percent": ("time\n(%)", 3),
    "energy_change_percent": ("energy\n(%)", 3),
    "power_change_percent": ("power\n(%)", 3),
    "moved_s": ("start moved\n(s, most)", 2),
}
"""Metrics of the table with their heads and digits."""


@dataclass(frozen=True, slots=True)
class ReplayStudy:
    """The study of paper 2, section 4.2.

    Attributes:
        folder: Has the bursty traffic, traffic_bursty.csv, for the estimates.
        seeds: Draws of sockets and jobs.
        threads: Experiments at a time.
    """

    folder: Path
    seeds: int = 30
    threads: int = 2

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Run every experiment and its replays, and compare with the paper.

        Raises: InputError for no seed, and a traffic that cannot be used.
        """
        case = {SETTING: Experiment(estimates_of(self.folder))}
        seeds = range(self.seeds)
        return self.report(sweep(Experiment.draw, case, REPLAYS, seeds, threads=self.threads, progress=progress))

    def report(self, samples: Samples) -> StudyReport:
        """Return table and claims."""
        claims = TOLD.judge(samples)
        figures: dict[str, Any] = {
            "generated": True,
            "seeds": self.seeds,
            "sockets": machine().units,
            "jobs": JOBS,
            "results": samples.rows("replay"),
        }
        return TOLD.report(
            claims,
            about=(
                f"{self.seeds} runs of {JOBS} generated jobs on {machine().units} generated sockets, each replayed "
                f"{len(REPLAYS)} times."
            ),
            lede=f"Schedules of **generated** sockets, replayed. {claims.summary}.",
            parts=[changes(samples)],
            simulated=[samples],
            figures=figures,
        )


def changes(samples: Samples) -> Table:
    """Return the changes of each replay over its run, with intervals over the draws."""

    def shown(metric: str, digits: int) -> Any:
        return lambda name: with_interval(estimate(samples.of(SETTING, name, metric)), digits=digits)

    columns = [(head, shown(metric, digits)) for metric, (head, digits) in SHOWN.items()]
    return Table.of(REPLAYS, columns, "Replays over the run", head="replay")
