r"""Parse what squeue and scontrol print about jobs and the pool: text in, rows out, no command.

A user's own text (job names, comments, paths) may hold blanks, separators, even line ends, and so imitate Slurm's
fields: a job named ``x\nJobId=7 Priority=9`` prints a second record in ``scontrol show job``. The lists read here
therefore contain no text of the user; what is needed of it comes from JSON, once per job.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from wattqueue.errors import InputError
from wattqueue.formats.slurm.hostlist import expand
from wattqueue.live.cluster import ACTIVE, Details, HeldBy, Job, JobKey, Pool, State
from wattqueue.live.slurm.commands import LICENCE, SlurmError
from wattqueue.model.plain_numbers import is_whole

COLUMNS = (
    "JobArrayID", "JobID", "SubmitTime", "State", "Reason", "Partition", "NumNodes", "NumCPUs", "TimeLimit",
    "Licenses", "PriorityLong", "UserID", "StartTime", "NodeList", "ReqNodes", "Dependency", "MaxNodes",
)  # fmt: skip
JOB_FIELDS = ":|,".join(COLUMNS) + ":"
"""Long format names: the letters of ``-o`` have none for MaxNodes. ``NAME:|`` means unlimited width, then a bar."""
JOBS = ("squeue", "-r", "-a", "-O", JOB_FIELDS)
"""With the header: it tells an empty queue from an answer that was lost on the way."""
SUBMITTED = ("squeue", "-r", "-a", "-h", "-O", "JobArrayID:|,SubmitTime:")
"""Which jobs there are, without what is known about them."""
POOL = ("scontrol", "-o", "show", "licenses")
DETAILS = ("squeue", "-a", "--json")
NONE = frozenset({"", "(null)", "N/A", "NONE", "None", "Unknown"})
"""How Slurm's commands print that a field has no value; it differs by field and release."""
NO_LIMIT = frozenset({"UNLIMITED", "INVALID", "NOT_SET", "Partition_Limit"})
STATES: dict[str, State] = {
    "PENDING": "pending", "CONFIGURING": "starting", "RUNNING": "running", "SUSPENDED": "suspended",
    "STOPPED": "stopped", "RESIZING": "busy", "SIGNALING": "busy", "STAGE_OUT": "busy", "COMPLETING": "completing",
}  # fmt: skip
"""States of jobs; every other one is that of a job that has ended."""
HELD_BY: dict[str, HeldBy] = {
    "JobHeldUser": "user", "JobHeldAdmin": "operator", "launch failed requeued held": "failed",
}  # fmt: skip
"""Reasons of a hold. Any other (BadConstraints: no node can serve the job) is a hold of Slurm's own."""

PATIENT = frozenset({
    "None", "Priority", "Resources", "BeginTime", "Dependency", "Licenses", "Cleaning", "JobHeldUser", "JobHeldAdmin",
    "JobArrayTaskLimit", "QOSGrpLicenseMinutes",
})  # fmt: skip
"""Reasons that go away when other jobs end or Slurm looks again; any other keeps a released job from starting."""


def complete_lines(text: str, command: str) -> list[str]:
    """Lines of an output that ends with a line end. Raises SlurmError for one cut short (a full pipe, a kill)."""
    if text and not text.endswith("\n"):
        raise SlurmError(f"{command}: its output is cut short")
    return [line for line in text.split("\n") if line]


def is_header(line: str) -> bool:
    """Whether a line is squeue's header for JOB_FIELDS: as many names, where a job has its number second."""
    names = line.split("|")
    return len(names) == len(COLUMNS) and not is_whole(names[1])


def parse_jobs(text: str, known: Mapping[str, Job]) -> tuple[dict[str, Job], list[str]]:
    """Jobs by their lines, and the lines that are none; lines that are ``known`` are not parsed again.

    Raises: SlurmError for a list without its header, cut short, or in which no line is a job: an empty answer is no
    empty queue.
    """
    seen: dict[str, Job] = {}
    bad = []
    header, *lines = complete_lines(text, "squeue") or [""]
    if not is_header(header):
        raise SlurmError(f"squeue printed no header but {header[:80]!r}: an empty answer is no empty queue")
    for line in lines:
        row = known.get(line)
        if row is None:
            try:
                row = parse_job(line)
            except (ValueError, IndexError, InputError):
                bad.append(line)
                continue
        seen[line] = row
    if bad and not seen:
        raise SlurmError(f"squeue printed {len(bad)} lines that are no jobs, the first {bad[0][:80]!r}")
    return seen, bad


def counted_pool(pool: Pool | None, jobs: Iterable[Job]) -> Pool | None:
    """The pool with the watts that jobs hold and Slurm does not count; it counts completing jobs, too."""
    if pool is None:
        return None
    uncounted = max(0, sum([row.watts for row in jobs if row.state in ACTIVE and row.watts > 0]) - pool.used)
    return pool._replace(used=pool.used + uncounted, uncounted=uncounted)


