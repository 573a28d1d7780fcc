"""The suite of drivers (``tests/live/test_conformance.py``) on a real Flux: the simulator's starts, and no others.

All jobs wait before the module is loaded, so that its first round sees them all, as the simulator does. A job ends when
the test ends it, in the simulator's order of ends: no clock takes part.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.drive import lab_machine
from tests.live.test_conformance import POOL_W, WORKLOAD, Outcome, check, quiescent, simulated
from tests.wattqueue_flux.fluxlab import IDLE_W, NET_W, Lab, instance, missing, real_flux, wait_for, write_config
from tests.wattqueue_flux.instants import decide_again
from tests.wattqueue_flux.recorded_events import events_of
from wattqueue.formats.machine.file import read_machine, write_machine
from wattqueue.model.schedule import HeldUnits
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate
from wattqueue_flux.nodes import ids_of

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Eight nodes, of which four have the property p1, and four p2: partitions of these names."""
    write_config(tmp_path, 8, cap_w=800 + POOL_W)
    write_machine(tmp_path / "machine.toml", lab_machine())
    with instance(tmp_path, emulated=8, load=False, properties="-p p1:0-3 -p p2:4-7") as running:
        yield running


def on_flux(lab: Lab, policy: str) -> Outcome:
    """The order of starts, and the most watts."""
    config = lab.folder / "live.toml"
    config.write_text(config.read_text().replace('policy = "easy"', f'policy = "{policy}"'))
    ids = [
        lab.submit(1, f"--requires={job.partition}", f"-t{job.limit_min}m", seconds=100_000.0, nodes=job.nodes)[0]
        for job in WORKLOAD
    ]
    lab.load()
    number = {lab.run("job", "id", name).strip(): k for k, name in enumerate(ids)}
    most, order = 0, list[int]()

    def running() -> list[int]:
        found = [job for job in lab.jobs() if job["state"] == "RUN"]
        order.extend(k for k in sorted(number[str(job["id"])] for job in found) if k not in order)
        return sorted(number[str(job["id"])] for job in found)

    for ends, runs in quiescent(policy):
        if ends:
            lab.run("cancel", *(ids[k] for k in ends))
        try:
            wait_for(f"{runs} to run", lambda runs=runs: running() == runs)  # type: ignore[misc]
        except AssertionError as error:
            raise AssertionError(f"{error}: {running()} run, {lab.log()[-2000:]}") from error
        most = max(most, lab.used_w())
    return Outcome(order, most, sum(lab.starts_of(name) for name in ids))


def check_recording(lab: Lab, starts: int) -> None:
    """Every round is decided alike by a session of its own and through three drivers."""
    lab.unload()
    found = decide_again(lab.folder / "views.jsonl", lab.folder)
    assert (found.differ, found.starts) == ([], starts)


@real_flux
@pytest.mark.parametrize("policy", ["fcfs", "first-fit", "easy", "conservative"])
def test_the_simulator_and_a_real_flux_agree(policy: str, lab: Lab) -> None:
    sets, _ = simulated(policy)
    check(sets, on_flux(lab, policy), policy)
    check_recording(lab, len(WORKLOAD))


@real_flux
def test_rounds_over_a_real_flux_under_a_moving_cap_are_decided_alike_on_their_snapshots(lab: Lab) -> None:
    lab.load()
    for k in range(8):
        lab.cap_w(800 + (POOL_W if k % 2 else POOL_W // 2))
        lab.submit(4, "--requires=p1|p2", "-t1m", seconds=0.7, nodes=1 + k % 2)
    wait_for("the end of all", lambda: lab.states()["INACTIVE"] == 32)
    check_recording(lab, 32)
    views = [json.loads(line) for line in (lab.folder / "views.jsonl").read_text().splitlines()]
    assert len({one["view"]["cap_w"] for one in views if "view" in one}) > 1


def ranks(lab: Lab, state: str) -> str:
    """Ranks of the nodes in a state."""
    return lab.run("resource", "list", "-s", state, "-no", "{ranks}").strip()


@real_flux
@pytest.mark.slow
def test_recorded_events_fed_to_the_simulator_give_the_same_starts_on_the_same_nodes(tmp_path: Path) -> None:
    """Arrivals, ends, drained nodes, a moving cap at Flux's times, users' watts: each decision is the simulator's."""
    policy, draw = "easy+estimator=user-figure", random.Random(4)
    write_config(tmp_path, 30, policy=policy, cap_w=30 * 100 + 12 * NET_W)
    with instance(tmp_path, emulated=30) as lab:
        for k in range(160):
            # limits are all different: jobs of one round end a few microseconds apart in Flux, at once in the simulator
            lab.submit(
                1, f"-t{100 + 7 * k}s", f"--setattr=system.wattqueue.watts={draw.choice([0, 150, 220.5, 299])}",
                nodes=draw.choice([1, 2, 3, 8]), seconds=draw.choice([0.2, 2.0, 6.0]),
            )  # fmt: skip
            if k % 10 == 3:
                lab.cap_w(30 * 100 + draw.choice([9, 12, 20]) * NET_W)
            if k % 20 == 5:  # a node that is in use while it is drained would fail in the simulator
                lab.cap_w(30 * 100)
                wait_for("free nodes", lambda: not set(range(22, 30)) & set(ids_of(ranks(lab, "allocated"))))
                lab.run("resource", "drain", "22-29")
                lab.cap_w(30 * 100 + 20 * NET_W)
            if k % 20 == 15:
                lab.run("resource", "undrain", "22-29")
        wait_for("the end of all", lambda: set(lab.states()) == {"INACTIVE"}, 180.0)
        lab.unload()
    events = events_of(tmp_path / "views.jsonl", IDLE_W)
    jobs, names = events.workload()
    machine = read_machine(tmp_path / "machine.toml")
    run = simulate(jobs, machine, load_policy(policy), cap=events.cap(), events=events.node_events())
    held = HeldUnits.of(run.schedule)
    units: dict[int, list[int]] = {}
    for row, low, high in zip(held.job.tolist(), held.low.tolist(), held.high.tolist(), strict=True):
        units.setdefault(row, []).extend(range(low, high + 1))
    starts_s = run.schedule.start_s.tolist()
    again = {name: (round(starts_s[row], 6), tuple(sorted(units.get(row, ())))) for row, name in enumerate(names)}
    recorded = {name: job.start for name, job in events.jobs.items()}
    differ = [(name, recorded[name], again[name]) for name in names if recorded[name] != again[name]]
    assert differ == []
    assert len(names) == 160
    assert len(events.caps) > 5
    assert len(events.nodes) > 50
