"""Write the power domains of a machine for Slurm to hold (``wattqueue live export-hres``)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wattqueue.verbs import Printed, verb_of


@verb_of(Printed)
def export_hres(
    printed: Printed,
    machine: Annotated[str, typer.Argument(help="Machine file with power domains.", show_default=False)],
    nodes: Annotated[
        str, typer.Option(help="Slurm's names of the machine's nodes, in their order: n[01-32],gpu[1-4].")
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write resources.yaml here.")] = None,
    check: Annotated[Path | None, typer.Option(help="Compare this resources.yaml instead.")] = None,
) -> None:
    """Power domains as a hierarchical resource of Slurm (25.11.7, 26.05.2 and later), which then counts them.

    Exit status 1: the file of --check differs from what the machine file says.
    """
    from wattqueue.formats.atomic_write import atomic_text
    from wattqueue.formats.machine.file import load_machine
    from wattqueue.formats.slurm.hostlist import expand
    from wattqueue.live.slurm.hres import differences, hres_text, layers_of, read_hres

    read = load_machine(machine)
    layers = layers_of(read, expand(nodes))
    found = differences(layers, read_hres(check)) if check is not None else []
    text = hres_text(read, layers)
    if out is not None:
        atomic_text(out, text)
    lines = [f"{len(layers)} layers written to {out}"] if out is not None else text.splitlines()
    if check is not None:
        lines = found or [f"{check} has the {len(layers)} layers of {read.name}"]
    values = [{"name": one.name, "nodes": list(one.nodes), "count": one.count} for one in layers]
    printed.show(lambda: {"layers": values, "differences": found}, lambda: lines)
    if found:
        raise typer.Exit(1)
