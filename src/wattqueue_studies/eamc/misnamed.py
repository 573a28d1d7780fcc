"""Misnamed jobs (paper 1, sections 3.2 and 3.4): what they cost, and what a measurement of running jobs finds.

A share of the jobs claims another application than the one it runs, drawn evenly among the others. EAMC chooses
partition and frequency by the claim; what jobs draw and take is that of the real application. The control
``app-check`` measures each job once and corrects its frequency, while the partition stays.

Three runs of each workload: all jobs named rightly, which is the least that the policy can reach; misnamed; and
misnamed with the check. All figures of jobs are those of a simulated measurement (``counters``), whose noise is
stated there.

``SimulatedCounters`` are what hardware counters would show: the metrics of the application that a job really runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.ear.files import EarTables
from wattqueue.model.ear import Coefficients, Signatures, at_frequency
from wattqueue.model.jobs import Ints, Jobs, Labels
from wattqueue.parts.controls.app_check import AppCheck
from wattqueue.policy.policy import load_policy
from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Table
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.physics import true_figures
from wattqueue_studies.eamc.cirne import CirneModel
from wattqueue_studies.eamc.tables import RESPONSE_AND_ENERGY
from wattqueue_studies.eamc.workloads import System, workload
from wattqueue_studies.frame.compare import ComparisonTable, compare
from wattqueue_studies.frame.samples import Samples, Trial, TrialFigures, sweep

if TYPE_CHECKING:
    from wattqueue.policy.view import View


@dataclass(frozen=True, slots=True)
class CounterNoise:
    """Coefficients of variation of what one node shows about a job; a job's figure is the mean over its nodes.

    Raises: InputError for a negative figure.
    """

    power: float = 0.034
    """Watts. Default: equal nodes under an equal load, 64 nodes of Emmy, published with ClusterCockpit."""
    cpi: float = 0.02
    """Cycles per instruction. The default is assumed."""
    tpi: float = 0.02
    """Memory transactions per instruction. The default is assumed."""

    def __post_init__(self) -> None:
        if not min(self.power, self.cpi, self.tpi) >= 0:
            raise InputError(f"must be 0 or more: {self}", where="noise of counters")


class SimulatedCounters:
    """Measure a running job, for ``AppCheck(measure=...)``.

    The noise of each job is drawn once, by its row: a measurement does not depend on when or how often it is taken.

    Args:
        real: Application that each job runs, as a row of the tables in ``metrics``. Shape (n,).
        nodes: Nodes of each job: independent nodes disturb a mean less. Shape (n,).
        metrics: Metrics of the applications at the nominal frequency, by partition.
        coefficients: EAR's coefficients, by partition.
        noise: What disturbs a measurement.
        rng: Source of the noise.

    Reference: paper 1, equations 1 to 3 and section 3.4.
    """

    def __init__(
        self,
        real: Ints,
        nodes: Ints,
        metrics: Mapping[str, Signatures],
        coefficients: Mapping[str, Coefficients],
        noise: CounterNoise,
        rng: np.random.Generator,
    ) -> None:
        self.real, self.metrics, self.coefficients = real, metrics, coefficients
        spread = np.array([noise.power, noise.cpi, noise.tpi])
        normal = rng.standard_normal((len(real), 3))
        # Watts, cycles and transactions are never negative, however wide the noise.
        self.factor = np.maximum(1.0 + normal * spread / np.sqrt(np.asarray(nodes, float))[:, np.newaxis], 0.01)

    def __call__(self, view: View, job: int) -> Signatures | None:
        """Return the metrics of one running job at its frequency; None in a partition without metrics."""
        option = view.job_option(job)
        p = int(view.machine.option_partition[option])
        name = view.machine.partitions[p].name
        if name not in self.metrics or name not in self.coefficients:
            return None
        row, table = self.real[job], self.coefficients[name]
        one = self.metrics[name].take(np.array([row]))
        seen = at_frequency(table, one, table.nominal_hz, float(view.machine.option_frequency_hz[option]))
        power, cpi, tpi = self.factor[job]
        return Signatures(seen.time_s, seen.power_w * power, seen.cpi * cpi, seen.tpi * tpi)


POLICY = "eamc-priority-inc-v"
SHARE_PERCENT = 5.0
"""Jobs that claim another application, in per cent."""
NAMED, MISNAMED, CHECKED = "named rightly", "misnamed", "misnamed, checked"
RUNS = (NAMED, MISNAMED, CHECKED)
METRICS = {
    **RESPONSE_AND_ENERGY,
    "misnamed_energy_j": "energy of misnamed",
    "misnamed_runtime_s": "run time of misnamed",
}
"""Compared metrics with their headings."""
JUDGED = tuple(RESPONSE_AND_ENERGY)
FOUND = {
    "found_percent": "misnamed jobs that were found, %",
    "identified_percent": "of these, real application named, %",
    "false_alarm_percent": "rightly named jobs that were reported, %",
    "too_short_percent": "misnamed jobs that ended before their measurement, %",
}
"""What the check found, with the rows' names."""
NOISES = {"usual noise": CounterNoise(), "noise of 10 %": CounterNoise(0.1, 0.1, 0.1)}
"""What disturbs the counters of a node."""


