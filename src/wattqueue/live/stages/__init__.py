"""The stages of a plan, in the order of an instant (semantics, rule 2); extensions insert theirs between them."""

from __future__ import annotations

from collections.abc import Iterable

from wattqueue.live.extension import Extension, Place
from wattqueue.live.planner import StageFunction
from wattqueue.live.stages.budget import budget
from wattqueue.live.stages.classify import classify
from wattqueue.live.stages.count import count
from wattqueue.live.stages.decide import decide
from wattqueue.live.stages.goals import goals
from wattqueue.live.stages.learn import learn
from wattqueue.live.stages.observe import observe
from wattqueue.live.stages.occupy import occupy
from wattqueue.live.stages.place import place
from wattqueue.live.stages.predict import predict
from wattqueue.live.stages.reserve import reserve

PLAN: tuple[StageFunction | Place, ...] = (
    "observed", observe, classify, "classified", learn, "learned", predict, count, occupy, budget, reserve, "decide",
    decide, "decided", place, goals, "planned",
)  # fmt: skip
"""Stages, and the places between them."""


def plan_with(extensions: Iterable[Extension]) -> tuple[StageFunction, ...]:
    """Return the stages of a plan with those of some extensions, which keep their order at each place."""
    extensions, found = list(extensions), list[StageFunction]()
    for one in PLAN:
        if isinstance(one, str):
            found += [extension.stages[one] for extension in extensions if one in extension.stages]
        else:
            found.append(one)
    return tuple(found)
