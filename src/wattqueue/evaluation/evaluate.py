"""Estimators by name, walked over a trace and scored.

An estimator is named ``NAME`` or ``file.py:Class``, followed by ``:option=value``; corrections follow it after a plus
each: ``history-mean:alpha=1+margin:factor=1.05``. Options are read as Python literals where possible, else as text; one
that names a file (``unit-factors:table=units.csv``) is read as in a policy's row. The replay
(``parts/estimator_replay.py``) predicts each job at its submission and hands ended jobs to ``learn``, so that the score
is one that a scheduler could have achieved; an estimator that declares ``knows_future = True`` is scored as an oracle
and never called the best.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.evaluation.scores import Score, cold_users, score
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Estimator
from wattqueue.parts.estimator_replay import replay_estimator
from wattqueue.parts.online import OnlineBase
from wattqueue.parts.oracles import is_oracle
from wattqueue.parts.timeline import Timeline, job_watts, trace_timeline
from wattqueue.policy.corrected import Corrected, base_of
from wattqueue.policy.interfaces import CORRECTIONS
from wattqueue.policy.interfaces import stated as declared
from wattqueue.policy.part_text import split_part
from wattqueue.policy.registry import part_class
from wattqueue.policy.row_files import read_option

Clock = Callable[[], float]
"""Seconds of CPU time; handed in, because nothing below the command line reads a clock."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """An estimator evaluated on a trace."""

    name: str
    """The estimator as the user named it."""
    predicted_w: Floats
    """Predicted watts of one unit, NaN where it had none. Shape (n,)."""
    score: Score
    """Errors of the predictions."""


def maker(spec: str, target: str = "mean", **more: Any) -> Callable[[], Estimator]:
    """Return a function that makes new estimators of ``NAME`` or ``file.py:Class`` with ``:option=value`` after it.

    What follows a plus corrects it. ``target`` and ``more`` are passed to estimators that have such an option, unless
    the spec sets it.

    Raises: PolicyError naming what is unknown; InputError for a file that an option names.
    """
    base, *corrections = (
        _maker(text, "estimator" if k == 0 else CORRECTIONS, {"target": target, **more})
        for k, text in enumerate(spec.split("+"))
    )
    if not corrections:
        return cast("Callable[[], Estimator]", base)
    return lambda: cast("Estimator", Corrected(base(), [each() for each in corrections]))


def _maker(spec: str, kind: str, more: Mapping[str, Any]) -> Callable[[], Any]:
    """Return a function that makes new parts of one kind, with the options of a text, else those of ``more``."""
    name, stated = split_part(spec)
    found = part_class(kind, name)
    known = _options_of(found)
    unknown = sorted(set(stated) - known)
    if unknown:
        raise PolicyError(f"no option {unknown[0]!r}", where=spec, hint=f"it has {', '.join(sorted(known)) or 'none'}")
    own = set(inspect.signature(found).parameters)
    for key in set(stated) & set(declared(found, "reads", ())):
        stated[key] = read_option(key, stated[key], spec)
    options = {k: v for k, v in more.items() if k in own} | stated

    def make() -> Any:
        try:
            return found(**options)
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise PolicyError(
                f"an option has a value that it cannot take: {error}", where=spec, hint="give options as :option=value"
            ) from error

    return make


def _options_of(found: type[Any]) -> set[str]:
    """Return the options that a class takes; those of a base too, where it passes further ones on (``**more``)."""
    known: set[str] = set()
    for c in found.__mro__:
        if c is object:
            break
        parameters = inspect.signature(c).parameters.values()
        known |= {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        if not any(p.kind == p.VAR_KEYWORD for p in parameters):
            break
    return known


def evaluate(
    name: str, make: Callable[[], Estimator], jobs: Jobs, machine: Machine, *, target: str, line: Timeline, clock: Clock
) -> Evaluated:
    """Walk a trace and score the predictions. ``clock`` gives seconds of CPU time.

    Raises: PolicyError if an estimator has no watts for any job, or breaks its contract.
    """
    few = jobs.take(np.arange(min(len(jobs), 2)))
    replay_estimator(make(), few, machine, trace_timeline(few))  # loads kernels and libraries before the clock starts
    estimator = make()
    began = clock()
    walked = replay_estimator(estimator, jobs, machine, line)
    spent = clock() - began
    actual = job_watts(jobs, target)
    if len(jobs) and not np.isfinite(walked.power_w).any():
        raise PolicyError(
            "predicts no watts for any job",
            where=name,
            hint="state the watts of a node: --node-watts IDLE:MAX or --machine FILE",
        )
    # One of our own kind is an oracle because it learns at the trace's ends, which are those of this walk.
    oracle = is_oracle(estimator) and not isinstance(base_of(estimator), OnlineBase)
    user = jobs.user.codes
    cold = cold_users(actual, user, jobs.submit_s, line.end_s)
    found = score(name, walked.power_w, actual, user, quantiles=walked.quantiles, cpu_s=spent, oracle=oracle, cold=cold)
    return Evaluated(name, walked.power_w, found)


def evaluate_all(
    specs: list[str],
    jobs: Jobs,
    machine: Machine,
    *,
    target: str,
    clock: Clock,
    tell: Callable[[int, int], None] | None,
    **more: Any,
) -> list[Evaluated]:
    """Evaluate every estimator of ``specs`` on one trace, in their order.

    Args:
        specs: Estimators with their options.
        jobs: The trace.
        machine: The machine, whose maximum bounds predictions.
        target: ``mean`` or ``max`` watts.
        clock: Returns CPU seconds.
        tell: Called with (evaluated, all) before each one.
        more: Further options for estimators that have them, such as ``seed``.

    Raises: PolicyError as ``maker`` (before any work) and ``evaluate``.
    """
    makers = [maker(spec, target, **more) for spec in specs]
    line = trace_timeline(jobs)
    found = list[Evaluated]()
    for spec, make in zip(specs, makers, strict=True):
        if tell:
            tell(len(found), len(specs))
        found.append(evaluate(spec, make, jobs, machine, target=target, line=line, clock=clock))
    return found
