"""Predict the watts of an application on every socket from performance counters.

``ratios`` turns the recordings of perf and mpstat into a table of activity; ``predict`` trains on such a table of
kernels (with watts, on every socket) and predicts the applications of another one on all sockets. The models are in
``wattqueue_studies.pmc`` (paper 2, section 2). ``learn`` needs no counters: it takes the energy of jobs by unit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from wattqueue.verbs import Printed, verb_of

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Make each command one of its own."""


@app.command()
@verb_of(Printed)
def ratios(
    printed: Printed,
    *,
    counters: Annotated[Path, typer.Argument(metavar="COUNTERS", help="Output of perf stat -x, or a CSV of readings.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Table of activity to write (CSV).")],
    name: Annotated[str, typer.Option(help="Name of the application.")],
    socket: Annotated[int, typer.Option(min=0, max=2**24, help="Socket to take.")] = 0,
    socket_name: Annotated[str, typer.Option(help="Its name in the table.", show_default="its number")] = "",
    mpstat: Annotated[
        Path | None, typer.Option(help="Output of mpstat -P ALL 1: active cores. Not needed if COUNTERS has them.")
    ] = None,
    cpus: Annotated[str, typer.Option(help="CPUs of the socket, such as 0-15.", show_default="all")] = "",
    arch: Annotated[str, typer.Option(help="Micro-architecture: broadwell, skylake.")] = "broadwell",
    process: Annotated[
        int, typer.Option(min=0, max=2**31 - 1, help="Number of the process of a multi-node application.")
    ] = 0,
    bits: Annotated[int, typer.Option(min=8, max=63, help="Width of the counters of a CSV, at which they wrap.")] = 48,
) -> None:
    """Compute the activity ratios of Table 1 (events per cycle) from raw counters and active cores."""
    from wattqueue_studies.pmc.activity import SocketRun, activity_ratios, write_activity
    from wattqueue_studies.pmc.events import microarchitecture
    from wattqueue_studies.pmc.recording import read_recording

    events = microarchitecture(arch)
    found = read_recording(counters, socket, mpstat, cpus, bits)
    trace = activity_ratios(found.counters, found.active_cores, events, name, process)
    write_activity(out, [SocketRun(socket_name or str(socket), trace, found.watts_at(trace.time_s))])
    lines, scaled = [f"{len(trace.level)} intervals written to {out}"], found.counters.multiplexed
    if trace.dropped:
        lines.append(f"note: {trace.dropped} intervals without a usable count were left out")
    if scaled:
        lines.append(
            f"note: in {100 * scaled:.0f} % of the intervals perf scaled a count, since events shared a counter"
        )
    counts = {"intervals": len(trace.level), "left_out": trace.dropped, "scaled_share": float(scaled)}
    printed.show(lambda: counts, lambda: lines)


@app.command()
@verb_of(Printed)
def predict(
    printed: Printed,
    training: Annotated[Path, typer.Argument(metavar="TRAINING", help="Activity and watts of kernels on all sockets.")],
    apps: Annotated[Path, typer.Argument(metavar="APPS", help="Activity and watts of applications, on one socket.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Unit factors to write (CSV).")],
    model: Annotated[
        Literal["vt", "pr"], typer.Option(help="Variability-trained, or the power ratio of one benchmark.")
    ] = "vt",
    benchmark: Annotated[str, typer.Option(help="Kernel whose watts give the ratio of pr.")] = "cholesky",
    constant: Annotated[bool, typer.Option(help="Fit a constant too; eq. 1 has none.")] = False,
    every: Annotated[bool, typer.Option("--all-components", help="Do not choose components.")] = False,
    peaks: Annotated[bool, typer.Option("--peaks", help="Highest second of a run instead of the mean.")] = False,
) -> None:
    """Predict the watts of applications on every socket (eq. 2 or 3), as a table of unit factors.

    Components are chosen on the socket on which the applications were recorded, if their watts are there.
    """
    from wattqueue.formats.unit_factors import write_unit_factors
    from wattqueue_studies.pmc.activity import read_activity
    from wattqueue_studies.pmc.machine import predict_table

    found = predict_table(
        read_activity(training),
        read_activity(apps),
        ratio_of=benchmark if model == "pr" else None,
        constant=constant,
        optimise=not every,
        peaks=peaks,
    )
    write_unit_factors(out, found.table)
    apps_named, units = found.table.apps, found.table.units
    printed.show(
        lambda: {"applications": list(apps_named), "sockets": len(units)},
        lambda: [*found.lines(), f"{len(apps_named)} applications on {len(units)} sockets written to {out}"],
    )


