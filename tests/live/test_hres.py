"""Power domains as a hierarchical resource of Slurm: the file, read back, and what its counts let run."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.profiles import examples
from tests.program import wattqueue
from tests.reference.supply import NaiveSupply
from tests.sim.test_supply import random_supply
from wattqueue.errors import InputError, MachineError
from wattqueue.live.slurm.hres import (
    HresLayer,
    differences,
    holds_trees,
    hres_text,
    layers_of,
    read_hres,
    shown_layers,
)
from wattqueue.live.watts.counted import as_counted, count_of
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.supply import SupplyDomain

MACHINE = Machine(
    "racks",
    (Partition("p", 6, idle_w=50.0, max_w=300.0), Partition("q", 2, idle_w=100.0, max_w=400.0)),
    supply=(
        SupplyDomain(name="r1", parent="row", nodes="p[1-3]", limit_w=500.0),
        SupplyDomain(name="r2", parent="row", nodes="p[4-6]", limit_w=700.0, efficiency=0.9, base_w=20.0),
        SupplyDomain(name="row", limit_w=1_100.0),
        SupplyDomain(name="hall", nodes="q"),
    ),
)
NAMES = [*(f"n{k}" for k in range(1, 7)), "g1", "g2"]


def random_machine(seed: int) -> Machine:
    """Up to eight nodes in one or two partitions, under a random tree without limits that move."""
    rng = np.random.default_rng(seed)
    parts = tuple(
        Partition(f"p{k}", int(rng.integers(1, 5)), idle_w=float(rng.integers(0, 60)), max_w=400.0)
        for k in range(int(rng.integers(1, 3)))
    )
    scopes = ("machine", "dynamic", "jobs")
    machine = Machine("m", parts, scopes[int(rng.integers(3))])  # type: ignore[arg-type]
    supply = random_supply(seed, machine, 300.0, 1.0)
    still = (replace(one, limit_w=one.limits_w[0], limit_s=(), limits_w=()) if one.limit_s else one for one in supply)
    return replace(machine, supply=tuple(still))


def names_of(machine: Machine) -> list[str]:
    return [f"n{k:02}" for k in range(machine.units)]


def test_counts_by_hand() -> None:
    """Watts above idle and base, over the losses on the way, less a microwatt a node; one layer above all.

    r1: 500 - 150 W; r2: 700 - (20 + 150 / 0.9) W, times 0.9; row: 1,100 - (150 + 20 + 150 / 0.9) W, times 0.9; hall:
    what its nodes draw above idle, 600 W. It stands a level higher than the racks, and is divided.
    """
    found = [(one.name, one.nodes, one.count) for one in layers_of(MACHINE, NAMES)]
    assert found[0] == ("all", tuple(NAMES), 686 + 600)
    assert found[1] == ("row", tuple(NAMES[:6]), 686)
    assert set(found[2:]) == {
        ("r1", ("n1", "n2", "n3"), 350), ("r2", ("n4", "n5", "n6"), 461), ("hall", ("g1", "g2"), 600),
        ("hall", ("g1",), 600), ("hall", ("g2",), 600),
    }  # fmt: skip


def exported(seed: int) -> tuple[Machine, list[HresLayer]]:
    """A random machine whose tree can be divided to one depth, and its layers."""
    for k in itertools.count():
        machine = random_machine(seed + k)
        with contextlib.suppress(MachineError):
            return machine, layers_of(machine, names_of(machine))
    raise AssertionError


def test_domains_of_the_same_nodes_become_one_layer() -> None:
    """A contract above a hall: the lesser of what both leave."""
    chain = (
        SupplyDomain(name="r1", parent="hall", nodes="p", limit_w=2_000.0),
        SupplyDomain(name="hall", parent="contract", limit_w=1_500.0),
        SupplyDomain(name="contract", limit_w=1_800.0),
    )
    machine = Machine("m", MACHINE.partitions[:1], supply=chain)
    assert [(one.name, one.count) for one in layers_of(machine, NAMES[:6])] == [("hall", 1_200)]


def test_one_node_less_deep_than_others_is_refused() -> None:
    supply = (*MACHINE.supply[:3], SupplyDomain(name="hall", nodes="q", limit_w=900.0))
    parts = (MACHINE.partitions[0], replace(MACHINE.partitions[1], nodes=1))
    with pytest.raises(MachineError, match="1 nodes 1 levels above the lowest domains"):
        layers_of(replace(MACHINE, partitions=parts, supply=supply), NAMES[:7])


@examples(60)
@given(st.integers(0, 2**32 - 1))
def test_the_file_is_read_back(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """By our reader, and by a YAML parser in the form that Slurm documents; layers are as deep everywhere."""
    machine, layers = exported(seed)
    names = names_of(machine)
    assert len({frozenset(one.nodes) for one in layers}) == len(layers)
    file = tmp_path_factory.mktemp("hres") / "resources.yaml"
    file.write_text(hres_text(machine, layers))
    assert read_hres(file) == layers
    assert differences(layers, read_hres(file)) == []
    (found,) = yaml.safe_load(file.read_text())
    assert (found["resource"], found["mode"]) == ("power", "MODE_3")
    assert [one["count"] for one in found["layers"]] == [one.count for one in layers]
    assert len({sum(name in one.nodes for one in layers) for name in names}) == 1
    assert set(layers[0].nodes) == set(names)


@examples(60)
@given(st.integers(0, 2**32 - 1))
def test_what_fits_slurms_counts_fits_the_domains(seed: int) -> None:
    """For all sets of nodes of two jobs with whole watts; and what the counts refuse comes within 2 W of a limit."""
    machine, layers = exported(seed)
    names, naive = names_of(machine), NaiveSupply(machine)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        units = rng.permutation(machine.units)
        cut = int(rng.integers(0, machine.units + 1))
        watts = [int(w) for w in rng.integers(0, 300, 2)]
        jobs = [(units[:cut].tolist(), watts[0]), (units[cut:].tolist(), watts[1])]
        room = [one.count - sum(w for held, w in jobs for unit in held if names[unit] in one.nodes) for one in layers]
        load = [(held, w * 1_000_000, 1.0) for held, w in jobs]
        stands = naive.idle(range(machine.units))
        left = min(one.left(None) for one in naive.room(0.0, stands, load).values())
        if min(room) >= 0:
            assert left >= 0
        elif left >= 0:
            # an unlimited domain has what its nodes draw at their stated maximum
            assert left < 2e6 / 0.8 or max(watts) > 400.0 - 60.0


@examples(60)
@given(st.integers(0, 2**32 - 1))
def test_a_machine_as_counted_leaves_what_slurm_counts(seed: int) -> None:
    """The same layers, and each domain with a limit leaves just its count: a policy starts what Slurm starts."""
    machine, layers = exported(seed)
    counted = as_counted(machine)
    assert layers_of(counted, names_of(machine)) == layers
    counts = {domain.name: count_of(machine, k) for k, domain in enumerate(machine.supply_tree.domains)}
    for k, domain in enumerate(counted.supply_tree.domains):
        left_w = domain.least_limit_w - int(counted.supply_idle_uw[k]) / 1e6
        assert left_w == pytest.approx(counts[domain.name]) or math.isinf(left_w)


def test_layers_that_slurm_shows_are_read() -> None:
    text = (
        "LicenseName=power Total=350 Used=200 Free=150 Reserved=0 Remote=no Nodes=n[1-3] Mode=3\n"
        "LicenseName=watts Total=100 Used=0 Free=100 Reserved=0 Remote=no\n"
        "LicenseName=power Total=0 Used=0\n"
    )
    assert shown_layers(text) == [(HresLayer("n[1-3]", ("n1", "n2", "n3"), 350), 200)]


@pytest.mark.parametrize(
    ("version", "holds"),
    [("22.05.8", False), ("25.05.8", False), ("25.11.6", False), ("25.11.7", True), ("26.05.1", False),
     ("26.05.5", True), ("26.11.0", True), ("", False)],
)  # fmt: skip
def test_which_releases_hold_a_tree(version: str, holds: bool) -> None:
    assert holds_trees(version) == holds


def test_differences_are_named(tmp_path: Path) -> None:
    layers = layers_of(MACHINE, NAMES)
    file = tmp_path / "resources.yaml"
    file.write_text(hres_text(MACHINE, layers).replace("count: 350", "count: 400"))
    assert differences(layers, read_hres(file)) == ["r1 has 400 W, the machine file says 350 W"]
    assert differences(layers, layers[:-1]) == [f"{layers[-1].name} is missing, the machine file says 600 W"]
    more = [*layers, HresLayer("", ("n1",), 5)]
    assert differences(layers, more) == ["n1 (5 W) is in the file alone"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"limit_w": None, "limit_s": (0.0, 5.0), "limits_w": (500.0, 400.0)}, "its limit moves"),
    ],
)
def test_what_slurm_cannot_hold_is_refused(change: dict[str, object], error: str) -> None:
    moving = replace(MACHINE.supply[0], **change)  # type: ignore[arg-type]
    with pytest.raises(MachineError, match=error):
        layers_of(replace(MACHINE, supply=(moving, *MACHINE.supply[1:])), NAMES)
    with pytest.raises(MachineError, match="states no power domains"):
        layers_of(replace(MACHINE, supply=()), NAMES)
    with pytest.raises(InputError, match="7 names for 8 nodes"):
        layers_of(MACHINE, NAMES[:7])
    bare = replace(MACHINE.partitions[1], max_w=None)
    with pytest.raises(MachineError, match="no limit, and nodes without a maximum"):
        layers_of(replace(MACHINE, partitions=(MACHINE.partitions[0], bare)), NAMES)
    part = Partition("p", 17, idle_w=10.0, max_w=300.0)
    chain = [SupplyDomain(name=f"d{k}", parent=f"d{k + 1}" if k < 16 else "", nodes=f"p[{k + 1}]", limit_w=9e3)
             for k in range(17)]  # fmt: skip
    with pytest.raises(MachineError, match="levels above the lowest domains"):
        layers_of(Machine("m", (part,), supply=tuple(chain)), [f"n{k}" for k in range(17)])


@pytest.mark.parametrize(
    "text", ["", "- resource: power\n", '- resource: gpu\n  layers:\n    - nodes:\n        - "n1"\n      count: 4\n']
)
def test_a_file_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(InputError, match="no resource of power domains"):
        read_hres(tmp_path / "r.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        read_hres(tmp_path / "none.yaml")


def test_the_verb(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(
        'name = "m"\n[[partitions]]\nname = "p"\nnodes = 8\nidle_w = 50.0\nmax_w = 300.0\n'
        '[[supply]]\nname = "r[0-1]"\nnodes = "p[1-8]"\nlimit_w = 800.0\n'
    )
    told = wattqueue("live", "export-hres", "m.toml", "--nodes", "n[1-8]", "--out", "resources.yaml", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "3 layers written to resources.yaml" in told.stdout
    check = ("live", "export-hres", "m.toml", "--nodes", "n[1-8]", "--check", "resources.yaml")
    assert "has the 3 layers of m" in wattqueue(*check, cwd=tmp_path).stdout
    file = tmp_path / "resources.yaml"
    file.write_text(file.read_text().replace("count: 600", "count: 601"))
    told = wattqueue(*check, "--json", cwd=tmp_path)
    assert told.returncode == 1
    assert len(json.loads(told.stdout)["differences"]) == 2
    assert read_hres(file)[0].nodes == tuple(f"n{k}" for k in range(1, 9))
