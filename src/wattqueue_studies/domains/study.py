"""The study: stranded watts by placement and racks a job, nodes a rack behind one breaker, a derated row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from wattqueue.model.domain_load import added_w, domain_loads
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.model.stranding import racks_a_job, stranded
from wattqueue.policy.policy import load_policy
from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Table
from wattqueue.report.figure import Drawn
from wattqueue.report.figures import domains
from wattqueue.report.run import About, RunData
from wattqueue.sim.engine import Run, simulate
from wattqueue_studies.domains.world import HOUR_S, Design, without_tree
from wattqueue_studies.frame.claim import ClaimTable
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples, Trial, TrialFigures, sweep

TOLD = published("wattqueue_studies.domains")
"""Design and what was expected (claims.toml)."""
CAP, LOWEST, BALANCED = "one cap", "lowest", "watt-balanced"
STRANDED, RACKS, WAIT, MAKESPAN = "stranded_percent", "racks", "wait_h", "makespan_h"
OVER, OVERSHOOT, ROW_OVER = "over_percent", "overshoot_percent", "row_over_h"
NODES, PER_MW, HALL = "hall_nodes", "work_per_mw", "hall"
ANNOUNCED = ", announced"
"""Ending of placements under a pass that looks ahead to limits."""


@dataclass(frozen=True, slots=True)
class DomainsStudy:
    """What a tree of power domains strands.

    Attributes:
        design: What is drawn and simulated.
        threads: Simulations at a time.
    """

    design: Design
    threads: int = 2

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Simulate everything."""
        design, seeds = self.design, range(1, self.design.seeds + 1)
        placements = placements_of(design)
        mixes = {mix: design.mixed(mix) for mix in design.mixes}
        sizes = {f"{nodes} nodes a rack": design.behind_breakers(nodes) for nodes in design.rack_nodes}
        first = next(iter(mixes.values()))
        rows = {"limits as stated": first, "a row derated": design.derate(first)}
        ahead: dict[str, dict[str, object]] = {f"{part}{ANNOUNCED}": {"part": part} for part in (LOWEST, BALANCED)}
        names = [LOWEST, BALANCED, *ahead]
        runs = [0, seeds[-1] * (len(mixes) * len(placements) + len(sizes) * 2 + len(rows) * len(names))]

        def told(done: int, _: int) -> None:
            if progress:
                progress(runs[0] + done, runs[1])

        def swept(machines: Mapping[str, Machine], names: list[str], error: float) -> Samples:
            def draw(machine: Machine, seed: int) -> Trial:
                return trial(machine, design.draw(seed, error=error), placements | ahead)

            found = sweep(draw, machines, names, seeds, threads=self.threads, progress=told)
            runs[0] += len(machines) * len(names) * len(seeds)
            return found

        levels = swept(mixes, list(placements), 0.0)
        breakers = swept(sizes, [LOWEST, BALANCED], design.error)
        derated = swept(rows, names, 0.0)
        halls = {f"limit {limit_w:g} W": design.gpu_hall(limit_w) for limit_w in design.gpu_limits_w}
        gpus = sweep(lambda hall, seed: hall_trial(design, hall, seed), halls, [HALL], seeds, threads=self.threads)
        return report(design, Tables(levels, breakers, derated, gpus), maps(design))


def placements_of(design: Design) -> dict[str, dict[str, object]]:
    """Return the placements by name; that of one cap is ``lowest`` on a machine without a tree."""
    found: dict[str, dict[str, object]] = {CAP: {"part": LOWEST}}
    for part in (LOWEST, BALANCED):
        found[part] = {"part": part}
        found |= {f"{part}, {racks} racks": {"part": part, "racks": racks} for racks in design.bounds}
    return found


