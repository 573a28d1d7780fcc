"""Turns of jobs of several components: who is released, who keeps room, and that nobody waits for ever."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from wattqueue.live.components import ComponentGroup, ComponentTurns, Kept

TIMEOUT_S = 30.0
YES, NO = Kept(room=True, released=True), Kept(room=False, released=False)
HELD_AGAIN = Kept(room=True, released=False)
HELD = math.inf


def ask(turns: ComponentTurns, now_s: float, *groups: ComponentGroup) -> list[Kept]:
    """One round with these groups, the oldest first."""
    turns.begin_round({group.whole for group in groups})
    return [turns.ask(group, now_s) for group in groups]


def group(
    whole: str = "1", since_s: float = HELD, *, blocked: bool = False, refused: bool = False, watts: bool = True,
    nodes: bool = True,
) -> ComponentGroup:  # fmt: skip
    return ComponentGroup(whole, since_s, blocked, refused, watts, nodes)


def test_one_that_fits_is_released_and_late_if_it_does_not_start() -> None:
    turns = ComponentTurns(TIMEOUT_S)
    assert ask(turns, 0.0, group()) == [YES]
    assert ask(turns, 1.0, group(since_s=1.0)) == [YES]
    assert turns.late == set()
    assert ask(turns, 32.0, group(since_s=1.0)) == [HELD_AGAIN], "room is kept until it is held"
    assert turns.late == {"1"}
    assert ask(turns, 33.0, group(refused=True)) == [NO]
    assert turns.late == set()
    assert ask(turns, 63.0, group()) == [YES]


def test_one_that_something_else_keeps_is_held_after_a_second() -> None:
    turns = ComponentTurns(TIMEOUT_S)
    assert ask(turns, 0.5, group(since_s=0.0, blocked=True)) == [YES]
    assert ask(turns, 2.0, group(since_s=0.0, blocked=True)) == [HELD_AGAIN]
    assert turns.late == {"1"}


def test_of_those_that_do_not_fit_only_the_oldest_has_a_turn() -> None:
    turns = ComponentTurns(TIMEOUT_S)
    first, second, fits = group("1", nodes=False), group("2", nodes=False), group("3")
    assert ask(turns, 0.0, first, second, fits) == [YES, NO, YES]
    assert ask(turns, 10.0, second, fits) == [YES, YES], "the rest of the turn"
    assert ask(turns, 31.0, second, fits) == [NO, YES], "a pause for the policy"


def test_without_the_watts_it_keeps_what_is_free_and_is_not_released() -> None:
    turns = ComponentTurns(TIMEOUT_S)
    assert ask(turns, 0.0, group(watts=False)) == [HELD_AGAIN]


def test_turns_of_one_job_double() -> None:
    turns, on = ComponentTurns(TIMEOUT_S), list[float]()
    for second in range(1000):
        on += [float(second)] if ask(turns, float(second), group(nodes=False))[0].room else []
    edges = [s for s in on if s - 1.0 not in on]
    ends = [s for s in on if s + 1.0 not in on]
    assert [end - begin + 1.0 for begin, end in zip(edges, ends, strict=True)][:4] == [30.0, 60.0, 120.0, 240.0]


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_what_is_released_has_its_watts_kept(steps: list[tuple[int, bool, bool, bool]]) -> None:
    """Whatever comes: none is released without its watts; what is free for Slurm keeps its room until it is held."""
    turns, since = ComponentTurns(TIMEOUT_S), dict[str, float]()
    for k, (count, blocked, watts, nodes) in enumerate(steps):
        now_s = 7.0 * k
        groups = [
            group(str(j), since.get(str(j), HELD), blocked=blocked and str(j) in since, watts=watts, nodes=nodes)
            for j in range(count)
        ]
        for one, kept in zip(groups, ask(turns, now_s, *groups), strict=True):
            assert kept.room >= kept.released
            assert not kept.released or one.fits_watts
            assert kept.room or one.released_s == HELD
            if kept.released:
                since.setdefault(one.whole, now_s)
            else:
                since.pop(one.whole, None)