@app.command()
@verb_of(Printed)
def learn(
    printed: Printed,
    energy: Annotated[Path, typer.Argument(metavar="ENERGY", help="CSV: job, app, unit, end_s, run_s, energy_j.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Unit factors to write (CSV).")],
    days: Annotated[
        float, typer.Option(min=0.01, max=36_525, help="Learn from so many first days; later ones show drifts.")
    ] = 7.0,
) -> None:
    """Learn unit factors from production alone: the energy of jobs by unit, without any benchmark.

    Prints noise, spread and the width of the 95 % intervals, and the units whose watts have changed since.
    """
    import numpy as np

    from wattqueue.formats.unit_factors import write_unit_factors
    from wattqueue_studies.pmc.unit_energy import read_unit_energy
    from wattqueue_studies.unit_telemetry import UnitTelemetry, find_drifts, learn_factors

    rows = read_unit_energy(energy)
    every = UnitTelemetry.of_jobs(rows.job, rows.app, rows.unit, rows.end_s, rows.watts)
    until_s = float(rows.end_s[0]) + 86_400.0 * days
    learned = learn_factors(every.between(-np.inf, until_s), len(rows.units))
    level_w = rows.watts / learned.factor[rows.unit]
    base_w = np.bincount(rows.app, level_w) / np.bincount(rows.app)
    write_unit_factors(out, learned.table(rows.apps, base_w, rows.units))
    never, width = int((learned.samples == 0).sum()), float(np.median(learned.high - learned.low)) / 2
    later = rows.end_s[-1] >= until_s
    drifts: list[dict[str, Any]] = [
        {"unit": rows.units[one.unit], "change": one.change, "day": (one.time_s - float(rows.end_s[0])) / 86_400.0}
        for one in (find_drifts(learned, every.between(until_s, np.inf)) if later else ())
    ]
    lines = [f"factors of {len(rows.units)} units, the same for {len(rows.apps)} applications, written to {out}"]
    if rows.left_out:
        lines.append(f"note: {rows.left_out} rows without energy were left out")
    if never:
        lines.append(f"note: {never} units ran no job in this time: factor 1")
    lines.append(f"spread {100 * learned.spread:.1f} %, median 95 % interval ±{100 * width:.1f} %")
    if later:
        lines += [f"drift: {one['unit']} {100 * one['change']:+.1f} %, found on day {one['day']:.1f}" for one in drifts]
        lines.append(f"{len(drifts)} units have changed since")
    printed.show(
        lambda: {
            "units": len(rows.units),
            "applications": len(rows.apps),
            "left_out": rows.left_out,
            "without_job": never,
            "spread": float(learned.spread),
            "interval": width,
            "drifts": drifts,
        },
        lambda: lines,
    )


@app.command()
@verb_of(Printed)
def traffic(
    printed: Printed,
    jobs: Annotated[Path, typer.Argument(metavar="TRAFFIC", help="Traffic of paper 2's simulator (CSV).")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Job table with generated power profiles (Parquet).")],
    factors: Annotated[
        Path | None, typer.Option(help="Also write the true unit factors of drawn sockets here (CSV).")
    ] = None,
    peaks: Annotated[
        bool, typer.Option("--peaks", help="Write factors of the highest 100 ms, not of the mean.")
    ] = False,
    sockets: Annotated[int, typer.Option(min=1, max=1_000_000, help="Sockets to draw; Quartz's part has 256.")] = 256,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the sockets.")] = 1,
) -> None:
    """Add generated watts with phases of 100 ms to the paper's jobs, and draw sockets that differ."""
    import numpy as np

    from wattqueue.formats.table.job_table import write_table
    from wattqueue.formats.unit_factors import write_unit_factors
    from wattqueue.formats.workloads.cwm import read_cwm
    from wattqueue_studies.variability.codes import applications, kernels
    from wattqueue_studies.variability.physics import draw_chips
    from wattqueue_studies.variability.traffic import unit_truth, with_watts

    read = read_cwm(jobs)
    table = with_watts(read.jobs)
    write_table(out, table)
    lines = [f"{len(table)} jobs with generated watts written to {out}"]
    for line, job, reason in read.unusable.rows():
        typer.echo(f"note: line {line}, job {job}: {reason}", err=True)
    if factors is not None:
        truth = unit_truth(draw_chips(np.random.default_rng(seed), sockets, (*kernels(), *applications())))
        write_unit_factors(factors, truth.peak if peaks else truth.mean)
        lines.append(f"true factors of {sockets} generated sockets written to {factors}")
    printed.show(lambda: {"jobs": len(table), "unusable": len(read.unusable), "origin": table.origin}, lambda: lines)
