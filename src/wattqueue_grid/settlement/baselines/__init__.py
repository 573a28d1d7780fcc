"""Published baselines by name: what a site would have drawn without an event, by the rule of a market.

Each file has one rule, its source and the readings that its text leaves open. A rule sees a ``BaselineCase`` and
returns a ``BaselineLoad``; it raises InputError where the history is too short for it.

A baseline is the market's convention, agreed in a contract. WattQueue's own counterfactual (a replay without the load
target) answers another question and stands beside it in a statement, never in its place.
"""

from __future__ import annotations

from collections.abc import Callable

from wattqueue.errors import InputError, one_of
from wattqueue_grid.settlement.baselines import caiso_10_in_10, nyiso_cbl, pjm_match_day, pjm_same_day
from wattqueue_grid.settlement.load_history import BaselineCase, BaselineLoad

Rule = Callable[[BaselineCase], BaselineLoad]
BASELINES: dict[str, Rule] = {
    module.NAME: module.baseline for module in (caiso_10_in_10, nyiso_cbl, pjm_match_day, pjm_same_day)
}
"""Rules by their names, as contracts write them."""


def rule_of(name: str, where: str) -> Rule:
    """Return a rule by its name. Raises: InputError that lists the names."""
    if name not in BASELINES:
        raise InputError(f"no baseline {name!r}", where=where, hint=one_of(name, BASELINES))
    return BASELINES[name]
