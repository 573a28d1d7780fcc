"""Estimators by name, walked over a trace and scored."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Estimator
from wattqueue.parts.timeline import Timeline, job_watts, trace_timeline
from wattqueue.parts.walk import walk
from wattqueue.policy.registry import part_class
from wattqueue.study.prediction.scores import Score, score

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """An estimator on a trace: its predictions (n,), watts of one unit, and what they are worth."""

    name: str
    predicted_w: Floats
    score: Score


def maker(spec: str, target: str = "mean", **more: Any) -> Callable[[], Estimator]:
    """What makes new estimators of ``NAME`` or ``file.py:Class``, with ``:option=value`` behind it.

    ``target`` and ``more`` are handed to those that take such an option and were not told otherwise.

    Raises: PolicyError naming what is unknown.
    """
    words = spec.split(":")
    name = ":".join(w for w in words if "=" not in w)
    found = part_class("estimator", name)
    known = {key for c in found.__mro__ for key in inspect.signature(c).parameters if c is not object}
    known -= {"args", "kwargs"}
    stated = dict(_option(w, spec) for w in words if "=" in w)
    unknown = sorted(set(stated) - known)
    if unknown:
        raise PolicyError(f"no option {unknown[0]!r}", where=spec, mend=f"it has {', '.join(sorted(known)) or 'none'}")
    own = set(inspect.signature(found).parameters)
    options = {k: v for k, v in {"target": target, **more}.items() if k in own} | stated

    def make() -> Estimator:
        try:
            return cast("Estimator", found(**options))
        except TypeError as error:
            raise PolicyError(str(error), where=spec, mend="give its options as :option=value") from error

    return make


def _option(word: str, spec: str) -> tuple[str, Any]:
    key, _, text = word.partition("=")
    if not key.isidentifier():
        raise PolicyError(f"{word!r} is no option", where=spec, mend="write NAME:option=value")
    if text == "inf":
        return key, np.inf
    try:
        return key, ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return key, text


def evaluate(
    name: str, make: Callable[[], Estimator], jobs: Jobs, machine: Machine, *, target: str, line: Timeline, clock: Clock
) -> Evaluated:
    """Walk a trace and score what was predicted. ``clock`` gives seconds of CPU time.

    Raises: PolicyError where an estimator knows no watts at all, or breaks its contract.
    """
    few = jobs.take(np.arange(min(len(jobs), 2)))
    walk(make(), few, machine, trace_timeline(few))  # loads kernels and libraries, which is no prediction's cost
    estimator = make()
    began = clock()
    walked = walk(estimator, jobs, machine, line)
    spent = clock() - began
    actual = job_watts(jobs, target)
    if len(jobs) and not np.isfinite(walked.power_w).any():
        raise PolicyError(
            "knows no watts for any job",
            where=name,
            mend="state what a unit draws: --node-watts IDLE:MAX or --machine FILE",
        )
    bound = bool(getattr(estimator, "knows_future", False))
    user = jobs.user.codes
    found = score(name, walked.power_w, actual, user, quantiles=walked.quantiles, cpu_s=spent, bound=bound)
    return Evaluated(name, walked.power_w, found)


def evaluate_all(
    specs: list[str],
    jobs: Jobs,
    machine: Machine,
    *,
    target: str,
    clock: Clock,
    tell: Callable[[str], None],
    **more: Any,
) -> list[Evaluated]:
    """Every estimator of ``specs`` on one trace, in their order; ``tell`` hears which is under way."""
    makers = [maker(spec, target, **more) for spec in specs]  # so that a wrong name is said before work begins
    line = trace_timeline(jobs)
    found = []
    for spec, make in zip(specs, makers, strict=True):
        tell(spec)
        found.append(evaluate(spec, make, jobs, machine, target=target, line=line, clock=clock))
    return found
