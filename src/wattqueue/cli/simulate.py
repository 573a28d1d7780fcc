"""Replay a workload on a machine under a policy and a power cap."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wattqueue.formats.duration import duration_s

if TYPE_CHECKING:
    from wattqueue.sim.task import Outcome


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
    seed: Annotated[int, typer.Option(min=0, help="Seed of generated workloads.")] = 0,
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
    refuse_if_none_fits(outcome)
    if out is not None:
        from wattqueue.cli._write import write

        write(out, outcome, report=report)
    heading = f"{inputs.policy.name}, cap {cap}" if cap else inputs.policy.name
    show(f"{Path(workload).name} on {inputs.machine.name}", [(heading, outcome.metrics)])
    remark(outcome.run.notes, inputs.jobs.origin, len(inputs.unusable))
    if out is not None:
        typer.echo(f"{out}: jobs.csv, metrics.json, power.parquet, run.toml{', report.html' if report else ''}")


def refuse_if_none_fits(outcome: Outcome) -> None:
    """A run in which every job was rejected is a mistake. Raises: InputError."""
    from wattqueue.errors import InputError

    jobs, machine = outcome.inputs.jobs, outcome.inputs.machine
    if outcome.metrics["jobs_rejected"] != len(jobs):
        return
    widest = max(partition.units for partition in machine.partitions)
    least = int(jobs.nodes.min())
    if least > widest:
        why = f"the narrowest takes {least:,} {machine.partitions[0].unit}s, the widest partition has {widest:,}"
        mend = "take a larger machine, or --procs-per-node N where an SWF counts processors"
    else:
        why = "by their width, or by the watts of their units under the cap"
        mend = "see to the machine's units and watts, and to --cap"
    raise InputError(
        f"none of {len(jobs):,} jobs fits {machine.name}: {why}", where=outcome.inputs.task.workload, mend=mend
    )


def remark(notes: dict[str, int], origin: str, unusable: int) -> None:
    """What a reader of the table should know."""
    if origin == "generated":
        typer.echo("The workload is generated, not measured.")
    if unusable:
        typer.echo(f"{unusable:,} rows of the trace are unusable (unusable.csv lists them).")
    for what, count in notes.items():
        typer.echo(f"{count:,} x {what}")
