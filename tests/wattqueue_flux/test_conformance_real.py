"""The suite of drivers (``tests/live/test_conformance.py``) on a real Flux: the simulator's starts, and no others.

All jobs wait before the module is loaded, so that its first round sees them all, as the simulator does. A job ends when
the test ends it, in the simulator's order of ends: no clock takes part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.drive import lab_machine
from tests.live.test_conformance import POOL_W, WORKLOAD, Outcome, check, quiescent, simulated
from tests.wattqueue_flux.fluxlab import Lab, instance, missing, real_flux, wait_for, write_config
from wattqueue.formats.machine.file import write_machine
from wattqueue.live.recordings.replay import replay
from wattqueue.policy.policy import load_policy

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


def check_recording(lab: Lab, policy: str, starts: int) -> None:
    """Every round is decided again alike by a session of its own."""
    lab.unload()
    decisions = list(replay(lab.folder / "views.jsonl", load_policy(policy)))
    assert [number for number, recorded, again in decisions if recorded != again] == []
    assert sum(len(json.loads(recorded)["starts"]) for _, recorded, _ in decisions) == starts


@real_flux
@pytest.mark.parametrize("policy", ["fcfs", "first-fit", "easy", "conservative"])
def test_the_simulator_and_a_real_flux_agree(policy: str, lab: Lab) -> None:
    sets, _ = simulated(policy)
    check(sets, on_flux(lab, policy), policy)
    check_recording(lab, policy, len(WORKLOAD))


@real_flux
def test_rounds_over_a_real_flux_under_a_moving_cap_are_decided_alike_on_their_snapshots(lab: Lab) -> None:
    lab.load()
    for k in range(8):
        lab.cap_w(800 + (POOL_W if k % 2 else POOL_W // 2))
        lab.submit(4, "--requires=p1|p2", "-t1m", seconds=0.7, nodes=1 + k % 2)
    wait_for("the end of all", lambda: lab.states()["INACTIVE"] == 32)
    check_recording(lab, "easy", 32)
    views = [json.loads(line) for line in (lab.folder / "views.jsonl").read_text().splitlines()]
    assert len({one["view"]["cap_w"] for one in views if "view" in one}) > 1
