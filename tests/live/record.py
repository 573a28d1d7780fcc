"""Record what a real Slurm's commands print (``python -m tests.live.record``, as root): the texts of ``recorded/``.

Jobs of every kind, two of their names made to look like rows; overlapping partitions, GPUs, a node that drains, one
that is off, a reservation of licences. The tests of parsing read these files, so they need no Slurm.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.live.slurmlab import USER, SlurmLab
from tests.live.submit_script import with_data
from wattqueue.live.slurm.guard import CONFIG
from wattqueue.live.slurm.install import Settings
from wattqueue.live.slurm.lists import DETAILS, JOBS, POOL
from wattqueue.live.slurm.observe import NODES
from wattqueue.live.slurm.submit_data import NodeWatts, SubmitData
from wattqueue.live.slurm.writer import ReservationPool

RECORDED = Path(__file__).with_name("recorded")
FILES = {"nodes": NODES, "jobs": JOBS, "pool": POOL, "details": DETAILS, "config": CONFIG}
"""File by what it holds, and the command that printed it."""


def jobs_of_every_kind(lab: SlurmLab) -> None:
    """Running, held by the script and by their user, an array with a limit, dependent, for later, of two components."""
    runs = [
        lab.submit("-N2", "-t", "30", "-p", "p1", seconds=600),
        lab.submit("-t", "2-03:00", "-p", "p2", seconds=600),
    ]
    for job in runs:
        lab.run(["scontrol", "release", job])
    lab.wait_states(runs, ["RUNNING"])
    lab.submit("-N1-3", "-n", "20", "-p", "p1,p2", "-t", "1-02:00:00", "-J", "a|b\nc", "--comment", "x|y")
    lab.submit("--array=1-4%2", "-p", "p2", "-w", "n8")
    lab.submit("-d", f"afterok:{runs[0]}", "-p", "p2")
    lab.submit("-H", "-p", "p2")
    lab.submit("--begin=now+1hour")
    lab.submit("-N1", "-p", "p1", "-J", "x\nJobId=7 Priority=9")
    lab.run(["sbatch", "--parsable", "-N1", "-p", "p1", ":", "-N1", "-p", "p2", "--wrap=true"], user=USER)


def main() -> None:
    """Bring a Slurm up, fill it, and write what its commands print."""
    root = Path(os.path.realpath(f"/tmp/wattqueue-record-{os.getpid()}"))  # noqa: S108 - other users walk here
    root.mkdir(mode=0o755)
    nodes = {"p1": NodeWatts(200, 100, 16), "p2": NodeWatts(200, 100, 8)}
    (root / "run").mkdir()
    beat = root / "run/beat"
    beat.write_text(f"control {int(time.time())}\n")
    lab = SlurmLab(root, licences_w=1600, lua=with_data(Settings(SubmitData(nodes), [0], beat, 3600, 1600)), gpus=2)
    lab.overlap = True
    try:
        lab.up()
        lab.run(["scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=recorded"])
        lab.run(["scontrol", "update", "NodeName=n3", "State=POWER_DOWN"])
        jobs_of_every_kind(lab)
        commands = lab.commands
        ReservationPool().set(commands, 1200, 1600)
        time.sleep(5.0)  # until the node is off
        for name, argv in FILES.items():
            (RECORDED / f"{name}.txt").write_text(commands.run(argv).out.replace(str(root), "/etc/slurm"))
    finally:
        lab.down()
        lab.remove()


if __name__ == "__main__":
    main()
