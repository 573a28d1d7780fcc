"""Replay a workload on a machine under a policy and a power cap.

The flow is that of every verb that runs something: options become a ``runs.task.Task`` of plain values, ``load`` reads
and checks all inputs, ``perform`` simulates and computes the metrics, then the run's directory is written (atomically,
with the recipe that ``rerun`` needs) and the table printed. Nothing is written if any step before fails.

Imports of the simulator are inside the function, so that the help does not wait for them. Errors of inputs are
InputError, MachineError and PolicyError with file and hint; OutputError where the directory cannot be written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wattqueue.formats.duration import duration_s


def run(  # typer reads the annotations: names and defaults here are the options of the command line
    workload: Annotated[
        str, typer.Argument(help="A trace or job table (SWF, sacct, CSV, Parquet, ...), or marconi:days=7,load=0.9.")
    ],
    *,
    machine: Annotated[str | None, typer.Option(help="A machine of the catalogue, or a TOML file.")] = None,
    nodes: Annotated[int | None, typer.Option(help="A plain machine of so many nodes; default: the trace's.")] = None,
    node_watts: Annotated[str | None, typer.Option(help="Watts of a plain node, IDLE:MAX.")] = None,
    policy: Annotated[str, typer.Option(help="A row's name, my.toml:row, or my.py:MyPart.")] = "easy",
    estimator: Annotated[str | None, typer.Option(help="Replaces the policy's own: naive, oracle-mean, ...")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="AXIS=PART", help="Changes a choice: backfill=conservative.")
    ] = None,
    cap: Annotated[str | None, typer.Option(help="400kW, 70%, none, or a CSV of time_s,cap_w.")] = None,
    targets: Annotated[str | None, typer.Option(help="A CSV of load targets (start_s,end_s,limit,unit,...).")] = None,
    consent: Annotated[str | None, typer.Option(help="A TOML of consent defaults, for jobs that state none.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of generated workloads.")] = 0,
    default_walltime: Annotated[str | None, typer.Option(help="For jobs without one: 24h. [run time]")] = None,
    procs_per_node: Annotated[
        int, typer.Option(min=1, max=2**31 - 1, help="Processors of an SWF trace that make a node.")
    ] = 1,
    phases: Annotated[
        str | None, typer.Option(help="True watts follow power profiles in the run, sampled each: 20s.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Directory for jobs.csv, metrics.json and the rest.")] = None,
    report: Annotated[bool, typer.Option(help="With --out: write report.html too.")] = True,
) -> None:
    """Replay a workload on a machine under a policy and a power cap."""
    from wattqueue.policy.oracles import marked, oracles_of
    from wattqueue.policy.rows import composed
    from wattqueue.runs.perform import load, perform, refuse_if_none_fits
    from wattqueue.runs.task import Task

    task = Task(
        workload, machine, nodes, node_watts, composed(policy, settings or ()), estimator, cap, targets, consent, seed,
        duration_s(default_walltime, "--default-walltime"), procs_per_node,
        phases_s=duration_s(phases, "--phases"),
    )  # fmt: skip
    # All inputs are read before the progress bar begins, so that an error of a file is not drawn over.
    inputs = load(task)
    from wattqueue.cli._table import show
    from wattqueue.model.comparability import WorkDone
    from wattqueue.terminal import running, say_never_ran

    with running(len(inputs.jobs), "simulating") as progress:
        outcome = perform(inputs, progress)
    # A run in which every job was rejected has no waits to print: nearly always a wrong machine or cap.
    refuse_if_none_fits(outcome)
    if out is not None:
        from wattqueue.cli._write import write

        # Looked at before writing, since the file exists afterwards in either case.
        done = "overwrote" if (out / "run.toml").exists() else "wrote"
        write(out, outcome, report=report)
    heading = f"{inputs.policy.name}, cap {cap}" if cap else inputs.policy.name
    heading = marked(heading, oracles_of(inputs.policy))
    show(f"{Path(workload).name} on {inputs.machine.name}", [(heading, outcome.metrics)])
    remark(outcome.run.notes, inputs.jobs.origin, len(inputs.unusable))
    say_never_ran([("", WorkDone.of(outcome.run.jobs, outcome.run.schedule))])
    if out is not None:
        names = ", ".join(
            ("jobs.csv", "metrics.json", "power.parquet", "run.toml", *(("report.html",) if report else ()))
        )
        typer.echo(f"{done} {out}: {names}")


def remark(notes: dict[str, int], origin: str, unusable: int) -> None:
    """Print what a reader of the table should know: generated jobs, unusable rows, counts of the run's notes.

    ``notes`` maps a remark of the run to the number of jobs or events that it concerns; ``origin`` is that of the job
    table (``measured`` or ``generated``); ``unusable`` is the number of rows of the trace that were left out.
    """
    if origin == "generated":
        typer.echo("The workload is generated, not measured.")
    if unusable:
        typer.echo(f"{unusable:,} rows of the trace are unusable (unusable.csv lists them).")
    for what, count in notes.items():
        typer.echo(f"Note: {what}: {count:,}.")
