"""The study of paper 2, section 4.2: a recorded schedule is replayed with recordings of every application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.machine.file import load_machine
from wattqueue.formats.workloads.cwm import read_cwm
from wattqueue.model.comparability import WorkDone, change_percent, gate
from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import energies, span
from wattqueue.model.recorded_schedule import RecordedSchedule
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.policy import load_policy
from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Table
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.replay import replay, replay_workload
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples, Trial, TrialFigures, sweep
from wattqueue_studies.variability.codes import SAMPLE_S, applications
from wattqueue_studies.variability.physics import TEMPERATURE_C, Chips, draw_chips, true_watts
from wattqueue_studies.variability.recording import recorded_watts

NODES, JOBS, BURST, PERIOD_S = 8, 100, 10, 60.0
"""Nodes of two sockets, jobs, jobs submitted at once, and seconds between two submissions."""
PLACES, STARTS, OWN = "places fixed", "starts fixed", "own record"
"""Replays: with recordings and places fixed, starts fixed as well, and with the run's own record."""
REPLAYS = (PLACES, STARTS, OWN)
SETTING = "16 sockets"


@lru_cache(1)
def machine() -> Machine:
    """Return eight nodes of quartz."""
    whole = load_machine("quartz")
    return replace(whole, name="quartz, 8 nodes", partitions=(replace(whole.partitions[0], nodes=NODES),))


def estimates_of(folder: Path) -> Mapping[str, float]:
    """Return the paper's estimate of each application of PARSECSs in seconds, from its bursty traffic.

    Raises: InputError for a missing file, or an application that the traffic lacks.
    """
    file = folder / "traffic_bursty.csv"
    jobs = read_cwm(file).jobs
    single = [name for name, code in applications().items() if code.processes == 1]
    found = {name: jobs.runtime_s[jobs.app.values() == name] for name in single}
    lacking = [name for name, runs in found.items() if not len(runs)]
    if lacking:
        raise InputError(f"no job of {lacking[0]}", where=file, hint="use the traffic of paper 2")
    return {name: float(np.median(runs)) for name, runs in found.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """The experiment on any draw of sockets.

    Attributes:
        estimates_s: Run time of each application at reference speed.
    """

    estimates_s: Mapping[str, float]

    def draw(self, seed: int) -> Trial:
        """Run the experiment of a seed; return its replays."""
        rng = np.random.default_rng([seed, 42])
        jobs = self.jobs(rng)
        chips = draw_chips(rng, machine().units, tuple(applications()))
        real = simulate(jobs, machine(), load_policy("easy"), actual=self.truth(jobs, chips))
        again = replace(chips, temperature_c=rng.uniform(*TEMPERATURE_C, len(chips)))
        known = self.recorded(rng, jobs, again)
        record = RecordedSchedule(jobs, machine(), real.schedule, real.cap)
        runs = {
            PLACES: lambda: replay_workload(record, jobs, actual=known),
            STARTS: lambda: replay_workload(record, jobs, actual=known, starts="recorded"),
            OWN: lambda: replay(record, starts="recorded"),
        }
        return lambda name: compared(runs[name](), real)

    def jobs(self, rng: np.random.Generator) -> Jobs:
        """Return the jobs: applications drawn with equal chances, ten each minute."""
        apps = rng.choice(sorted(self.estimates_s), JOBS)
        run_s = np.array([self.estimates_s[app] for app in apps])
        submit = PERIOD_S * (np.arange(JOBS) // BURST)
        return replace(Jobs.build(submit, np.ones(JOBS), run_s, app=Labels.of(apps)), origin="generated")

    def truth(self, jobs: Jobs, chips: Chips) -> Prediction:
        """Return what each application truly draws and takes on each socket."""
        found = [true_watts(applications()[app], chips) for app in jobs.app.names]
        return by_socket(jobs, np.stack([w.mean_w[0] for w in found]), np.stack([w.time_factor[0] for w in found]))

    def recorded(self, rng: np.random.Generator, jobs: Jobs, chips: Chips) -> Prediction:
        """Return the same as a recording of each application on each socket shows it."""
        watts = [recorded_watts(rng, applications()[app], chips).mean(axis=0) for app in jobs.app.names]
        alone = np.array([self.estimates_s[app] for app in jobs.app.names])[:, np.newaxis]
        run_s = alone * np.stack([true_watts(applications()[app], chips).time_factor[0] for app in jobs.app.names])
        sampled = np.ceil(np.round(run_s / SAMPLE_S, 6)) * SAMPLE_S
        return by_socket(jobs, np.stack(watts), sampled / alone)


def by_socket(jobs: Jobs, watts: Floats, time: Floats) -> Prediction:
    """Return watts and time factors by application and socket as what is true. Shapes (apps, sockets)."""
    mean = watts.mean(axis=1, keepdims=True)
    return Prediction(mean, np.ones_like(mean), jobs.app.codes, unit_factor=watts / mean, unit_time_factor=time)


def compared(again: Run, real: Run) -> TrialFigures:
    """Return figures of a replay, and their changes over the run in per cent; NaN where they did different work."""
    mine, theirs = totals(again), totals(real)
    did, did_again = (WorkDone.of(run.jobs, run.schedule) for run in (real, again))
    through = gate(did, did_again)
    found = {name: change_percent(name, theirs[name], mine[name], through) for name in mine}
    changes = {f"{name}_change_percent": np.nan if value is None else value for name, value in found.items()}
    moved = np.abs(again.schedule.start_s - real.schedule.start_s)
    return TrialFigures.of(again, {**mine, **changes, "moved_s": float(np.nanmax(moved, initial=0.0))})


def totals(run: Run) -> dict[str, float]:
    """Return execution time, energy of the jobs and their mean power over the run."""
    begin, end = span(run.jobs, run.schedule)
    joules = energies(run.power, run.machine, begin, end)["jobs_j"]
    return {"time": end - begin, "energy": joules, "power": joules / (end - begin)}


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
