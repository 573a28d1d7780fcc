"""Power domains beside partitions whose nodes jobs share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.test_hres import random_machine
from tests.profiles import examples
from tests.reference.supply import NaiveSupply
from wattqueue.errors import InputError, MachineError
from wattqueue.live.config import load_config
from wattqueue.live.features.supply import licences_of
from wattqueue.live.files.supply_limits import GATE
from wattqueue.live.managed import managed_machine, shared_nodes
from wattqueue.live.shared_nodes import SharedNodes
from wattqueue.live.watts.shared_supply import without_shared
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.model.supply import SupplyDomain

P, S = Partition("p", 4, idle_w=100.0, max_w=300.0), Partition("s", 4, idle_w=100.0, max_w=300.0)
HALL = Machine(
    "hall",
    (P, S),
    supply=(
        SupplyDomain(name="r1", parent="row", nodes="p[1-2],s[1]", limit_w=300.0 + 400.0),
        SupplyDomain(name="r2", parent="row", nodes="p[3-4]", limit_w=200.0 + 400.0),
        SupplyDomain(name="r3", parent="row", nodes="s[2-4]", limit_w=900.0, base_w=50.0),
        SupplyDomain(name="row", limit_w=850.0 + 800.0 + 500.0, efficiency=1.0),
    ),
)


ROOMY = replace(HALL, supply=(*HALL.supply[:2], replace(HALL.supply[2], limit_w=950.0), HALL.supply[3]))
"""With a third rack that holds its shared nodes at their maximum."""


def test_shared_nodes_count_their_maximum_in_every_domain_above() -> None:
    """r1: 400 W above idle, 200 of them for s1; row: 1,300 W, 800 of them for shared nodes. r3 is theirs alone."""
    found = without_shared(ROOMY, {"s"})
    assert [one.name for one in found.supply_tree.domains] == ["r1", "r2", "row"]
    left = [
        one.least_limit_w - uw / 1e6
        for one, uw in zip(found.supply_tree.domains, found.supply_idle_uw.tolist(), strict=True)
    ]
    assert left == [200.0, 400.0, 500.0]


def test_a_limit_that_shared_nodes_alone_exceed_is_refused() -> None:
    with pytest.raises(MachineError, match="r3: 950 W with its shared nodes at their maximum"):
        without_shared(HALL, {"s"})
    bare = replace(HALL, partitions=(P, replace(S, max_w=None)))
    with pytest.raises(MachineError, match="max_w is not stated"):
        without_shared(bare, {"s"})


@examples(60)
@given(st.integers(0, 2**32 - 1))
def test_what_fits_without_shared_nodes_fits_whatever_these_draw(seed: int) -> None:
    """And what does not fit would be above a limit with all of them at their maximum."""
    rng = np.random.default_rng(seed)
    machine = random_machine(seed)
    wide = replace(machine, supply=tuple(
        one if one.limit_w is None else replace(one, limit_w=one.limit_w + 4_000.0) for one in machine.supply
    ))  # fmt: skip
    if len(machine.partitions) < 2:
        return
    name, units = machine.partitions[1].name, machine.partitions[0].nodes
    managed = without_shared(wide, {name})
    most_w = 400.0 - (0.0 if machine.cap_scope == "jobs" else machine.partitions[1].idle_w)
    held, watts = list(range(int(rng.integers(0, units + 1)))), int(rng.integers(0, 3_000))
    theirs = list(range(units, machine.units))
    full, less = NaiveSupply(wide), NaiveSupply(managed)
    load = [(held, watts * 1_000_000, 1.0), (theirs, round(most_w * 1e6), 1.0)]
    left = {one: room.left(None) for one, room in full.room(0.0, full.idle(range(machine.units)), load).items()}
    fits = less.room(0.0, less.idle(range(managed.units)), load[:1])
    for one, room in fits.items():
        assert room.left(None) == pytest.approx(left[one], abs=20.0)


def test_jobs_start_beside_shared_nodes_and_no_rack_is_above_its_limit(tmp_path: Path) -> None:
    """Shared jobs run on s1 whatever the controller does; r1 has room for one managed node beside it, not for two."""
    machine = without_shared(ROOMY, {"s"})
    nodes = {"p": [f"n{k}" for k in range(1, 5)], "s": [f"s{k}" for k in range(1, 5)]}
    slurm = FakeSlurm(nodes, 3_000, shared=frozenset({"s"}))
    slurm.domains = {"w1": 200, "w2": 400, "w": 500, GATE: 1}
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(4_000.0), machine=machine,
        domains={"r1": "w1", "r2": "w2", "row": "w"}, shared_nodes=SharedNodes((S,)),
    )  # fmt: skip
    for _ in range(8):
        slurm.submit_shared(8, 500.0, "s")
    jobs = [slurm.submit(1, 30.0, watts=200) for _ in range(6)]
    for job in jobs:
        job.licences[GATE] = 1
    for _ in range(120):
        controller.round()
        slurm.step()
        busy = {name for job in slurm.running() for name in job.held_nodes}
        assert 200 * len(busy & {"n1", "n2", "s1"}) <= 400
        assert 200 * len(busy) <= 1_300
    assert {job.state for job in jobs} == {"COMPLETED"}


def test_a_configuration_with_shared_partitions_and_domains(tmp_path: Path) -> None:
    text = 'name = "hall"\n' + "".join(
        f'[[partitions]]\nname = "{name}"\nnodes = 4\nidle_w = 100.0\nmax_w = 300.0\n' for name in ("p", "s")
    )
    for one in ROOMY.supply:
        parent, nodes = f'parent = "{one.parent}"\n' * bool(one.parent), f'nodes = "{one.nodes}"\n' * bool(one.nodes)
        text += f'[[supply]]\nname = "{one.name}"\n{parent}{nodes}limit_w = {one.limit_w}\n'
    (tmp_path / "machine.toml").write_text(text)
    licences = {"r1": "w1", "r2": "w2", "row": "w"}
    slurm = "shared = ['s']\ndomains = { r1 = 'w1', r2 = 'w2', row = 'w' }\n"
    file = tmp_path / "live.toml"
    file.write_text(f"machine = 'machine.toml'\npolicy = 'easy'\ncap = '4000W'\n[slurm]\n{slurm}")
    config = load_config(file)
    machine = managed_machine(config)
    assert [one.name for one in machine.partitions] == ["p"]
    assert licences_of(config, machine) == licences
    nodes_of = {"p": [f"n{k}" for k in range(1, 5)], "s": [f"s{k}" for k in range(1, 5)]}
    both = shared_nodes(config).with_shared(machine, FakeSlurm(nodes_of, 3_000).observe().nodes)
    assert [one.nodes for one in both.partitions] == [4, 4], "what the cap covers"
    file.write_text("machine = 'machine.toml'\npolicy = 'easy'\ncap = '4000W'\n[slurm]\nshared = ['s']\nhres = true\n")
    held = load_config(file)
    with pytest.raises(InputError, match="not combined"):
        licences_of(held, managed_machine(held))
