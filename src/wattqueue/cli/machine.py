"""Machine files: list the catalogue, show one, draft one from jobs.

A machine file states partitions, units, idle and maximum watts (``formats/machine/file.py``). The catalogue has the
machines of the papers; ``guess`` drafts a file from recorded jobs, since few sites know the watts of their nodes.

Every command reads files and prints; only ``guess -o`` writes, atomically. ``show`` prints TOML that can be
redirected to a file and changed, with what it adds as comments. Errors of a machine file come from
``formats.machine.file`` as MachineError with file and key.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated

import typer

from wattqueue.errors import InputError
from wattqueue.verbs import Printed, verb_of

if TYPE_CHECKING:
    from wattqueue.formats.machine.guess import WattsPerNode
    from wattqueue.model.machine import Machine

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
@verb_of(Printed)
def list_(printed: Printed) -> None:
    """List the machines that come with WattQueue."""
    from wattqueue.formats.machine.file import catalogue, load_machine, machine_data

    machines = [load_machine(name) for name in catalogue()]
    printed.show(
        lambda: {"machines": {machine.name: machine_data(machine) for machine in machines}},
        lambda: map(_line, machines),
    )


def _line(machine: Machine) -> str:
    """Return name, partitions and source: its part before the first colon, in at most 80 characters."""
    sizes = " + ".join(f"{p.units} {p.unit}s" for p in machine.partitions)
    return f"{machine.name:<12} {sizes:<24} {shorten(machine.source.partition(':')[0], 80, placeholder=' ...')}"


@app.command()
@verb_of(Printed)
def show(
    printed: Printed,
    name: Annotated[str, typer.Argument(help="Name in the catalogue, or a TOML file.", show_default=False)],
) -> None:
    """Print a machine as a TOML file that can be copied and changed, with its totals above."""
    from wattqueue.formats.machine.file import load_machine, machine_data, machine_toml

    machine = load_machine(name)
    # What 100 % of a cap means depends on its scope (semantics, rule 14); None where maximum watts are not stated.
    most = machine.scope_max_w()
    whole = "unknown" if most is None else f"{most / 1e3:,.1f} kW"
    totals = (
        f"# {machine.units:,} units in {len(machine.partitions)} partitions; idle {machine.idle_w / 1e3:,.1f} kW; "
        f"100 % of its cap ({machine.cap_scope}) = {whole}"
    )
    printed.show(lambda: machine_data(machine), lambda: [totals, machine_toml(machine).rstrip("\n")])


@app.command()
@verb_of(Printed)
def guess(
    printed: Printed,
    jobs: Annotated[Path, typer.Argument(help="A job table, or anything that import reads.", show_default=False)],
    name: Annotated[str | None, typer.Option(help="Name of the machine; by default that of the file written.")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write here instead of to the terminal.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a machine file that exists.")] = False,
) -> None:
    """Draft a machine file from the jobs that ran on it; every guessed figure says "please confirm".

    The watts per node behind the draft are printed, with a warning where a few failed counters may have decided the
    maximum. A file that exists is replaced with --force only, since its figures may have been confirmed.
    """
    from wattqueue.formats.atomic_folder import written
    from wattqueue.formats.machine.file import machine_data, machine_toml, write_machine
    from wattqueue.formats.machine.guess import guess_machine, node_watts
    from wattqueue.formats.read import read_workload
    from wattqueue.formats.source import exists

    table = read_workload(jobs).jobs
    # marks are the comments of guessed figures, by their path in the file.
    machine, marks = guess_machine(table, name or (out or jobs).name.split(".")[0] or "machine")
    lines = [line for watts in node_watts(table) for line in _watts_lines(watts, many=len(machine.partitions) > 1)]
    text = machine_toml(machine, marks)
    if out is None:
        commented = [*(f"# {line}" for line in lines), text.rstrip("\n")]
        printed.show(lambda: machine_data(machine), lambda: commented)
        return
    # Writing the same text again is no loss, so a repeated command does not fail.
    if exists(out) and out.is_file() and not force and out.read_bytes() != text.encode():
        raise InputError(
            "exists, and its figures may have been confirmed",
            where=out,
            hint="take another name with -o, or replace it with --force",
        )
    # Before the write: the sentence says whether the file is new or overwritten.
    done = written(out)
    write_machine(out, machine, marks)
    printed.show(lambda: machine_data(machine), lambda: [*lines, f"{done}: {len(marks)} figures to confirm"])


def _watts_lines(watts: WattsPerNode, *, many: bool) -> list[str]:
    """Return the watts behind a draft in lines; ``many``: the machine has several partitions.

    Watts are of one node. A maximum far above the 95th percentile points to failed counters
    (``WattsPerNode.suspicious``), and max_w follows from the maximum.
    """
    of = f" of partition {watts.partition}" if many else ""
    quantiles = f"p50 {watts.median_w:,.0f}, p95 {watts.p95_w:,.0f}, p99 {watts.p99_w:,.0f}"
    lines = [
        f"watts per node{of}, {watts.jobs:,} jobs: {quantiles}, maximum {watts.maximum_w:,.0f}",
        f"jobs{of} below the drafted idle watts ({watts.idle_w:,.0f} W): {watts.below_idle:,}",
    ]
    if watts.suspicious:
        lines.append(
            f"warning: the maximum{of} is {watts.maximum_w / watts.p95_w:.1f} times p95, so max_w may come from failed "
            "energy counters; correct it, or import again with --node-watts IDLE:MAX"
        )
    return lines
