"""Say what the power cap cost yesterday, how far that was from the best, and what other rows would have done.

What is done stands in ``wattqueue_studies.nightly``. With ``--out`` each night is a JSON and a page in one folder; the
nights of that folder decide what is called better.
"""

from __future__ import annotations

import json
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattqueue.formats.times import duration_s
from wattqueue.options import option
from wattqueue.runs.options import CAP, MACHINE, PHYSICS
from wattqueue.verbs import Printed, out_field, verb_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wattqueue.formats.workload_format import ReadOptions
    from wattqueue.runs.task import Task
    from wattqueue_studies.nightly.day import Day, DayRecord
    from wattqueue_studies.nightly.night import NightPlan

BOUND_JOBS = 200


@dataclass(frozen=True)
class NightlyVerb(Printed):
    """Options of the verb."""

    jobs: Path | None = option(
        None, "sacct output, or the recording of a controller. [sacct is asked]", kind=Path, metavar="JOBS",
        positional=True,
    )  # fmt: skip
    _: KW_ONLY
    machine: str | None = option(None, f"{MACHINE} [a recording's own]")
    physics: str | None = option(None, PHYSICS)
    policy: str | None = option(None, "The row in use. [a recording's own, else easy]")
    estimator: str | None = option(None, "Replaces the policy's own.")
    cap: str | None = option(None, f"{CAP} [a recording's own, else the machine's]")
    day: str | None = option(None, "Date, such as 2026-11-26. [yesterday]")
    time_zone: str | None = option(None, "Whose midnights, and of times without a zone: Europe/Berlin. [UTC]")
    default_walltime: str | None = option(None, "Walltime of jobs without one, such as 24h. [run time]")
    row: Sequence[str] = option((), "Another row to replay, in place of ten common ones.", many=True)
    bound: int = option(
        BOUND_JOBS, "Jobs of the bound, the first of the day; 0 for none.", kind=int, least=0, most=2_000
    )
    out: Path | None = out_field("Folder of nights: DATE.json and DATE.html are added.")

    def read_options(self) -> ReadOptions:
        """Return how accounting is read."""
        from wattqueue.formats.workload_format import ReadOptions

        walltime = duration_s(self.default_walltime, "--default-walltime")
        return ReadOptions(time_zone=self.time_zone, default_walltime_s=walltime, queued=True)

    def task(self, workload: str, policy: str = "easy") -> Task:
        """Return the site's own task."""
        from wattqueue.runs.task import Task

        return Task(
            workload, self.machine, policy=self.policy or policy, estimator=self.estimator, physics=self.physics
        )


@verb_of(NightlyVerb)
def run(options: NightlyVerb) -> None:
    """Say what the power cap cost yesterday, how far that was from the best, and what other rows would have done."""
    from tempfile import TemporaryDirectory

    from wattqueue.terminal import counting
    from wattqueue_studies.nightly.night import replay_night
    from wattqueue_studies.nightly.nights import KEY, verdicts
    from wattqueue_studies.nightly.page import document

    day = _day(options)
    nights = _nights(options.out, day)
    with TemporaryDirectory(prefix="wattqueue-") as folder:
        path = options.jobs if options.jobs is not None else _asked(Path(folder), day)
        recorded, plan = _read(options, path)
        with counting("replaying", "rows") as told:
            night = replay_night(recorded, day, plan, told)
    values = json.loads(json.dumps(night.values(), allow_nan=False))
    over = verdicts([*nights, values], values)
    written = None if options.out is None else options.out / f"{day.name}.json"
    shown = document(night, over, "" if written is None else str(written))
    content: dict[str, Any] = {KEY: values}
    if night.proofs:
        from wattqueue_studies.bound.store import stored

        content |= stored(night.proofs)
    if options.out is not None:
        from wattqueue.formats.atomic_folder import write_files

        write_files(options.out, {f"{day.name}.json": json.dumps(content) + "\n", f"{day.name}.html": shown.html()})
    options.show(lambda: {**values, "over_nights": [one.as_json() for one in over]}, shown.lines)
    if options.out is not None:
        options.say([f"{options.out / day.name}.html (with {day.name}.json)"])


