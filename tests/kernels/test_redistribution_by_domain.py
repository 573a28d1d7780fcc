"""Redistribution under power domains: its naive twin, no domain above its limit, and one domain as without domains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.profiles import examples
from tests.reference import redistribution as flat
from tests.reference import redistribution_by_domain as twin
from wattqueue.kernels.codes import MICRO
from wattqueue.kernels.redistribution import Sockets, new_sockets, step_caps
from wattqueue.kernels.redistribution_by_domain import even_shares, step_by_domain
from wattqueue.parts.contracts import Floats
from wattqueue.parts.domain_caps import TreeOrder, tree_of

RATES = flat.Rates(0.92, 0.96, 0.1, 0.4)
LOW_W, HIGH_W = 20.0, 260.0
SEED = st.integers(0, 2**32 - 1)


class World(NamedTuple):
    """Devices below random domains."""

    parent: list[int]
    of_device: list[int]
    limit_uw: dict[int, int]
    cap_w: Floats
    power_w: Floats
    begins: list[bool]

    def order(self) -> TreeOrder:
        order = tree_of(self.parent, np.array(self.of_device))
        order.tree.limit_uw[:] = [self.limit_uw[int(k)] for k in order.domains]
        return order


def world_of(seed: int, *, begins: float = 0.2) -> World:
    """Up to seven domains below the root in any depth, some without devices of their own, limits mostly tight."""
    rng = np.random.default_rng(seed)
    count, devices = int(rng.integers(0, 8)), int(rng.integers(1, 13))
    parent = [int(rng.integers(-1, k)) for k in range(count)]
    of_device = rng.integers(-1, count, devices).tolist()
    cap = rng.uniform(LOW_W, 200.0, devices).round(6)
    power = np.where(rng.random(devices) < 0.1, np.nan, cap * rng.uniform(0.3, 1.05, devices))
    hall = twin.Hall(parent, of_device, {}, LOW_W, HIGH_W)
    limit_uw = {}
    for k in range(-1, count):
        inside = hall.devices(k)
        stands = float(cap[inside].sum()) * rng.uniform(0.8, 1.5)
        limit_uw[k] = int(max(stands, LOW_W * len(inside)) * MICRO)
    return World(parent, of_device, limit_uw, cap, power, (rng.random(devices) < begins).tolist())


def stepped(order: TreeOrder, power_w: Floats, cap_w: Floats, begins: list[bool]) -> Floats:
    """The caps after a step, by device."""
    sockets = sockets_of(power_w[order.devices], cap_w[order.devices])
    sockets.begins[:] = np.array(begins)[order.devices]
    even_shares(sockets, order.tree)
    assert step_by_domain(sockets, order.tree, np.array([*RATES, 1.0, 0.0, 0.0])) == 0
    return order.by_device(sockets.cap_w)


def sockets_of(power_w: Floats, cap_w: Floats) -> Sockets:
    return new_sockets(power_w, cap_w.copy(), np.full(1, LOW_W), np.full(1, HIGH_W))


def left_uw(world: World, cap_w: Floats) -> dict[int, int]:
    """What each domain's limit leaves."""
    hall = twin.Hall(world.parent, world.of_device, world.limit_uw, LOW_W, HIGH_W)
    return {k: limit - sum(flat.whole(cap_w[i]) for i in hall.devices(k)) for k, limit in world.limit_uw.items()}


@examples(100)
@given(SEED)
def test_every_cap_equals_the_twin(seed: int) -> None:
    world = world_of(seed)
    hall = twin.Hall(world.parent, world.of_device, world.limit_uw, LOW_W, HIGH_W)
    want = hall.step(world.power_w.tolist(), world.cap_w.tolist(), RATES, world.begins)
    found = stepped(world.order(), world.power_w, world.cap_w, world.begins)
    # Floats round what is taken to the microwatt below or above, which also moves levels.
    np.testing.assert_allclose(found, [float(w) for w in want], rtol=0, atol=3e-5 * (len(found) + 1))


