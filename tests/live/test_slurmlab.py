"""The lab itself: it runs jobs, listens on loopback alone, and leaves no process, however the test ends."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.procs import MARKER, end_all, marked
from tests.live.releases import lab_of
from tests.live.slurmlab import USER, LabError, SlurmLab, wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]
ROOT = Path(__file__).parents[2]


def test_runs_a_job_with_accounting_and_leaves_nothing(lab: SlurmLab) -> None:
    job = lab.submit(seconds=0.2)
    lab.wait_states([job], ["COMPLETED"])

    def row() -> str:
        return lab.run(["sacct", "-n", "-P", "-X", "-j", job, "-o", "JobID,User,AllocTRES"]).out.strip()

    # slurmctld sends submission, start and end on their own: the state may be known before what was allocated
    wait_for("what the job was allocated", lambda: bool(row().rpartition("|")[2]))
    rows = row()
    assert rows.startswith(f"{job}|{USER}|")
    assert "license/watts=200" in rows


def test_a_command_that_a_script_names_is_that_of_the_release(lab: SlurmLab, slurm_release: str) -> None:
    """With the folder of the lab's commands on the PATH, where they must not find themselves."""
    path = ":".join(filter(None, (lab.bin_dir, lab.env["PATH"])))
    done = lab.run(["/bin/sh", "-c", "sinfo -V; sinfo -h -N -o %N"], env={"PATH": path}, timeout_s=60.0)
    assert done.out.split()[1].startswith(f"{slurm_release}.")
    assert set(done.out.split()[2:]) == set(lab.names)


def test_each_lab_is_of_the_release_under_test() -> None:
    """A lab made by its class would be the installed Slurm, whatever release a run names."""
    made = re.compile(r"(?<!class )\b(SlurmLab|ChrootLab|GuideLab)\(")
    allowed = {"releases.py", "record.py", "test_outcomes.py", Path(__file__).name}  # the last ones run no Slurm
    files = [path for path in Path(__file__).parent.rglob("*.py") if path.name not in allowed]
    assert len(files) > 50
    assert [path.name for path in files if made.search(path.read_text())] == []


def test_listens_on_loopback_alone(lab: SlurmLab) -> None:
    ours = set(lab.ports)
    listening = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        address, port = fields[1].split(":")
        if fields[3] == "0A" and int(port, 16) in ours:
            listening[int(port, 16)] = address
    assert listening, "nothing of the lab listens"
    assert set(listening.values()) == {"0100007F"}


def test_down_leaves_no_process(lab_folder: Path, slurm_release: str) -> None:
    small = lab_of(slurm_release, lab_folder, nodes=2, accounting=False).up()
    small.submit(seconds=600.0)
    assert len(marked(str(lab_folder))) >= 4
    small.down()
    assert marked(str(lab_folder)) == []


def test_failed_start_leaves_no_process_and_says_why(lab_folder: Path, slurm_release: str) -> None:
    broken = lab_of(slurm_release, lab_folder, nodes=2, accounting=False, extra=["NoSuchOption=1"])
    with pytest.raises(LabError, match="NoSuchOption"):
        broken.up()
    assert marked(str(lab_folder)) == []


def test_watchdog_ends_the_lab_of_a_killed_test(lab_folder: Path, slurm_release: str) -> None:
    program = (
        "import sys, time; from pathlib import Path; from tests.live.releases import lab_of;"
        "lab_of(sys.argv[2], Path(sys.argv[1]), nodes=2, accounting=False).up();"
        "print('up', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(lab_folder), slurm_release], stdout=subprocess.PIPE, cwd=ROOT, text=True
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline().strip() == "up"
        owner.send_signal(signal.SIGKILL)
    wait_for("the watchdog to end the lab", lambda: not marked(str(lab_folder)))


def test_a_node_that_stays_down_or_completing_is_repaired_and_reported(lab: SlurmLab) -> None:
    """A dead slurmd leaves its node completing; a node set down stays so. Both are idle again, and named."""
    job = lab.submit("-w", "n2", seconds=600.0)
    lab.wait_states([job], ["RUNNING"])
    lab.daemons["slurmd.n2"].kill()
    lab.daemons["slurmd.n2"].wait(60.0)
    lab.run(["scancel", job])
    lab.run(["scontrol", "update", "NodeName=n3", "State=DOWN", "Reason=test"])
    lab.repairs.clear()
    lab.wait_idle()
    told = {text.split()[0]: text for text in lab.repairs}
    assert set(told) == {"n2", "n3"}
    assert "completing" in told["n2"]
    assert "down" in told["n3"]
    assert lab.daemons["slurmd.n2"].poll() is None


def test_end_all_reports_only_what_is_marked(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"], env={"PATH": "/usr/bin:/bin", MARKER: str(tmp_path)}) as sleeper:
        wait_for("the process to carry its marker", lambda: marked(str(tmp_path)) == [sleeper.pid])
        assert end_all(str(tmp_path)) == []
        assert sleeper.wait(60.0) == -signal.SIGKILL
