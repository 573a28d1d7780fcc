"""A real slurmd on a /sys of its own: its pm_counters reach slurmdbd and us, our frequency reaches the step."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.releases import lab_of
from tests.live.slurmlab import OPERATOR, SlurmLab, wait_for
from wattqueue.live.slurm.accounting import SlurmEnergy
from wattqueue.live.slurm.install import prolog
from wattqueue.live.slurm.writer import Frequencies
from wattqueue.live.telemetry.base import JobEnergy
from wattqueue.live.telemetry.pm_counters import PmCounters

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]


@pytest.fixture(scope="module")
def powered(slurm_release: str) -> Iterator[SlurmLab]:
    """Two nodes that measure: n1 draws 300 W, n2 draws 180 W."""
    folder = Path(os.path.realpath(f"/tmp/wattqueue-energy-{os.getpid()}"))  # noqa: S108 - other users walk here
    folder.mkdir(mode=0o755)
    draws_w = {"n1": 300.0, "n2": 180.0}
    lab = lab_of(slurm_release, folder, nodes=2, energy=True, task_prolog=folder / "etc/prolog.sh", node_w=draws_w)
    (folder / "freq").mkdir(mode=0o755)
    (folder / "etc/prolog.sh").write_text(prolog(folder / "freq"))
    (folder / "etc/prolog.sh").chmod(0o755)
    try:
        yield lab.up()
    finally:
        lab.down()
        lab.remove()


def test_energy_of_an_ended_job_comes_from_slurmdbd(powered: SlurmLab) -> None:
    begin_s = time.time()
    job = powered.submit("-w", "n1", "--wrap=srun sleep 12", seconds=0)
    powered.wait_states([job], ["COMPLETED"])
    found: list[JobEnergy] = []

    def there() -> bool:
        found[:] = [e for e in SlurmEnergy(powered.commands).finished(begin_s - 1.0) if e.name == job]
        return len(found) == 1 and found[0].energy_j > 0

    wait_for("the job's energy in the accounting", there, step_s=0.5)
    assert found[0].nodes == 1
    # a busy machine starts the step late: its joules stand over the whole job's seconds
    assert 0.1 * 300.0 < found[0].mean_node_w < 1.35 * 300.0


def test_the_nodes_own_counters_are_fresh(powered: SlurmLab) -> None:
    source = PmCounters({n: powered.root / "sys" / n / "cray/pm_counters" for n in powered.names})

    def powers() -> dict[str, float]:
        return {n: s.power_w for n, s in source.read(time.time()).samples.items()}

    wait_for("the nodes' own watts", lambda: powers() == {"n1": 300.0, "n2": 180.0})
    first = source.read(time.time()).samples
    assert {n: s.power_w for n, s in first.items()} == {"n1": 300.0, "n2": 180.0}

    def newer() -> bool:
        now = source.read(time.time()).samples
        return all(now[n].taken_s > first[n].taken_s for n in first)

    wait_for("newer samples", newer)


def test_a_frequency_written_while_the_job_was_held_reaches_its_step(powered: SlurmLab) -> None:
    job = powered.submit("--hold", "--wrap=srun --cpu-bind=map_cpu:0 sleep 2; env", seconds=0)
    Frequencies(powered.root / "freq").set(job, 1_800_000)
    powered.run(["scontrol", "release", job], user=OPERATOR)
    powered.wait_states([job], ["COMPLETED"])

    def rows() -> dict[str, str]:
        text = powered.run(["sacct", "-n", "-P", "-j", job, "-o", "JobID,ReqCPUFreqMax"]).out
        return dict(line.split("|") for line in text.split())

    wait_for("the step in the accounting", lambda: f"{job}.0" in rows())
    assert rows()[f"{job}.0"] == "1.80G"