def parse_job(line: str) -> Job:
    """One line of squeue with JOB_FIELDS. Raises ValueError, IndexError or InputError for any other line."""
    parts = line.split("|")
    if len(parts) != len(COLUMNS):
        raise ValueError(line)
    name, number, submit, state, reason, partition, nodes, cpus, limit, text, priority, uid = parts[:12]
    start, node_list, requested, dependency, most = parts[12:]
    watts, others = split_licences(text)
    # a line of garbage with the right number of bars would otherwise be a job in an unknown state
    if not state.isupper():
        raise ValueError(line)
    listed = least = int(nodes.partition("-")[0])
    stated_most = int(most.partition("-")[0] or 0)  # 0 where no maximum is stated
    if state == "PENDING" and stated_most:  # squeue estimates the nodes of a job that waits, beyond its maximum, too
        least = min(listed, stated_most)
    most_nodes = max(least, stated_most)
    array, _, task = name.partition("_")
    whole, _, component = name.partition("+")
    held: HeldBy = HELD_BY.get(reason, "manager") if priority == "0" and state == "PENDING" else ""
    return Job(
        JobKey(name, float(submit)), int(number), STATES.get(state, "ended"), reason, partition, least,
        int(cpus.partition("-")[0]), parse_limit(limit), watts, int(priority), int(uid),
        math.nan if start in NONE else float(start),
        () if node_list in NONE else tuple(expand(node_list)),
        () if requested in NONE else tuple(expand(requested)),
        dependency in NONE, held, most_nodes, "", (listed, stated_most),
        array if task else "", int(task) if is_whole(task) else 0,
        whole if component else "", int(component) if is_whole(component) else 0,
        state == "PENDING" and priority != "0" and reason.partition(",")[0] not in PATIENT, others,
    )  # fmt: skip


def parse_limit(text: str) -> float:
    """Seconds of ``D-HH:MM:SS``, ``HH:MM:SS`` or ``MM:SS``; inf for no limit."""
    if text in NO_LIMIT:
        return math.inf
    days, _, clock = text.rpartition("-")
    seconds = 0.0
    for piece in clock.split(":"):
        seconds = seconds * 60 + int(piece)
    return seconds + 86400.0 * int(days or 0)


def split_licences(text: str) -> tuple[int, tuple[str, ...]]:
    """Count of our licence (-1 for none) and the others as they stand, from ``watts:300,matlab:1``.

    26.05 prints ``watts:300;matlab:1`` once it has built the list again (a requeue, a restart).
    """
    if text in NONE:
        return -1, ()
    watts, others = -1, []
    for piece in text.replace(";", ",").split(","):
        name, _, count = piece.partition(":")
        if name == LICENCE:  # a job that took over another's nodes names both counts
            watts = max(watts, 0) + int(count or 1)
        else:
            others.append(piece)
    return watts, tuple(others)


def parse_pool(text: str) -> Pool | None:
    """Our licence of ``scontrol -o show licenses``; None where there is none.

    Raises: SlurmError for text that is no list of licences, an empty one included: Slurm says so where there is none.
    """
    lines = complete_lines(text, "scontrol show licenses")
    if not lines:
        raise SlurmError("scontrol printed nothing about licences")
    for line in lines:
        fields = dict(piece.split("=", 1) for piece in line.split() if "=" in piece)
        if fields.get("LicenseName") == LICENCE:
            try:
                return Pool(int(fields["Total"]), int(fields["Used"]), int(fields.get("Reserved", 0)))
            except (KeyError, ValueError) as error:
                raise SlurmError(f"scontrol printed {line[:80]!r} for the licence {LICENCE}") from error
        if "LicenseName" not in fields and not line.startswith("No licenses"):
            raise SlurmError(f"scontrol printed {line[:80]!r}, which is no licence")
    return None


def parse_stated(job: dict[str, Any]) -> tuple[JobKey, Details]:
    """Key and details of one job of ``squeue --json``. Raises KeyError, ValueError or TypeError for anything else."""
    task = job.get("array_task_id")
    if isinstance(task, dict):
        task = task["number"] if task.get("set") else None
    array = count_of(job.get("array_job_id"))
    # the names that squeue -r prints and that commands accept
    name = f"{array}_{task}" if array and task is not None else str(job["job_id"])
    if count_of(job.get("het_job_id")):
        name = f"{count_of(job['het_job_id'])}+{count_of(job.get('het_job_offset'))}"
    words = ("name", "user_name", "account", "comment", "admin_comment")
    app, user, account, comment, mark = (str(job.get(key) or "") for key in words)
    details = Details(
        *(app, user, account, comment, mark),
        restarts=count_of(job.get("restart_cnt")),
        parts=2 if count_of(job.get("het_job_id")) else 1,
        throttle=count_of(job.get("array_max_tasks")),
        project=str(job.get("wckey") or "").removeprefix("*"),
    )
    return JobKey(name, float(count_of(job["submit_time"]))), details


def count_of(value: Any) -> int:
    """A count of Slurm's JSON: plain in 22.05, ``{"set": .., "infinite": .., "number": ..}`` since 23.02."""
    if isinstance(value, dict):
        value = value.get("number", 0) if value.get("set", True) and not value.get("infinite") else 0
    return int(value or 0)
