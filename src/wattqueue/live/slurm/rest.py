"""Read lists from slurmrestd in the place of the commands, and print them as the commands do.

Some sites allow no Slurm tools on the controller's host, or want reads to be authenticated by a token. ``Rest`` wraps a
``Slurm`` and answers its four list commands from HTTP; ``observe`` then parses exactly the text that it would get from
squeue, sinfo and scontrol. A snapshot is therefore identical whichever way it was read, which a test holds on a real
Slurm, and no second parser can drift from the first.

Only lists are read through it. Writes stay with scontrol, which is six times faster per job on 22.05
and takes fields that slurmrestd refuses (administrator's comment, wanted nodes).

Reference: Slurm REST API, openapi/v0.0.38 (Slurm 22.05, the version that was tried).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattqueue.errors import WattQueueError
from wattqueue.live.slurm.commands import CommandResult, Slurm, SlurmError
from wattqueue.live.slurm.observe import DETAILS, JOBS, NODES, POOL

if TYPE_CHECKING:
    import httpx

ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED"}
    | {"TIMEOUT"}
)
"""States of jobs that slurmrestd still lists and squeue leaves out."""
# Flags of power states, and the mark that sinfo prints for each.
POWERED = {"POWERED_DOWN": "~", "POWERING_UP": "#", "POWERING_DOWN": "%", "POWER_DOWN": "!"}
LONGEST_ARRAY = 1_000_000
"""Greatest task number that is accepted: Slurm's own limit (MaxArraySize) is 4,000,001, and sites use thousands."""


@dataclass
class Rest:
    """A Slurm whose lists come from slurmrestd; every other command runs through ``commands``.

    ``where`` is ``unix:/path`` or ``http(s)://host:port``. ``token`` is called for each request, so that a renewed one
    takes effect without a restart; it returns an empty text where the socket authenticates (rest_auth/local).

    One connection is kept open and made again after a failure. Not safe for use from several threads.
    """

    commands: Slurm
    where: str
    user: str = ""
    token: Callable[[], str] = lambda: ""
    version: str = "v0.0.38"
    timeout_s: float = 10.0
    _client: httpx.Client | None = field(default=None, repr=False)
    _jobs: str = field(default="", repr=False)

    def run(self, argv: Sequence[str]) -> CommandResult:
        """Return a list as its command prints it, or run the command. Raises SlurmError.

        Details come from the same answer as the rows just read, where there is one: both are of one moment then, and
        the most expensive request is made once.
        """
        begin, wanted = time.monotonic(), tuple(argv)
        if wanted == JOBS:
            text = self._job_lines()
        elif wanted == DETAILS:
            text = self._jobs or self._ask("jobs")
        elif wanted == NODES:
            text = "".join(_lines(self._ask("nodes"), "nodes", node_lines))
        elif wanted == POOL:
            text = "".join(_lines(self._ask("licenses"), "licenses", licence_lines))
        else:
            return self.commands.run(argv)
        return CommandResult(0, text, "", time.monotonic() - begin)

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _job_lines(self) -> str:
        """Return the rows of all jobs. Where slurmrestd cuts an array's list of tasks short, squeue is read instead."""
        self._jobs = self._ask("jobs")
        try:
            return "".join(_lines(self._jobs, "jobs", job_lines))
        except CutShortError:
            return self.commands.run(JOBS).out

    def _ask(self, what: str) -> str:
        """Request one list; returns the body. Raises SlurmError with the first error of the answer, and a hint."""
        import httpx

        if self._client is None:
            unix = self.where.startswith("unix:")
            path = self.where.removeprefix("unix:")
            if unix and not Path(path).exists():
                raise SlurmError("slurmrestd: no such socket", where=path, hint="is slurmrestd up?")
            transport = httpx.HTTPTransport(uds=path) if unix else None
            base = "http://localhost" if unix else path.rstrip("/")
            # a proxy from the environment must not see the traffic with the site's own scheduler
            self._client = httpx.Client(
                base_url=base, transport=transport, timeout=self.timeout_s, trust_env=False
            )  # fmt: skip
        try:
            token = self.token()
        except WattQueueError as error:
            raise SlurmError(str(error)) from error
        headers = {"X-SLURM-USER-NAME": self.user, "X-SLURM-USER-TOKEN": token} if token else {}
        try:
            answer = self._client.get(f"/slurm/{self.version}/{what}", headers=headers)
        except httpx.HTTPError as error:
            self.close()
            raise SlurmError(f"slurmrestd: {type(error).__name__}: {error}", hint="is slurmrestd up?") from error
        if answer.status_code != 200:
            said = _first_error(answer.text) or answer.text.strip()
            text = f"slurmrestd: {what}: status {answer.status_code}: {said[:120]}"
            # 22.05 says 401 without a token, and 500 where slurmctld does not take the one it was handed
            hint = (
                "is the token of slurm.rest_token_file still valid (scontrol token)?"
                if token
                else "does it require a token?"
            )
            raise SlurmError(text, hint=hint)
        return answer.text


