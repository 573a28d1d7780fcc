"""Machine files: list the catalogue, show one, draft one from jobs."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_() -> None:
    """List the machines that come with WattQueue."""
    from wattqueue.formats.machine_toml import catalogue, load_machine

    for name in catalogue():
        machine = load_machine(name)
        sizes = " + ".join(f"{p.units} {p.unit}s" for p in machine.partitions)
        print(f"{name:<12} {sizes:<24} {shorten(machine.source.partition(':')[0], 80, placeholder=' ...')}")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name in the catalogue, or a TOML file.", show_default=False)],
) -> None:
    """Print a machine as a TOML file, ready to be copied and changed, with its sums ahead."""
    from wattqueue.formats.machine_toml import load_machine, machine_toml

    machine = load_machine(name)
    most = machine.scope_max_w()
    print(
        f"# {machine.units:,} units in {len(machine.partitions)} partitions; idle {machine.idle_w / 1e3:,.1f} kW; ",
        end="",
    )
    print(f"100 % of its cap ({machine.cap_scope}) = " + (f"{most / 1e3:,.1f} kW" if most is not None else "unknown"))
    print(machine_toml(machine), end="")


@app.command()
def guess(
    jobs: Annotated[Path, typer.Argument(help="A job table, or anything that import reads.", show_default=False)],
    name: Annotated[str | None, typer.Option(help="Name of the machine; by default that of the file written.")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write here instead of to the terminal.")] = None,
) -> None:
    """Draft a machine file from the jobs that ran on it; every guessed figure says "please confirm"."""
    from wattqueue.formats.machine_guess import guess_machine
    from wattqueue.formats.machine_toml import machine_toml, write_machine
    from wattqueue.formats.read import read_workload

    machine, marks = guess_machine(read_workload(jobs).jobs, name or (out or jobs).name.split(".")[0] or "machine")
    if out is None:
        print(machine_toml(machine, marks), end="")
    else:
        write_machine(out, machine, marks)
        print(f"wrote {out}: {len(marks)} figures to confirm")
