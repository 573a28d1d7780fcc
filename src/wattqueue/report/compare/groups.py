"""Which runs belong together: everything that run.toml states is equal but the seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wattqueue.errors import InputError
from wattqueue.report.run import Metric, Run

RUN_ALONE = frozenset({"seed", "wattqueue_version"})
"""Keys of run.toml, at any depth, that may differ within a group."""


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One run of a comparison: the name of its directory, what run.toml states, the run."""

    name: str
    facts: Mapping[str, Any]
    run: Run

    @property
    def seed(self) -> int | None:
        """The seed that the run was made with, None where there was none."""
        return self.run.about.seed

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The run's metrics by name."""
        return self.run.metrics


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Runs that differ in their seed alone."""

    label: str
    members: tuple[Member, ...]

    def by_seed(self) -> dict[int, Member]:
        """Members that have a seed of their own within the group."""
        seeds = [m.seed for m in self.members if m.seed is not None]
        return {m.seed: m for m in self.members if m.seed is not None and seeds.count(m.seed) == 1}


def grouped(members: Sequence[Member]) -> tuple[Group, ...]:
    """Groups in the order in which their first runs came; the first is what others are compared with.

    Raises: InputError for fewer than two runs, or one directory named twice.
    """
    if len(members) < 2:
        raise InputError("comparing needs at least two runs", mend="name two or more run directories")
    names = [m.name for m in members]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError("named twice", where=twice, mend="name each run directory once")
    found: dict[str, list[Member]] = {}
    seen: set[tuple[str, int]] = set()
    for member in members:
        same = identity(member)
        # Two equal runs without a seed, or with the same one, are still two: chance made no difference.
        if member.seed is None or (same, member.seed) in seen:
            found[same + member.name] = [member]
            continue
        seen.add((same, member.seed))
        found.setdefault(same, []).append(member)
    labels = _labels(list(found.values()))
    return tuple(Group(label, tuple(runs)) for label, runs in zip(labels, found.values(), strict=True))


def identity(member: Member) -> str:
    """What must be equal within a group, as text."""
    run = member.run
    cap = run.about.cap or [run.cap.time_s.tolist(), run.cap.cap_w.tolist()]
    stated = [_without(member.facts), run.about.policy, run.about.estimator, run.about.machine, cap, run.partitions]
    return json.dumps(stated, sort_keys=True, default=str)


def _without(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without(v) for k, v in value.items() if k not in RUN_ALONE}
    return value


def _labels(groups: Sequence[Sequence[Member]]) -> list[str]:
    """Names of directories where each group is one run, else what tells the groups apart."""
    if all(len(group) == 1 for group in groups):
        return _short([group[0].name for group in groups])
    first = [group[0] for group in groups]
    told = [_described(member) for member in first]
    differ = [len({words[k] for words in told}) > 1 for k in range(len(told[0]))]
    labels = [", ".join(w for w, keep in zip(words, differ, strict=True) if keep and w) for words in told]
    return [
        label if label and labels.count(label) == 1 else member.name
        for label, member in zip(labels, first, strict=True)
    ]


def _described(member: Member) -> tuple[str, ...]:
    about = member.run.about
    return (about.policy, about.estimator, about.cap or "no cap", about.machine, about.workload)


def _short(names: Sequence[str]) -> list[str]:
    """Paths without the folders that all of them share."""
    parts = [name.rstrip("/").split("/") for name in names]
    while all(len(p) > 1 for p in parts) and len({p[0] for p in parts}) == 1:
        parts = [p[1:] for p in parts]
    return ["/".join(p) for p in parts]
