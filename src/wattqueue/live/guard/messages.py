"""Read writes from JSON: what a planner may ask for is what can be read here, and nothing else.

A write is an object with its ``kind`` and its fields by name. Reading is strict: an unknown kind, an unknown field, a
value of another type or beyond its bound is refused, since the planner is not trusted. ``reduces_power`` is not read:
the guard finds out itself what only lowers (``checks``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from wattqueue.live.cluster import (
    ChangeJob,
    ContinueJob,
    HoldJob,
    JobFields,
    JobKey,
    PowerNode,
    ReleaseJob,
    RequeueJob,
    SetDrain,
    SetJobFrequency,
    SetPool,
    SetPriority,
    StopJob,
    Write,
)

KINDS: Mapping[str, type[Write]] = {
    kind.kind: kind
    for kind in (
        SetPool, HoldJob, ChangeJob, SetJobFrequency, ReleaseJob, SetPriority, RequeueJob, StopJob, ContinueJob,
        PowerNode, SetDrain,
    )
}  # fmt: skip
TEXT, NUMBER = 2_000, 2**53
"""Longest text, and largest number of a write."""


def from_json(found: object) -> Write:
    """Return the write of an object of JSON. Raises: ValueError for anything that is none."""
    if not isinstance(found, dict):
        raise ValueError("no object")  # noqa: TRY004  whatever is wrong with a message is one kind of error
    kind = KINDS.get(str(found.get("kind")))
    if kind is None:
        raise ValueError(f"unknown kind {str(found.get('kind'))[:40]!r}")
    known = {one.name for one in fields(kind)} - {"reduces_power"}
    given = {name: value for name, value in found.items() if name != "kind"}
    if unknown := given.keys() - known:
        raise ValueError(f"{kind.kind}: unknown field {sorted(map(str, unknown))[0][:40]!r}")
    try:
        return kind(**{name: _READ[name](value) for name, value in given.items()})
    except TypeError as error:
        raise ValueError(f"{kind.kind}: a field is missing") from error


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > TEXT:
        raise ValueError("no text")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -NUMBER <= value <= NUMBER:
        raise ValueError("no whole number")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("no number")
    return float(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")  # noqa: TRY004
    return value


def _key(value: object) -> JobKey:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("no job")
    return JobKey(_text(value[0]), _number(value[1]))


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("no list of nodes")  # noqa: TRY004
    return tuple(map(_text, value))


def _range(value: object) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("no range of nodes")
    return _whole(value[0]), _whole(value[1])


def _fields(value: object) -> JobFields:
    if not isinstance(value, dict) or value.keys() - _OF_A_JOB.keys():
        raise ValueError("no fields of a job")
    return JobFields(**{name: _OF_A_JOB[name](one) for name, one in value.items()})


_OF_A_JOB: Mapping[str, Callable[[object], Any]] = {
    "partition": _text, "node_count": _range, "watts": _whole, "nodes": _names, "limit_s": _number, "comment": _text,
}  # fmt: skip
_READ: Mapping[str, Callable[[object], Any]] = {
    "target": _text, "before": _text, "after": _text, "why": _text, "key": _key, "open_w": _whole, "fields": _fields,
    "recount": _flag, "khz": _whole, "priority": _whole, "on": _flag,
}  # fmt: skip
