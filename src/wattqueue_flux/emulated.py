"""The files of a trial: emulated nodes on one broker, and jobs that only last."""

from __future__ import annotations

from pathlib import Path

from wattqueue.errors import OutputError
from wattqueue.formats.atomic_write import atomic_text
from wattqueue.formats.machine.file import machine_toml
from wattqueue.model.machine import Machine, Partition

IDLE_W, MOST_W = 100.0, 300.0
"""Watts of an emulated node."""
CONFIG = """\
machine = "machine.toml"
policy = "flux-priority"      # EASY in the order of Flux's priorities
cap = "cap.csv"               # change it while jobs run
mode = "control"
state = "live.db"
run_dir = "run"

[flux]
"""
SCRIPT = """\
set -e; cd "$(dirname "$0")"
flux module unload sched-simple; flux module unload resource
flux kvs put resource.R="$(flux R encode -r0-{last} -c0-3 -H 'node[1-{nodes}]')"
flux module load resource noverify monitor-force-up
flux module load {module} config=$PWD/live.toml
flux submit --quiet --cc=1-{jobs} -N1 --setattr=exec.test.run_duration=5s true
while [ "$(flux jobs -n -c0 -o '{{id}}' | wc -l)" -gt 0 ]; do
  flux jobs -n -c0 -f running -o '{{annotations.wattqueue.watts}}' |
    awk '{{n += 1; w += $1}} END {{print n + 0, "running jobs count", w + 0, "W of {room} W"}}'
  sleep 1
done
flux module unload sched_wattqueue; echo "all {jobs} jobs have ended"
"""


def write_trial(folder: Path, module: str, *, nodes: int, jobs: int, at_once: int) -> Path:
    """Write the files of a trial in which so many jobs fit the cap at a time; return its script.

    Raises: MachineError for a number of nodes that no machine has; OutputError.
    """
    machine = Machine("emulated", (Partition("all", nodes, idle_w=IDLE_W, max_w=MOST_W),))
    room_w = round(at_once * (MOST_W - IDLE_W))
    texts = {
        "machine.toml": machine_toml(machine),
        "cap.csv": f"time_s,cap_w\n0,{nodes * IDLE_W + room_w:.0f}\n",
        "live.toml": CONFIG,
        "start.sh": SCRIPT.format(last=nodes - 1, nodes=nodes, module=module, jobs=jobs, room=room_w),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot be made: {error.strerror}", where=folder) from error
    for name, text in texts.items():
        atomic_text(folder / name, text)
    return folder / "start.sh"
