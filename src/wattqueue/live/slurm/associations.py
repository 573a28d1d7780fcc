"""Read associations and QOS as slurmctld holds them: who belongs to what, which limits hold, what is weighed how.

``scontrol show assoc_mgr`` prints what slurmctld itself computes with, so it needs no database, and a change by
``sacctmgr`` shows at once. Limits are printed as ``limit(usage)``. The usage is not read: it lacks the jobs that the
controller has just released.

Limits of groups become named limits (``live.cluster.SiteConstraints``): ``GrpJobs`` and ``GrpTRES`` of each
association from the user's up to the root, and of the QOS, ``MaxJobs`` of the user's association, and the QOS's
limits per user and per account. Where the QOS states a limit, Slurm does not look at the same limit of the
associations. Limits on times (``GrpWall``, ``GrpTRESMins``) and on single jobs are left to Slurm.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from wattqueue.live.slurm.job_facts import parse_tres

ASSOCIATIONS = ("scontrol", "-o", "show", "assoc_mgr", "flags=qos,assoc")
SHARES = ("sshare", "-a", "-n", "-P", "-o", "Account,User,Partition,FairShare")
JOBS = "jobs"
"""Name of the count of jobs beside those of resources."""
_WORD = re.compile(r"([A-Za-z]+)=(\S*)")
_ID = re.compile(r"(.*)\(([0-9]+)\)")
_GROUP = re.compile(r"(\S+)=\{([^}]*)\}")

Limits = dict[str, float]
"""The most of each resource, ``jobs`` among them, that may be in use together."""


class Association(NamedTuple):
    """An account (without a user), or a user in an account."""

    number: int
    account: str
    user: str
    """Name; empty for an account."""
    uid: int
    """-1 for an account."""
    partition: str
    parent: str
    """Account above an account; empty for a user, whose account is the parent."""
    priority: int
    group: Limits
    """On all jobs below it."""
    most_jobs: float
    """On the jobs of this association alone; inf for no limit."""


class Qos(NamedTuple):
    """A quality of service."""

    name: str
    priority: int
    group: Limits
    by_user: Limits
    by_account: Limits


@dataclass(frozen=True)
class Associations:
    """All associations and QOS; empty without accounting."""

    by_number: Mapping[int, Association] = field(default_factory=dict)
    qos: Mapping[str, Qos] = field(default_factory=dict)

    def chain(self, number: int) -> Iterator[Association]:
        """Yield an association and those above it, up to the root."""
        accounts = {one.account: one for one in self.by_number.values() if not one.user}
        one = self.by_number.get(number)
        seen = set[int]()
        while one is not None and one.number not in seen:
            seen.add(one.number)
            yield one
            one = accounts.get(one.account if one.user else one.parent)


def parse_associations(text: str) -> Associations:
    """Associations and QOS of ``scontrol -o show assoc_mgr flags=qos,assoc``."""
    found: dict[int, Association] = {}
    qos: dict[str, Qos] = {}
    for line in text.splitlines():
        if line.startswith("ClusterName="):
            one = _association(line)
            found[one.number] = one
        elif line.startswith("QOS="):
            level = _qos(line)
            qos[level.name] = level
    return Associations(found, qos)


def _association(line: str) -> Association:
    words = _words(line)
    user = _ID.fullmatch(words.get("UserName", ""))
    parent = _ID.fullmatch(words.get("ParentAccount", ""))
    return Association(
        int(words["ID"]),
        words.get("Account", ""),
        user[1] if user else "",
        int(user[2]) if user else -1,
        words.get("Partition", ""),
        parent[1] if parent else "",
        _count(words.get("Priority", "")) or 0,
        _limits(words.get("GrpJobs", ""), words.get("GrpTRES", "")),
        math.inf if (most := _count(words.get("MaxJobs", ""))) is None else float(most),
    )


def _qos(line: str) -> Qos:
    plain, _, rest = line.partition(" Account Limits=")
    accounts, _, users = rest.partition(" User Limits=")
    words = _words(plain)
    name = _ID.fullmatch(words["QOS"])
    return Qos(
        name[1] if name else words["QOS"],
        _count(words.get("Priority", "")) or 0,
        _limits(words.get("GrpJobs", ""), words.get("GrpTRES", "")),
        _each(users, "PU"),
        _each(accounts, "PA"),
    )


def _each(text: str, suffix: str) -> Limits:
    """Limits of each user or account of a QOS: equal for all of them, so those of the first one that is listed."""
    group = _GROUP.search(text)
    if group is None:
        return {}
    words = _words(group[2])
    return _limits(words.get(f"MaxJobs{suffix}", ""), words.get(f"MaxTRES{suffix}", ""))


def _words(line: str) -> dict[str, str]:
    """``Name=value`` pieces of a line; a value may hold equal signs and has no blanks."""
    return {match[1]: match[2] for match in _WORD.finditer(line)}


def _count(text: str) -> int | None:
    """The limit of ``2(1)``; None for ``N(1)`` and for nothing."""
    digits = re.match(r"[0-9]+", text)
    return int(digits[0]) if digits else None


def _limits(jobs: str, tres: str) -> Limits:
    found = parse_tres(tres)
    count = _count(jobs)
    return found if count is None else {JOBS: float(count), **found}


def parse_shares(text: str) -> dict[tuple[str, str, str], float]:
    """Fair-share factor by (account, user, partition) of ``sshare``, as exact as its six digits allow.

    With Slurm's fair tree (the default) a factor is a rank divided by the number of user associations, so the
    digits give the fraction back.
    """
    found = {}
    for line in text.splitlines():
        pieces = [piece.strip() for piece in line.split("|")]
        if len(pieces) == 4 and pieces[1] and pieces[3]:
            found[pieces[0], pieces[1], pieces[2]] = float(pieces[3])
    count = len(found)
    return {
        key: round(f * count) / count if abs(round(f * count) / count - f) < 1e-6 else f for key, f in found.items()
    }


def limits_of(
    associations: Associations, number: int, uid: int, levels: tuple[str, ...]
) -> Iterator[tuple[str, str, float]]:
    """Yield (name, resource, most) of each limit that holds for a job.

    ``levels`` are its partition's QOS and its own, as far as there are any: the first that states a limit decides.
    """
    stated = set[tuple[str, str]]()

    def of(kind: str, name: str, limits: Limits) -> Iterator[tuple[str, str, float]]:
        for resource, most in limits.items():
            if (kind, resource) not in stated:
                yield f"{name} {resource}", resource, most

    account = associations.by_number[number].account if number in associations.by_number else ""
    for level in (associations.qos[name] for name in levels if name in associations.qos):
        yield from of("group", f"QOS {level.name}", level.group)
        yield from of("user", f"QOS {level.name} of each user (uid {uid})", level.by_user)
        yield from of("account", f"QOS {level.name} of each account ({account})", level.by_account)
        stated |= {("group", key) for key in level.group} | {("user", key) for key in level.by_user}
        stated |= {("account", key) for key in level.by_account}
    for one in associations.chain(number):
        title = f"of {one.user} in account {one.account}" if one.user else f"of account {one.account}"
        yield from of("group", title, one.group)
        if one.user and one.most_jobs != math.inf and ("user", JOBS) not in stated:
            yield f"MaxJobs {title}", JOBS, one.most_jobs
