"""List what WattQueue can read and control from this host, and what each missing item means.

For the first minutes at a site: which of Slurm's commands, telemetry sources, privileges and packages are there, and
which part of WattQueue each missing one rules out.

The findings come from ``live.doctor`` and ``live.slurm.examine``, which only look; this file prints them by area, each
with its state and, where something is missing, what that costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wattqueue.verbs import Printed, verb_of

if TYPE_CHECKING:
    from wattqueue.live.doctor import Check

MONTH = timedelta(days=30)
"""Span of the suggested accounting dump: enough to predict from, small enough for slurmdbd."""


@verb_of(Printed)
def run(
    printed: Printed,
    live: Annotated[
        Path | None, typer.Option(help="A controller's TOML file: check its installation as well.", show_default=False)
    ] = None,
    flux: Annotated[bool, typer.Option("--flux", help="Examine Flux, and the instance around this shell.")] = False,
) -> None:
    """List what WattQueue can read and control from this host, and what each missing item means.

    Reads only, needs no privileges, and ends with status 0 whatever it finds. The last lines are the command
    that dumps this site's accounting, and the next steps with the dump.
    """
    from wattqueue.live.doctor import examine
    from wattqueue.live.entry_points import live_extension
    from wattqueue.live.slurm.examine import examine_slurm, sacct_line

    managers = {"Slurm": examine_slurm, **({"Flux": live_extension("flux").examine} if flux else {})}
    checks = list(examine(managers))
    if live is not None:
        from wattqueue.live.config import load_config
        from wattqueue.live.slurm.examine_live import examine_live

        checks += examine_live(load_config(live), file=live)
    line = sacct_line(f"{datetime.now(UTC) - MONTH:%Y-%m-%d}")
    printed.show(
        lambda: {"checks": [asdict(check) for check in checks], "sacct": line},
        lambda: _lines(checks, line),
    )


def _lines(checks: Sequence[Check], sacct: str) -> Iterator[str]:
    """Yield the findings by area, and the next steps with the command that dumps the accounting."""
    area = ""
    for check in checks:
        if check.area != area:
            area = check.area
            yield area
        yield f"  {check.state:<5}{check.name:<18}{check.found}"
        if check.cost:
            yield f"       {'':<18}-> {check.cost}"
    yield "\nTo see what a cap would do here, dump a month of accounting as an operator, or as root:\n"
    yield f"  {sacct}"
    yield "  wattqueue import dump.psv -o jobs.parquet\n  wattqueue machine guess jobs.parquet -o machine.toml"
