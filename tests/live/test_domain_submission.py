"""A job that its power domains never feed is refused at its submission, by the domain's name; others are taken."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live.lua import Lua, library
from tests.live.submit_script import with_data
from tests.live.test_guard import MACHINE, make_slurm
from tests.live.test_hres import random_machine
from tests.profiles import examples
from tests.reference.supply import NaiveSupply
from wattqueue.live.config import load_config
from wattqueue.live.slurm.guard import Guard
from wattqueue.live.slurm.install import Settings
from wattqueue.live.slurm.submit_data import NodeWatts, SubmitData, body_of
from wattqueue.live.watts.fed import Fed
from wattqueue.model.supply_binding import most_fed

needs_lua = pytest.mark.skipif(library() is None, reason="no Lua library (it comes with the packages of Slurm)")
RACKS = SubmitData(
    {
        "p1": NodeWatts(200, 200, 16, 8, fed=Fed(3, 3, "row 1")),
        "p2": NodeWatts(200, 100, 16, 8, fed=Fed(4, 6, "hall")),
        "p3": NodeWatts(200, 200, 16, 8),
    },
    ["login"],
)
PARTS = {
    name: {"total_nodes": 8, "flag_default": int(name == "p1"), "nodes": f"{name}-n[1-8]"}
    for name in ("p1", "p2", "p3", "login")
}


@pytest.fixture
def lua(tmp_path: Path) -> Lua:
    return Lua(with_data(Settings(RACKS, [1234], tmp_path / "beat", 60, 5000)))


def said(lua: Lua) -> str:
    """What users were told since the last call."""
    return lua.run('local text = table.concat(slurm.users, "\\n"); slurm.users = {}; return text')


@needs_lua
def test_a_job_that_no_domain_feeds_is_refused_by_its_name(lua: Lua) -> None:
    wide = lua.submit({"partition": "p1", "min_nodes": 4}, PARTS)
    assert wide.code != 0
    assert (
        said(lua) == "wattqueue: under power domain row 1 a job has 3 nodes of partition p1 at most, this one needs 4"
    )
    assert lua.submit({"partition": "p2", "min_nodes": 7}, PARTS).code != 0
    assert "under power domain hall a job has 4 nodes of partition p2 at most, this one needs 7" in said(lua)
    assert lua.submit({"num_tasks": 4 * 16}, PARTS).code != 0, "its number of nodes follows from its tasks"
    assert lua.submit({"partition": "p1,p2", "min_nodes": 7}, PARTS).code != 0
    lua.close()


@needs_lua
def test_jobs_that_fit_are_taken_and_told_nothing(lua: Lua) -> None:
    """The twin: the widest that fits, a range whose least number fits, and any partition that feeds the job now."""
    fitting = (
        {"partition": "p1", "min_nodes": 3}, {"partition": "p1", "min_nodes": 2, "max_nodes": 8},
        {"partition": "p2", "min_nodes": 4}, {"partition": "p3", "min_nodes": 8}, {"partition": "login"},
        {"partition": "p1,p3", "min_nodes": 8}, {"partition": "p1,p2", "min_nodes": 4},
    )  # fmt: skip
    for job in fitting:
        assert lua.submit(job, PARTS).code == 0, job
        assert said(lua) == "", job
    lua.close()


@needs_lua
def test_a_job_that_waits_for_a_higher_limit_is_taken_and_told(lua: Lua) -> None:
    for partition in ("p2", "p1,p2", "p2,p1"):
        assert lua.submit({"partition": partition, "min_nodes": 6}, PARTS).code == 0
        assert said(lua) == (
            "wattqueue: under power domain hall a job has 4 nodes of partition p2 at most now, this one waits for 6"
        )
    lua.close()


SUPPLY = """
[[supply]]
name = "r1"
parent = "row"
nodes = "p1,p2[1]"
limit_w = 700.0
[[supply]]
name = "row"
nodes = "p2[2]"
{}
"""


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("limit_w = 800.0", {}),
        ("limit_w = 650.0", {"p1": Fed(1, 1, "row"), "p2": Fed(1, 1, "row")}),
        ("limit_w = 450.0", {"p1": Fed(0, 0, "row"), "p2": Fed(0, 0, "row")}),
        ('limit_csv = "falls.csv"', {"p1": Fed(1, 1, "row"), "p2": Fed(1, 1, "row")}),
        ('limit_csv = "rises.csv"', {"p1": Fed(1, 2, "row"), "p2": Fed(1, 2, "row")}),
    ],
)
def test_what_a_machine_file_feeds_reaches_the_script(tmp_path: Path, limit: str, expected: dict[str, Fed]) -> None:
    """Four nodes idle at 100 W each; 200 W a node of p1 above that, 150 W of p2. r1 leaves 400 W: two nodes of p1."""
    (tmp_path / "m.toml").write_text(MACHINE + SUPPLY.format(limit))
    (tmp_path / "falls.csv").write_text(f"time_s,limit_w\n0,800\n{time.time() - 60:.0f},650\n")
    (tmp_path / "rises.csv").write_text(f"time_s,limit_w\n0,650\n{time.time() + 1e5:.0f},800\n")
    text = 'machine = "m.toml"\ncap = "1000W"\n[slurm]\ndomains = { r1 = "w1", row = "w" }\n'
    (tmp_path / "live.toml").write_text(text)
    data = Guard.of(load_config(tmp_path / "live.toml"), make_slurm()).settings.data
    assert {name: node.fed for name, node in data.nodes.items() if node.fed is not None} == expected
    assert [line for line in body_of(data).splitlines() if line.startswith("feeds")] == [
        f"feeds {one.now} {one.most} {one.domain}" for one in expected.values()
    ]


@examples(60)
@given(st.integers(0, 2**32 - 1))
def test_the_number_of_nodes_is_that_of_the_naive_twin(seed: int) -> None:
    """So many nodes fit one after the other, and no more; the named domain is one without which more would fit."""
    machine = random_machine(seed)
    rng, tree = np.random.default_rng(seed), machine.supply_tree
    units = np.flatnonzero(rng.random(machine.units) < 0.8)
    net_uw = int(rng.integers(1, 300)) * 1_000_000
    own = np.bincount(tree.of_unit[units], minlength=len(tree.domains)).tolist()
    found, name = most_fed(machine, own, net_uw, [one.least_limit_w for one in tree.domains])
    naive = NaiveSupply(machine)
    room, count = naive.room(0.0, naive.idle(range(machine.units)), ()), 0
    for unit in rng.permutation(units):
        if all(room[one].left(None, watts) >= 0 for one, watts in naive.taken([int(unit)], net_uw).items()):
            naive.take(room, [int(unit)], net_uw, 1.0)
            count += 1
    assert found == count
    if found < len(units):
        limits = [one.least_limit_w for one in tree.domains]
        assert math.isfinite(limits[at := [one.name for one in tree.domains].index(name)])

        def without(k: int) -> int:
            return most_fed(machine, own, net_uw, [math.inf if j == k else w for j, w in enumerate(limits)])[0]

        assert without(at) == max(map(without, range(len(limits))))