def _day(options: NightlyVerb) -> Day:
    """Return the day that is asked for; else yesterday."""
    from datetime import datetime, timedelta

    from wattqueue_studies.nightly.day import Day, zone_of

    zone = zone_of(options.time_zone)
    yesterday = (datetime.now(zone) - timedelta(days=1)).date().isoformat()
    return Day.of(options.day or yesterday, zone)


def _nights(folder: Path | None, day: Day) -> list[Any]:
    """Return the nights of a folder. Raises: InputError where this one is among them."""
    from wattqueue.errors import InputError
    from wattqueue.formats.json_text import load_json
    from wattqueue_studies.nightly.nights import kept_nights

    if folder is None or not folder.is_dir():
        return []
    nights = kept_nights((str(path), load_json(path)) for path in sorted(folder.glob("*.json")))
    if any(night["day"] == day.name for night in nights):
        raise InputError(
            f"{day.name} is recorded already",
            where=folder,
            hint=f"delete {day.name}.json to replace it, or name another folder",
        )
    return nights


def _asked(folder: Path, day: Day) -> Path:
    """Return what sacct says of a day. Raises: InputError where it is not installed; SlurmError where it fails."""
    import shutil
    import time

    from wattqueue.errors import InputError
    from wattqueue.formats.slurm.fields import ASK_FOR
    from wattqueue.live.slurm.commands import Commands, read

    found = shutil.which("sacct")
    if found is None:
        raise InputError(
            "sacct is not installed here", where="JOBS", hint="name its output: wattqueue nightly sacct.psv"
        )
    since, until = (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(t)) for t in (day.begin_s, day.end_s))
    words = ("sacct", "-a", "--parsable2", "-S", since, "-E", until, f"--format={','.join(ASK_FOR)}")
    path = folder / "sacct.psv"
    commands = Commands(timeout_s=300.0, bin_dir=str(Path(found).parent))  # on the caller's PATH: /opt/slurm/bin
    path.write_text(read(commands, words), encoding="utf-8")
    return path


def _read(options: NightlyVerb, path: Path) -> tuple[DayRecord, NightPlan]:
    """Return the record and what is replayed. Raises: InputError for a file that is neither, or without a machine."""
    from wattqueue.errors import InputError
    from wattqueue.formats.cap import parse_cap
    from wattqueue.formats.read import read_workload
    from wattqueue.live.recordings.recorded_schedule import read_recording, recorded_begin
    from wattqueue.runs.task import machine_cap, task_machine
    from wattqueue_studies.bound.assess import Search
    from wattqueue_studies.cli.bound import FEW_TRIES, MANY_TRIES
    from wattqueue_studies.nightly.day import DayRecord
    from wattqueue_studies.nightly.night import ROWS, NightPlan

    begin, row = recorded_begin(path), None
    if begin is not None:
        if options.machine is not None:
            raise InputError("a recording has its own machine", where="--machine", hint="leave it out")
        source = read_recording(path)
        task, cap, recorded = options.task(str(path), begin["policy"]), source.cap, DayRecord.of_recording(source)
        row = begin["row"] or None if options.policy is None and options.estimator is None else None
    else:
        task = options.task(str(path))
        machine = task_machine(task)
        workload = read_workload(path, options.read_options())
        recorded = DayRecord.of_accounting(workload.jobs, machine, workload.notes, str(path))
        cap = machine_cap(machine)
    if options.cap is not None:
        cap = parse_cap(options.cap, recorded.machine)
    search = Search(FEW_TRIES if options.bound <= BOUND_JOBS else MANY_TRIES, 7_000)
    rows = [name for name in options.row or ROWS if name != task.policy]
    return recorded, NightPlan(task, cap, row, rows, options.bound, search)
