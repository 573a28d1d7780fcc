"""Say what energy a job used, what it cost, and how much of its wait was for watts.

Users read their own jobs, coordinators of Slurm those of their account (``--account``), the controller's account and
root all. The figures are in files of the controller (``[energy]`` in live.toml), which exist for as long as the site
keeps them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wattqueue.verbs import Printed, verb_of


@verb_of(Printed)
def run(
    printed: Printed,
    job: Annotated[str, typer.Argument(help="A job, a task (12_3), a component (12+1), or all of 12.")],
    account: Annotated[str | None, typer.Option(help="Look in an account that you manage.")] = None,
    config: Annotated[Path, typer.Option("--config", "-c", help="The controller's TOML file.")] = Path(
        "/etc/wattqueue/live.toml"
    ),
) -> None:
    """Say what energy a job used, what it cost, and how much of its wait was for watts.

    Exit status 1: no job of this name is in the records that you may read.
    """
    import os

    from wattqueue.live.config import energy_folder, load_config
    from wattqueue.live.files.energy_records import folders_of, read_records, read_running
    from wattqueue.live.reports.why import names_job
    from wattqueue.report import words
    from wattqueue.report.job_energy import as_json, sentence

    places = folders_of(energy_folder(load_config(config), config)[0], os.getuid(), account=account)
    runs = [one for one in read_records(places) if names_job(job, one.job)]
    going = [row for row in read_running(places, runs) if names_job(job, row[0])]
    names = dict.fromkeys(one.job for one in runs)
    lines = [sentence(name, [one for one in runs if one.job == name]) for name in names]
    if len(names) > 1:
        lines.append(sentence(job, runs))
    lines += [
        f"job {name}: {words.energy(joules)} ({label}) until now, preliminary" for name, _, joules, label in going
    ]
    if not lines:
        lines = [f"no job {job} is in the records that you may read (it waits, began just now, or is not yours)"]
    so_far = [{"job": name, "time_s": at_s, "energy_j": joules, "label": label} for name, at_s, joules, label in going]
    printed.show(lambda: {"runs": as_json(runs), "running": so_far}, lambda: lines)
    if not runs and not going:
        raise typer.Exit(1)