@examples(100)
@given(SEED)
def test_after_each_step_every_domain_is_within_its_limit(seed: int) -> None:
    """Over steps with other readings, starts, and limits that fall and rise."""
    world, rng = world_of(seed), np.random.default_rng(seed)
    hall, cap = twin.Hall(world.parent, world.of_device, world.limit_uw, LOW_W, HIGH_W), world.cap_w
    for _ in range(6):
        cap = stepped(world.order(), cap * rng.uniform(0.3, 1.05, len(cap)), cap, (rng.random(len(cap)) < 0.2).tolist())
        assert min(left_uw(world, cap).values()) >= 0
        assert LOW_W <= cap.min() <= cap.max() <= HIGH_W
        for k in world.limit_uw:
            least = int(LOW_W * len(hall.devices(k)) * MICRO)
            world.limit_uw[k] = max(int(world.limit_uw[k] * rng.uniform(0.7, 1.3)), least)


@examples(100)
@given(SEED)
def test_whoever_asks_for_more_stands_below_a_limit_that_is_used_up(seed: int) -> None:
    """The twin of safety: no watts stay in reserve that a device could be given."""
    world = world_of(seed, begins=0.0)
    found = stepped(world.order(), world.power_w, world.cap_w, world.begins)
    hall = twin.Hall(world.parent, world.of_device, world.limit_uw, LOW_W, HIGH_W)
    left, rounding = left_uw(world, found), 2 * (len(found) + len(world.parent) + 1) * (len(world.parent) + 1)
    lowered = {k for k, had in left_uw(world, world.cap_w).items() if had < 0}
    for i, (power, cap, new) in enumerate(zip(world.power_w, world.cap_w, found, strict=True)):
        path = hall.path(world.of_device[i])
        if power > cap * RATES.upper and new < min(cap * 1.4, HIGH_W) - 1e-3 and not lowered & set(path):
            assert min(left[k] for k in path) <= rounding


@examples(100)
@given(SEED)
def test_one_domain_gives_the_caps_of_the_budget_alone(seed: int) -> None:
    """To the last bit, also where domains below never bind."""
    world = world_of(seed)
    budget = world.limit_uw[-1]
    alone = sockets_of(world.power_w, world.cap_w)
    alone.begins[:] = world.begins
    even = np.array([min(max(budget // len(world.cap_w) / MICRO, LOW_W), HIGH_W)])
    step_caps(alone, np.array([*RATES, 1.0, 0.0, 0.0]), even, budget)
    one = world._replace(parent=[], of_device=[-1] * len(world.cap_w), limit_uw={-1: budget})
    assert stepped(one.order(), world.power_w, world.cap_w, world.begins).tolist() == alone.cap_w.tolist()


def test_what_a_rack_gives_goes_to_its_own_devices_first() -> None:
    """Two racks of two devices below a row. In rack 0 one gives 10 W: its neighbour asks for 4 W, the rest goes up.

    In rack 1 both ask for 40 W: they get the 6 W that are left, 3 each, although they ask for more.
    """
    world = World([2, 2, -1], [0, 0, 1, 1], {-1: 310_000_000, 0: 10**9, 1: 10**9, 2: 10**9},
                  np.array([100.0, 10.0, 100.0, 100.0]), np.array([50.0, 10.0, 100.0, 100.0]), [False] * 4)  # fmt: skip
    order = world.order()
    sockets = new_sockets(world.power_w[order.devices], world.cap_w[order.devices], np.zeros(1), np.full(1, HIGH_W))
    step_by_domain(sockets, order.tree, np.array([*RATES, 0.0, 0.0, 0.0]))
    assert order.by_device(sockets.cap_w).tolist() == [90.0, 14.0, 103.0, 103.0]
    # a limit of the rack that leaves nothing to its devices: all of it goes to the neighbours
    order.tree.limit_uw[[int(np.flatnonzero(order.domains == 1)[0])]] = 200_000_000
    sockets = new_sockets(world.power_w[order.devices], world.cap_w[order.devices], np.zeros(1), np.full(1, HIGH_W))
    step_by_domain(sockets, order.tree, np.array([*RATES, 0.0, 0.0, 0.0]))
    assert order.by_device(sockets.cap_w).tolist() == [90.0, 14.0, 100.0, 100.0]


def test_least_caps_above_a_limit_are_told() -> None:
    world = World([-1], [0, 0], {-1: 10**9, 0: 30_000_000}, np.full(2, 50.0), np.full(2, 50.0), [False] * 2)
    order = world.order()
    sockets = sockets_of(world.power_w, world.cap_w)
    assert step_by_domain(sockets, order.tree, np.array([*RATES, 0.0, 0.0, 0.0])) == 10_000_000
    assert sockets.cap_w.tolist() == [LOW_W, LOW_W]