def trial(machine: Machine, jobs: Jobs, placements: Mapping[str, dict[str, object]]) -> Trial:
    """Return what simulates some jobs under a placement."""

    def simulated(name: str) -> TrialFigures:
        told = name.endswith(ANNOUNCED)
        run = simulated_run(without_tree(machine) if name == CAP else machine, jobs, placements[name], announced=told)
        run = replace(run, machine=machine)  # what one cap strands, or trips, in these racks
        wait = (run.schedule.start_s - run.jobs.submit_s)[run.schedule.ran]
        tree = name != CAP
        share = stranded(run.jobs, run.schedule, machine, run.cap).figures()["stranded_waiting_share"] if tree else 0.0
        over, overshoot = excess(run)
        return TrialFigures.of(run, {
            STRANDED: 100.0 * (share or 0.0), RACKS: racks_a_job(run.schedule, machine) or 0.0,
            WAIT: float(wait.mean()) / HOUR_S, MAKESPAN: float(run.schedule.end_s[run.schedule.ran].max()) / HOUR_S,
            OVER: 100.0 * over, OVERSHOOT: 100.0 * overshoot, ROW_OVER: row_over_s(run) / HOUR_S,
        })  # fmt: skip

    return simulated


def simulated_run(machine: Machine, jobs: Jobs, placement: Mapping[str, object], *, announced: bool = False) -> Run:
    """Return a run under EASY with known run times, each job counted at its ``max_power_w``.

    ``announced``: the pass looks ahead to lower limits.
    """
    backfill = {"part": "easy", "ahead": "limits"} if announced else "easy"
    row = load_policy(
        "easy", estimator="oracle-max", runtime="true-runtime", placement=dict(placement), backfill=backfill
    )
    return simulate(jobs, machine, row)


def excess(run: Run) -> tuple[float, float]:
    """Return the share of rack-seconds above a rack's limit, and the greatest excess of its limit, by true watts."""
    machine, schedule = run.machine, run.schedule
    begin, end = 0.0, float(schedule.end_s[schedule.ran].max())
    net = net_w(run)
    racks = [domain.name.startswith("rack") for domain in machine.supply_tree.domains]
    limits = [domain.least_limit_w for domain in machine.supply_tree.domains]
    over, most = 0.0, 0.0
    loads = domain_loads(machine, schedule, np.where(racks, limits, np.inf))
    for load in loads:
        watts, length = load.input_w(begin, (schedule.start_s, schedule.end_s), net).within(begin, end)
        above = watts - load.limit_w > 1e-6
        over += float(length[above].sum())
        most = max(most, float(watts.max()) / load.limit_w - 1.0)
    return over / ((end - begin) * sum(racks)), max(most, 0.0)


def row_over_s(run: Run) -> float:
    """Return for how long the first row is above its limit, by the watts that jobs truly draw."""
    machine, schedule = run.machine, run.schedule
    names = [domain.name for domain in machine.supply_tree.domains]
    row = machine.supply_tree.domains[names.index("row01")]
    (load,) = domain_loads(machine, schedule, np.where(np.array(names) == "row01", row.least_limit_w, np.inf))
    input_w = load.input_w(0.0, (schedule.start_s, schedule.end_s), net_w(run))
    end = float(schedule.end_s[schedule.ran].max())
    times, limits = (row.limit_s, row.limits_w) if row.limit_s else ((0.0,), (row.least_limit_w,))
    over = 0.0
    for begin, until, limit in zip(times, (*times[1:], end), limits, strict=True):
        watts, length = input_w.within(begin, max(min(until, end), begin))
        over += float(length[watts - limit > 1e-6].sum())
    return over


def net_w(run: Run) -> Floats:
    """Return the watts above idle that a unit of each job truly drew. Shape (n,)."""
    schedule = run.schedule
    unit_w = schedule.energy_j / (run.jobs.nodes * (schedule.end_s - schedule.start_s))
    return np.where(schedule.ran, added_w(run.machine, schedule, np.nan_to_num(unit_w)), 0.0)


