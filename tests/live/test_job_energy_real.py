"""Beside a real Slurm: a job's energy is recorded, its user reads it, and the batch step prints a line of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.releases import lab_of
from tests.live.slurmlab import OPERATOR, USER, SlurmLab, wait_for
from wattqueue.live.files.energy_records import EnergyFolder, EnergyRecord
from wattqueue.live.slurm.accounting import SlurmEnergy, managers
from wattqueue.live.slurm.install import epilog

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]


@pytest.fixture(scope="module")
def powered(slurm_release: str) -> Iterator[SlurmLab]:
    folder = Path(os.path.realpath(f"/tmp/wattqueue-job-energy-{os.getpid()}"))  # noqa: S108 - other users walk here
    folder.mkdir(mode=0o755)
    script = folder / "etc/epilog.sh"
    draws_w = {"n1": 300.0, "n2": 180.0}
    lab = lab_of(slurm_release, folder, nodes=2, energy=True, node_w=draws_w, extra=[f"TaskEpilog={script}"])
    script.write_text(epilog(folder / "energy"))
    script.chmod(0o755)
    try:
        yield lab.up()
    finally:
        lab.down()
        lab.remove()


def running(lab: SlurmLab, names: list[str], uid: int) -> None:
    """What a controller writes of jobs that run: 100 Wh until now."""
    now_s = time.time()
    records = [
        EnergyRecord(
            job=name, submit_s=now_s - 70, first_s=now_s - 70, start_s=now_s - 60, end_s=now_s, uid=uid, account="",
            partition="p1", nodes=1, energy_j=360_000.0, low_j=0.0, high_j=1e6, label="measured", source="meters",
        )
        for name in names
    ]  # fmt: skip
    EnergyFolder(lab.root / "energy").put_running(uid, records)


def outputs(lab: SlurmLab, job: str) -> str:
    """The output of a job, or of the tasks of an array."""
    return "\n".join(path.read_text() for path in sorted((lab.root / "work").glob(f"out.{job}*")))


def test_the_batch_step_alone_prints_one_line_and_in_any_trouble_none(powered: SlurmLab) -> None:
    import pwd

    uid = pwd.getpwnam(USER).pw_uid
    out = ("-o", f"{powered.root}/work/out.%A_%a", "--wrap=echo hello; srun -n 2 true; sleep 3; echo bye")
    job = powered.submit("--array=1-2", *out, seconds=0)
    plain = powered.submit("-o", f"{powered.root}/work/out.%j", "--wrap=echo hello; exit 3", seconds=0)
    running(powered, [f"{job}_1", f"{job}_2"], uid)
    names = [f"{job}_1", f"{job}_2", plain]
    powered.wait_states(names, ["COMPLETED", "FAILED"])
    wait_for("the line", lambda: outputs(powered, job).count("preliminary") == 2, timeout_s=30.0)
    for task in (1, 2):
        text = (powered.root / f"work/out.{job}_{task}").read_text()
        lines = [line for line in text.splitlines() if "wattqueue" in line]
        assert len(lines) == 1, "once, and not for each task of srun"
        assert f"job {job}_{task} used about 1" in lines[0]
        assert text.splitlines().index("bye") < text.splitlines().index(lines[0]), "at the end"
    assert outputs(powered, plain) == "hello\n", "no figure, no line, and the job's own exit status stays"
    assert powered.field(plain, "ExitCode") == "3:0"


def test_energies_of_slurmdbd_have_owner_and_account(powered: SlurmLab) -> None:
    begin_s = time.time()
    job = powered.submit("-w", "n1", "--wrap=srun sleep 8", seconds=0)
    powered.wait_states([job], ["COMPLETED"])
    source = SlurmEnergy(powered.commands)

    def there() -> bool:
        return any(one.name == job and one.energy_j > 0 for one in source.finished(begin_s - 1.0))

    wait_for("the job's energy in the accounting", there, step_s=0.5)
    (one,) = [one for one in source.finished(begin_s - 1.0) if one.name == job]
    import pwd

    assert one.uid == pwd.getpwnam(USER).pw_uid
    assert one.partition == "p1"
    assert one.account


def test_coordinators_are_the_managers_of_an_account(powered: SlurmLab) -> None:
    import pwd

    powered.run(["sacctmgr", "-i", "add", "account", "phys"])
    powered.run(["sacctmgr", "-i", "add", "user", OPERATOR, "account=phys"], check=False)
    powered.run(["sacctmgr", "-i", "add", "coordinator", "account=phys", f"names={OPERATOR}"])
    found = managers(powered.commands)
    assert found["phys"] == [pwd.getpwnam(OPERATOR).pw_uid]
