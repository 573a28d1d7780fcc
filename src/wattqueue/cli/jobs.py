"""Sum the energy of a user's, project's, account's or all jobs of a month, with cost, carbon, avoidable waits.

One line, or with ``--out`` a page. Without ``--user`` and ``--account`` the jobs are those that the caller may read:
one's own, or for the controller's account and root the centre's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wattqueue.verbs import OUT, Printed, verb_of


@verb_of(Printed)
def run(
    printed: Printed,
    user: Annotated[str | None, typer.Option(help="Jobs of this user: a name, or a user id.")] = None,
    account: Annotated[str | None, typer.Option(help="Jobs of this account, which you manage.")] = None,
    project: Annotated[str | None, typer.Option(help="Jobs of this project (Slurm's wckey) among them.")] = None,
    month: Annotated[str | None, typer.Option(help="2026-11. [default: this month]")] = None,
    out: Annotated[Path | None, typer.Option(*OUT, help="Write the month's page.")] = None,
    config: Annotated[Path, typer.Option("--config", "-c", help="The controller's TOML file.")] = Path(
        "/etc/wattqueue/live.toml"
    ),
) -> None:
    """Sum the energy of a user's, a project's or all jobs of a month, with cost, carbon and avoidable waits."""
    import os
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from wattqueue.formats.atomic_folder import write_text
    from wattqueue.live.config import energy_folder, load_config
    from wattqueue.live.files.energy_records import folders_of, read_records
    from wattqueue.report.job_energy import as_json, document, month_of, summary, totals

    folder, zone = energy_folder(load_config(config), config)
    month = month or datetime.now(ZoneInfo(zone)).strftime("%Y-%m")
    span = month_of(month, zone)
    uid = None if user is None else _uid(user)
    places = folders_of(folder, os.getuid(), uid, account)
    found = read_records(places, *span)
    records = [one for one in found if uid in (None, one.uid) and project in (None, one.project)]
    asked = (("account", account), ("project", project), ("user", user))
    who = ", ".join(f"{kind} {name}" for kind, name in asked if name is not None)
    who = who or ("all users" if len(places) != 1 else f"user {_name(int(places[0].name))}")
    if out is not None:
        write_text(out, document(f"Energy of jobs, {month}", who, records, _name).html())
    printed.show(
        lambda: {**totals(records), "month": month, "of": who, "records": as_json(records)},
        lambda: [summary(f"{month}, {who}", records), *([f"wrote {out}"] if out is not None else [])],
    )


def _uid(user: str) -> int:
    """Return the id of a user. Raises: InputError for one that is not known here."""
    from pwd import getpwnam

    from wattqueue.errors import InputError
    from wattqueue.model.plain_numbers import is_whole

    if is_whole(user):
        return int(user)
    try:
        return getpwnam(user).pw_uid
    except (KeyError, ValueError) as error:
        raise InputError(f"no user {user!r} on this host", where="--user", hint="give the user's id") from error


def _name(uid: int) -> str:
    """Return the name of a user id, the id where this host knows none."""
    from pwd import getpwuid

    try:
        return getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)