def maps(design: Design) -> list[Drawn]:
    """Return the map of racks by time of the first seed's jobs, by the lowest units and with levelled watts."""
    machine, jobs = design.mixed(next(iter(design.mixes))), design.draw(1)
    found: list[Drawn] = []
    for name in (LOWEST, BALANCED):
        run = simulated_run(machine, jobs, {"part": name})
        data = RunData.of(run.jobs, run.schedule, run.power, machine, run.cap, metrics={}, about=About())
        figure = domains.figure(data)
        if figure is not None:
            found.append((replace(figure, key=f"domains-{name}", title=f"Power domains, {name}"), "domains"))
    return found


def hall_trial(design: Design, hall: Machine, seed: int) -> Trial:
    """Return what simulates jobs on nodes of GPUs under the hall's limit, each counted at its promised maximum."""
    jobs, mw = design.draw_for_gpus(seed), design.hall["mw"]

    def simulated(_: str) -> TrialFigures:
        limited = hall.partitions[0].frequency_count > 1
        row = load_policy("easy", estimator="maximum", frequency="frequency-window" if limited else "highest")
        run = simulate(jobs, hall, row, cap=Cap.constant(mw * 1e6))
        end = float(run.schedule.end_s[run.schedule.ran].max())
        work = float((jobs.nodes * jobs.runtime_s)[run.schedule.ran].sum())
        wait = (run.schedule.start_s - jobs.submit_s)[run.schedule.ran]
        most = float(run.power.scope_w(hall.cap_scope).max())
        return TrialFigures.of(run, {
            NODES: float(hall.units), PER_MW: work / end / mw, WAIT: float(wait.mean()) / HOUR_S,
            MAKESPAN: end / HOUR_S, OVERSHOOT: 100.0 * max(most / (mw * 1e6) - 1.0, 0.0),
        })  # fmt: skip

    return simulated


class Tables(NamedTuple):
    """What was simulated, a table each."""

    levels: Samples
    breakers: Samples
    derated: Samples
    gpus: Samples


def report(design: Design, tables: Tables, drawn: list[Drawn]) -> StudyReport:
    """Return tables, claims and figures."""
    levels, breakers, derated, gpus = tables
    claims = ClaimTable([*TOLD.judge(levels).rows, *TOLD.judge(derated).rows], TOLD.draws)
    nodes = design.racks * design.nodes
    parts = [
        table(levels, (STRANDED, RACKS, WAIT, MAKESPAN), "Stranded watts against racks a job"),
        table(breakers, (OVER, OVERSHOOT, STRANDED, WAIT, MAKESPAN),
              f"Nodes behind breakers of {design.breaker_nodes} nodes at their maximum"),
        table(derated, (ROW_OVER, STRANDED, WAIT, MAKESPAN), "A row derated for 8 h, announced and not"),
        table(gpus, (NODES, PER_MW, WAIT, MAKESPAN, OVERSHOOT),
              f"Nodes of GPUs in a hall of {design.hall['mw']:g} MW, by the limit at which they all fit"),
    ]  # fmt: skip
    return TOLD.report(
        claims,
        about=f"{design.jobs:,} generated jobs on {nodes:,} nodes in {design.racks} racks and {design.rows} rows, "
        f"{design.seeds} seeds.",
        lede=f"A tree strands watts, and a placement that levels them gets most back. {claims.summary}.",
        parts=parts,
        figures={"levels": levels.rows(), "breakers": breakers.rows(), "derated": derated.rows(), "gpus": gpus.rows()},
        simulated=tables,
        drawn=drawn,
    )


def table(samples: Samples, metrics: tuple[str, ...], title: str) -> Table:
    """Return figures of each setting and policy with their intervals."""
    cell: Callable[[str, str, str], str] = lambda setting, policy, metric: with_interval(  # noqa: E731
        estimate(samples.of(setting, policy, metric)), "", 2
    )
    rows = [
        (f"{setting}: {policy}", *(cell(setting, policy, metric) for metric in metrics))
        for setting in samples.settings
        for policy in samples.policies
    ]
    return Table(("machine: placement", *(TOLD.labels[metric] for metric in metrics)), rows, title)
