"""Group the runs of a comparison: runs belong together if everything in their run.toml is equal except the seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wattqueue.errors import InputError
from wattqueue.policy.oracles import marked
from wattqueue.report.run import Metric, RunData

MAY_DIFFER = frozenset({"seed", "wattqueue_version"})
"""Keys of run.toml, at any depth, that may differ within a group."""


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One run of a comparison.

    Attributes:
        name: Its directory.
        facts: What its run.toml states.
        run: The run.
    """

    name: str
    facts: Mapping[str, Any]
    run: RunData

    @property
    def seed(self) -> int | None:
        """Return the seed of the run, None where there was none."""
        return self.run.about.seed

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Return the run's metrics by name."""
        return self.run.metrics


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Runs that differ in their seed alone.

    Attributes:
        label: What tables and figures call the group.
        members: Its runs.
    """

    label: str
    members: tuple[Member, ...]

    def by_seed(self) -> dict[int, Member]:
        """Return members by seed, without those whose seed occurs twice in the group."""
        seeds = [m.seed for m in self.members if m.seed is not None]
        return {m.seed: m for m in self.members if m.seed is not None and seeds.count(m.seed) == 1}


def pairs_of(base: Group, other: Group) -> list[tuple[Member, Member]]:
    """Return the runs of two groups that belong together: equal seeds, or the only run of each; empty for none."""
    left, right = base.by_seed(), other.by_seed()
    seeds = [seed for seed in left if seed in right]
    if not seeds and len(base.members) == len(other.members) == 1:
        return [(base.members[0], other.members[0])]
    return [(left[seed], right[seed]) for seed in seeds]


def grouped(members: Sequence[Member]) -> tuple[Group, ...]:
    """Return groups in the order in which their first runs came; the first is the reference of all differences.

    Runs without a seed, and a second run of the same seed, stay groups of their own: they are no further sample of
    the random inputs, and counting them twice would make intervals too narrow.

    Raises:
        InputError: Fewer than two runs, or one directory named twice.
    """
    if len(members) < 2:
        raise InputError("a comparison needs at least two runs", hint="name two or more run directories")
    names = [m.name for m in members]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError("the directory is named twice", where=twice, hint="name each run directory once")
    found: dict[str, list[Member]] = {}
    seen: set[tuple[str, int]] = set()
    for member in members:
        same = identity(member)
        # Two equal runs without a seed, or with the same seed, are not two samples: no random input differs.
        if member.seed is None or (same, member.seed) in seen:
            found[same + member.name] = [member]
            continue
        seen.add((same, member.seed))
        found.setdefault(same, []).append(member)
    labels = _labels(list(found.values()))
    return tuple(
        Group(marked(label, runs[0].run.about.oracle), tuple(runs))
        for label, runs in zip(labels, found.values(), strict=True)
    )


def identity(member: Member) -> str:
    """Return as text what must be equal within a group.

    That is all of run.toml except the seed, and machine, partitions and cap.
    """
    run = member.run
    # A cap given as a file has no text of its own worth comparing: its steps decide.
    cap = run.about.cap or [run.cap.time_s.tolist(), run.cap.cap_w.tolist()]
    stated = [_without(member.facts), run.about.policy, run.about.estimator, run.about.machine, cap, run.partitions]
    return json.dumps(stated, sort_keys=True, default=str)


def _without(value: Any) -> Any:
    """Return a value without the keys of MAY_DIFFER, at any depth."""
    if isinstance(value, Mapping):
        return {k: _without(v) for k, v in value.items() if k not in MAY_DIFFER}
    return value


def _labels(groups: Sequence[Sequence[Member]]) -> list[str]:
    """Return one label per group: directory names where each group is one run, else what tells the groups apart.

    A label that would be ambiguous or empty is replaced by the directory of the group's first run.
    """
    if all(len(group) == 1 for group in groups):
        return _short([group[0].name for group in groups])
    first = [group[0] for group in groups]
    described = [_described(member) for member in first]
    # Only properties in which the groups differ are worth printing.
    differ = [len({words[k] for words in described}) > 1 for k in range(len(described[0]))]
    labels = [", ".join(w for w, keep in zip(words, differ, strict=True) if keep and w) for words in described]
    return [
        label if label and labels.count(label) == 1 else member.name
        for label, member in zip(labels, first, strict=True)
    ]


def _described(member: Member) -> tuple[str, ...]:
    """Return the properties by which groups may differ, in the order of a label."""
    about = member.run.about
    return (about.policy, about.estimator, about.cap or "no cap", about.machine, about.workload)


def _short(names: Sequence[str]) -> list[str]:
    """Return paths without the leading folders that all of them share."""
    parts = [name.rstrip("/").split("/") for name in names]
    while all(len(p) > 1 for p in parts) and len({p[0] for p in parts}) == 1:
        parts = [p[1:] for p in parts]
    return ["/".join(p) for p in parts]
