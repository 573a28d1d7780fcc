"""Run the node agent: read power, and set limits that the controller asks for.

``run`` runs it, ``check`` shows what it would do, ``restore`` undoes what an agent left that was killed together with
its keeper; the unit's ExecStopPost calls it. Imports are inside the functions: ``restore`` must work when half of the
package does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from wattqueue.verbs import Printed, verb_of

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
ConfigOption = Annotated[Path, typer.Option("--config", "-c", help="The agent's TOML file.", show_default=False)]


@app.callback()
def _root() -> None:
    """Limit the power of this node as the controller asks, and restore what was found."""


@app.command()
def run(
    config: ConfigOption,
    steps: Annotated[
        int, typer.Option(min=0, max=2**31 - 1, help="Stop after so many readings; 0: run until stopped.")
    ] = 0,
) -> None:
    """Read power and set limits until stopped; then restore the limits that were found."""
    from wattqueue_agent.config import load_agent_config
    from wattqueue_agent.run import run_agent

    run_agent(load_agent_config(config), steps)


@app.command()
@verb_of(Printed)
def check(printed: Printed, config: ConfigOption) -> None:
    """Show what can be limited on this node, what is in force, and what the configuration allows. Changes nothing."""
    from rich.console import Console
    from rich.table import Table

    from wattqueue_agent.agent import within
    from wattqueue_agent.config import load_agent_config
    from wattqueue_agent.hardware import find_limits

    read = load_agent_config(config)
    found = dict[str, dict[str, Any]]()
    table = Table("limit", "unit", "in force", "hardware", "allowed", title=f"Limits of {read.node}")
    for name, limit in find_limits(read.powercap, read.cpufreq, gpus=read.gpus).items():
        hardware, stated, now = limit.range(), read.allowed(name), limit.read()
        allowed = None if stated is None else within(hardware, stated)
        found[name] = {"unit": limit.unit, "in_force": now, "hardware": hardware, "allowed": allowed}
        ends = ["never set" if span is None else f"{span.low:g} to {span.high:g}" for span in (hardware, allowed)]
        table.add_row(name, limit.unit, f"{now:g}", *ends)
    nothing = f"Nothing can be limited on {read.node}."
    printed.show(
        lambda: {"node": read.node, "limits": found}, lambda: Console().print(table if table.row_count else nothing)
    )


@app.command()
def restore(
    state_dir: Annotated[Path, typer.Option(help="State folder of the agent.")] = Path("/var/lib/wattqueue-agent"),
    when_expired: Annotated[
        bool, typer.Option(help="Leave limits in force until they expire; for ExecStopPost of the agent's unit.")
    ] = False,
) -> None:
    """Restore the limits that an agent found and did not restore: now, or in the background when they expire."""
    from wattqueue_agent.originals import read_lease, restore_from

    held = read_lease(state_dir)
    if when_expired and held is not None:
        from wattqueue_agent.keeper import start_keeper

        start_keeper(state_dir, 0.0, held[0])
        return
    problems = restore_from(state_dir)
    for text in problems:
        typer.echo(f"not restored: {text}", err=True)
    raise typer.Exit(1 if problems else 0)
