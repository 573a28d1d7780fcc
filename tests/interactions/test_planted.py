"""One planted defect for each oracle of the interaction matrix is found, and none in the same world without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.interactions import changes as to
from tests.interactions.features import FEATURES
from tests.interactions.matrix import draft_of
from tests.interactions.oracles import ORACLES
from tests.interactions.watch import Watched, watched
from tests.interactions.worlds import Draft
from wattqueue.parts.actions import Action
from wattqueue.policy.state_view import own_kernel
from wattqueue.policy.view import View


class Writes:
    """A broken control: it writes to the arrays that it is given."""

    period_s = 0.0
    events = frozenset({"arrival", "completion", "signal"})

    def __init__(self, write: Callable[[View], None]) -> None:
        self.write = write

    def act(self, view: View) -> Sequence[Action]:
        self.write(view)
        return []


def loses_watts(view: View) -> None:
    """The ledger forgets what a job counts."""
    own_kernel(view).now.ledger_uw -= 1_000_000 * (len(view.running) > 0)


def raises_the_cap(view: View) -> None:
    """The budget is wider than the cap."""
    own_kernel(view).now.available_uw = 10**12


def slows_everybody(view: View) -> None:
    """Jobs are set to their last option, whoever consents."""
    if view.target_w < np.inf:
        rows = view.running
        own_kernel(view).held.option[rows] = view.machine.option_start[-1] - 1


class Forgets:
    """A pass in Python that remembers runs before it: every second one starts nothing before 40 s."""

    runs = 0

    def __init__(self) -> None:
        Forgets.runs += 1
        self.late = Forgets.runs % 2 == 0
        self.inner = to.InTurn()

    def schedule(self, view: View) -> Any:
        return [] if self.late and view.now_s < 40.0 else self.inner.schedule(view)


def writes(write: Callable[[View], None]) -> Callable[[Draft], None]:
    return lambda draft: draft.controls.append(lambda: Writes(write))


def tries_nothing(view: View) -> None:
    """Passes try no entry."""
    own_kernel(view).now.depth = 0


def not_again(draft: Draft) -> None:
    draft.row["backfill"] = Forgets


def arrivals_alone(view: View) -> None:
    """What changed since the last pass is forgotten: passes begin at the arrivals."""
    own_kernel(view).now.dirty = 0


def tries_the_head_alone(view: View) -> None:
    """Passes try one entry, and no snapshot says so."""
    own_kernel(view).now.depth = 1


PLANTED: dict[str, tuple[tuple[str, ...], Callable[[Draft], None]]] = {
    "conservation": (("ledger predicted",), writes(loses_watts)),
    "cap": (("ledger predicted",), writes(raises_the_cap)),
    "progress": (("ledger predicted",), writes(tries_nothing)),
    "consent": (("load targets",), writes(slows_everybody)),
    "equal bytes": (("ledger predicted",), not_again),
    "whole passes": (("ledger predicted",), writes(arrivals_alone)),
    "snapshots": (("ledger predicted",), writes(tries_the_head_alone)),
}


@pytest.mark.parametrize("name", ORACLES)
def test_a_planted_defect_is_found(name: str) -> None:
    features, plant = PLANTED[name]
    for attempt in range(6):
        draft = draft_of([FEATURES[each] for each in features], attempt)
        assert not [*ORACLES[name](draft, watched(draft.simulation(Watched)))]
        plant(draft)
        if [*ORACLES[name](draft, watched(draft.simulation(Watched)))]:
            return
    pytest.fail(f"nothing of it was found by {name}")