@dataclass(frozen=True, slots=True)
class Misnamed:
    """One workload whose jobs misname their applications."""

    system: System
    tables: EarTables
    noise: CounterNoise = field(default_factory=CounterNoise)
    model: CirneModel | None = None
    """Parameters of the workloads, instead of those of the study."""
    percent: float = SHARE_PERCENT

    def draw(self, seed: int) -> Trial:
        """Generate the workload of one seed, and which of its jobs are misnamed."""
        jobs = workload(13, seed, self.model)
        rng = np.random.default_rng((seed, 34))  # apart from the workload's numbers
        claimed, wrong = misname(jobs, self.percent, rng)
        actual = true_figures(
            self.system.physics, jobs, self.system.machine
        ).actual  # of what they are, not what they claim
        rows = np.array([self.tables.apps.index(app) for app in jobs.app.names], np.int32)[jobs.app.codes]
        counters = SimulatedCounters(
            rows, jobs.nodes, self.tables.metrics, self.tables.coefficients, self.noise, rng
        )  # fmt: skip

        def trial(name: str) -> TrialFigures:
            seen: dict[str, str] = {}
            controls = [self.check(counters, seen)] if name == CHECKED else []
            policy = load_policy(POLICY, estimator=self.system.estimator, controls=controls)
            run = simulate(
                jobs if name == NAMED else claimed, self.system.machine, policy, actual=actual
            )  # fmt: skip
            found = figures(run, wrong)
            if name == CHECKED:
                found |= verdicts(run, jobs.app.values(), wrong, seen)
            return TrialFigures.of(run, found)

        return trial

    def check(self, counters: SimulatedCounters, seen: dict[str, str]) -> AppCheck:
        """Return the control, which notes the found application (or an empty text) of each reported job in ``seen``."""

        def report(job: str, _user: str, _claim: str, found: str, _distance: float, _time_s: float) -> None:
            seen[job] = found

        return AppCheck(
            apps=self.tables.apps,
            applications=self.tables.metrics,
            coefficients=self.tables.coefficients,
            measure=counters,
            report=report,
        )


def misname(jobs: Jobs, percent: float, rng: np.random.Generator) -> tuple[Jobs, NDArray[np.bool_]]:
    """Return the jobs as users name them, and which are misnamed: each with that probability. Shape (n,)."""
    names = len(jobs.app.names)
    wrong = rng.random(len(jobs)) < percent / 100.0
    away = rng.integers(1, names, len(jobs))
    codes: Ints = np.where(wrong, (jobs.app.codes + away) % names, jobs.app.codes).astype(jobs.app.codes.dtype)
    return replace(jobs, app=Labels(codes, jobs.app.names)), wrong


def figures(run: Run, wrong: NDArray[np.bool_]) -> dict[str, float]:
    """Return energies, response and run times of one run."""
    schedule = run.schedule
    return {
        "job_energy_j": float(schedule.energy_j.sum()),
        "misnamed_energy_j": float(schedule.energy_j[wrong].sum()),
        "turnaround_s_mean": float((schedule.end_s - run.jobs.submit_s).mean()),
        "misnamed_runtime_s": float((schedule.end_s - schedule.start_s)[wrong].sum()),
    }


def verdicts(run: Run, real: NDArray[np.str_], wrong: NDArray[np.bool_], seen: dict[str, str]) -> dict[str, float]:
    """Return what the check found of misnamed and of other jobs, in per cent."""
    names = [str(job) for job in run.jobs.job_id]
    reported = np.array([name in seen for name in names])
    identified = np.array([seen.get(name) == app for name, app in zip(names, real, strict=True)])
    short = run.schedule.end_s - run.schedule.start_s < AppCheck().warm_up_s
    return {
        "found_percent": _percent(reported[wrong]),
        "identified_percent": _percent(identified[wrong & reported]),
        "false_alarm_percent": _percent(reported[~wrong]),
        "too_short_percent": _percent(short[wrong]),
    }


@dataclass(frozen=True, slots=True)
class MisnamedResult:
    """What misnamed jobs cost and the check saves, and what the check found."""

    comparisons: ComparisonTable
    found: Table
    samples: Samples

    def document(self) -> dict[str, Any]:
        """Return the comparisons and every figure draw by draw, for JSON."""
        return {"comparisons": self.comparisons.document(), "samples": self.samples.rows("run")}


def misnamed(
    system: System, tables: EarTables, seeds: Sequence[int], *, threads: int = 2, model: CirneModel | None = None
) -> MisnamedResult:
    """Simulate and compare the three runs of each seed's workload.

    Raises: InputError for no seed.
    """
    cases = {name: Misnamed(system, tables, noise, model) for name, noise in NOISES.items()}
    samples = sweep(Misnamed.draw, cases, RUNS, seeds, threads=threads)
    pairs = [(MISNAMED, NAMED), (CHECKED, NAMED), (CHECKED, MISNAMED)]
    title = f"Misnamed jobs ({SHARE_PERCENT:g} %), {POLICY}, per cent of change"
    compared = ComparisonTable.of(compare(samples, pairs, METRICS), METRICS, JUDGED, title)
    return MisnamedResult(compared, found_table(samples), samples)


def found_table(samples: Samples) -> Table:
    """Return what the check found, the mean over draws with its 95 % interval."""
    rows = []
    for metric, name in FOUND.items():
        each = (samples.of(setting, CHECKED, metric) for setting in samples.settings)
        rows.append([name, *(with_interval(estimate(values[np.isfinite(values)]), "") for values in each)])
    note = "Each job is measured once, a minute after its start; the measurement is simulated."
    return Table(("app-check", *samples.settings), rows, "Misnamed jobs: what app-check finds", note)


def _percent(hits: NDArray[np.bool_]) -> float:
    """Return a share in per cent, NaN of nothing."""
    return 100.0 * float(hits.mean()) if len(hits) else float("nan")