def _first_error(text: str) -> str:
    """Return the text of an answer's first error; empty where it has none or is no JSON."""
    try:
        first = json.loads(text)["errors"][0]
        return str(first.get("description") or first.get("error") or "")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return ""


class CutShortError(SlurmError):
    """slurmrestd shortened a list (``1-500,...``), so rows would be missing."""


def _lines(text: str, what: str, read: Callable[[Mapping[str, Any]], Iterator[str]]) -> Iterator[str]:
    """Yield the lines of every row of an answer. Raises SlurmError where it reports errors or is something else.

    A missing field is an error and not a default: a job without licences and a job whose licences were renamed by a new
    API version must not look the same.
    """
    try:
        body = json.loads(text)
        if body.get("errors"):
            raise SlurmError(f"slurmrestd: {what}: {str(body['errors'])[:200]}")
        for row in body[what]:
            for line in read(row):
                yield f"{line}\n"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SlurmError(f"slurmrestd: {what} cannot be read: {error!r}"[:200]) from error


def job_lines(job: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rows of one job as squeue prints them with JOB_FIELDS.

    An ended job has none (squeue leaves it out), a pending array one per task (``squeue -r``).
    """
    state = job["job_state"]
    if state in ENDED:
        return
    limit = "UNLIMITED" if job["time_limit"] is None else f"{int(job['time_limit'])}:00"
    rest = [
        job["job_id"], job["submit_time"], state, job["state_reason"], job["partition"], job["node_count"], job["cpus"],
        limit, job["licenses"], job["priority"], job["user_id"], job["start_time"] or "N/A", job["nodes"],
        job["required_nodes"], job["dependency"], max(job["node_count"], job["max_nodes"]),
    ]  # fmt: skip
    for name in names_of(job):
        yield "|".join(str(value) for value in (name, *rest))


def names_of(job: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that commands accept for a job: its id, ``ID_TASK`` of each task, ``ID+PART`` of a component."""
    array, part_of, tasks = job["array_job_id"], job["het_job_id"], job["array_task_string"]
    if array and job["array_task_id"] is not None:
        yield f"{array}_{job['array_task_id']}"
    elif array and tasks:
        yield from (f"{array}_{task}" for task in tasks_of(tasks))
    else:
        yield f"{part_of}+{job['het_job_offset']}" if part_of else str(job["job_id"])


def tasks_of(text: str) -> Iterator[int]:
    """Yield the numbers of ``1-4,7,10-20:5%2`` (the part behind % limits how many run at once).

    Raises: CutShortError for a list that ends in dots, ValueError for any other text and for numbers beyond
    ``LONGEST_ARRAY``, so that a wrong answer cannot take all memory.
    """
    if "..." in text:
        raise CutShortError(f"array tasks {text[:80]!r} are cut short")
    for piece in text.partition("%")[0].split(","):
        span, _, step = piece.partition(":")
        low, _, high = span.partition("-")
        if int(high or low) > LONGEST_ARRAY:
            raise ValueError(text[:80])
        yield from range(int(low), int(high or low) + 1, int(step or 1))


def node_lines(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield one row for each partition of a node, as sinfo prints them with NODE_FIELDS."""
    state = node_state(node["state"], node["state_flags"])
    shape = f"{node['cpus']}|{node['real_memory']}|{node['sockets']}|{node['cores']}|{node['gres'] or '(null)'}"
    for partition in node["partitions"]:
        yield f"{node['name']}|{state}|{partition}|{shape}"


def node_state(base: str, flags: Sequence[str]) -> str:
    """Return the state of a node as sinfo prints it: one word, and marks for power and for a missing answer.

    The API gives a base state and flags; sinfo merges them by rules of its own, in this order (slurm.h,
    ``node_state_string``).
    """
    plain = base.lower()
    busy = plain in ("allocated", "mixed") or "COMPLETING" in flags
    if "DRAIN" in flags or "FAIL" in flags:
        plain = "draining" if busy else "drained"
    elif "MAINTENANCE" in flags:
        plain = "maint"
    elif "COMPLETING" in flags:
        plain = "completing"
    elif plain == "idle" and ("RESERVED" in flags or "PLANNED" in flags):
        plain = "reserved" if "RESERVED" in flags else "planned"
    marks = [mark for flag, mark in POWERED.items() if flag in flags][:1]
    if any(flag.startswith("REBOOT") for flag in flags):
        marks.append("@")
    return plain + "".join(marks) + ("*" if "NOT_RESPONDING" in flags else "")


def licence_lines(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield one licence as ``scontrol -o show licenses`` prints it."""
    fields = ("LicenseName", "Total", "Used", "Free", "Reserved")
    yield " ".join(f"{name}={row[name]}" for name in fields)
