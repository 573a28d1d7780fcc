"""Replay a workload on a machine under a policy and a power cap."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wattqueue.formats.duration import duration_s


def run(
    workload: Annotated[
        str, typer.Argument(help="A trace or job table (SWF, sacct, CSV, Parquet, ...), or marconi:days=7,load=0.9.")
    ],
    *,
    machine: Annotated[str | None, typer.Option(help="A machine of the catalogue, or a TOML file.")] = None,
    nodes: Annotated[int | None, typer.Option(help="A plain machine of so many nodes instead.")] = None,
    node_watts: Annotated[str | None, typer.Option(help="Watts of a plain node, IDLE:MAX.")] = None,
    policy: Annotated[str, typer.Option(help="A row's name, my.toml:row, or my.py:MyPart.")] = "easy",
    estimator: Annotated[str | None, typer.Option(help="Instead of the policy's own: naive, oracle-mean, ...")] = None,
    cap: Annotated[str | None, typer.Option(help="400kW, 70%, none, or a CSV of time_s,cap_w.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of generated workloads.")] = 0,
    default_walltime: Annotated[str | None, typer.Option(help="For jobs without one: 24h. [run time]")] = None,
    procs_per_node: Annotated[int, typer.Option(help="Processors of an SWF trace that make a node.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Directory for jobs.csv, metrics.json and the rest.")] = None,
    report: Annotated[bool, typer.Option(help="With --out: write report.html too.")] = True,
) -> None:
    """Replay a workload on a machine under a policy and a power cap."""
    from wattqueue.sim.task import Task, load, perform

    task = Task(
        workload, machine, nodes, node_watts, policy, estimator, cap, seed,
        duration_s(default_walltime, "--default-walltime"), procs_per_node,
    )  # fmt: skip
    inputs = load(task)
    from wattqueue.cli._progress import running
    from wattqueue.cli._table import show

    with running(len(inputs.jobs), "simulating") as progress:
        outcome = perform(inputs, progress)
    if out is not None:
        from wattqueue.cli._write import write

        write(out, outcome, report=report)
    heading = f"{inputs.policy.name}, cap {cap}" if cap else inputs.policy.name
    show(f"{Path(workload).name} on {inputs.machine.name}", [(heading, outcome.metrics)])
    remark(outcome.run.notes, inputs.jobs.origin, len(inputs.unusable))


def remark(notes: dict[str, int], origin: str, unusable: int) -> None:
    """What a reader of the table should know."""
    if origin == "generated":
        typer.echo("The workload is generated, not measured.")
    if unusable:
        typer.echo(f"{unusable:,} rows of the trace are unusable (unusable.csv lists them).")
    for what, count in notes.items():
        typer.echo(f"{count:,} x {what}")
