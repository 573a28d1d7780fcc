"""Whether Slurm alone lets a job that needs many watts starve, on the release under test (the guide's table)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.releases import lab_of
from tests.live.slurmlab import OTHER_USER, SlurmLab, wait_for
from wattqueue.live.slurm.writer import ReservationPool

pytestmark = [pytest.mark.slow, pytest.mark.slurm, pytest.mark.xdist_group("slurm")]
Record = Callable[[str, object], None]
NARROW, NET_W, POOL_W = 12, 200, 1000
TRIVIAL = "function slurm_job_submit(jd, parts, uid) return slurm.SUCCESS end\n"
TRIVIAL += "function slurm_job_modify(jd, rec, parts, uid) return slurm.SUCCESS end\nreturn slurm.SUCCESS\n"


def overtakers(lab: SlurmLab) -> int:
    """Start five jobs that use the whole pool, then a job for the whole pool, then narrow ones; how many overtake it.

    All jobs take one node of eight, so that watts alone decide; those before the wide job end one after the other,
    before their limit of a minute. The narrow ones may run for longer than until then, so that none fits before the
    wide job's planned start. (26.05 plans in steps of ``bf_resolution``, a minute, from the whole minute on: jobs of
    a minute fit before the planned start there, and ten of twelve rightly began.)
    """

    def submit(watts: int, seconds: float, minutes: int = 1) -> str:
        where = ["-N1", "-p", "p1,p2", "-t", str(minutes), "-L", f"watts:{watts}"]
        return lab.submit(*where, seconds=seconds, user=OTHER_USER)

    first = [submit(NET_W, 6.0 + 3.0 * k) for k in range(5)]
    lab.wait_states(first, ["RUNNING"])
    wide = submit(POOL_W, 1.0)
    narrow = [submit(NET_W, 6.0, 10) for _ in range(NARROW)]

    def settled() -> bool:
        states = lab.states()
        return states[wide] != "PENDING" or all(states[job] != "PENDING" for job in narrow)

    wait_for("the wide job or all narrow ones to start", settled, step_s=0.2)
    states = lab.states()
    return sum(states[job] != "PENDING" for job in narrow) if states[wide] == "PENDING" else _before(lab, wide, narrow)


def _before(lab: SlurmLab, wide: str, narrow: list[str]) -> int:
    """Narrow jobs that started before the wide one."""
    start = lab.field(wide, "StartTime")
    return sum(lab.states()[job] != "PENDING" and lab.field(job, "StartTime") < start for job in narrow)


def test_overtaking_a_job_of_many_watts(slurm_release: str, lab_folder: Path, record_property: Record) -> None:
    found = {}
    for name, options, total in (
        ("without bf_licenses", "", POOL_W),
        ("with bf_licenses", ",bf_licenses", POOL_W),
        ("with bf_licenses and a reservation", ",bf_licenses", 2 * POOL_W),
    ):
        folder = lab_folder / name.replace(" ", "-")
        folder.mkdir(mode=0o755)
        scheduler = f"sched_interval=1,bf_interval=1,bf_window=1440{options}"
        lab = lab_of(slurm_release, folder, TRIVIAL, total, scheduler=scheduler)
        try:
            lab.up()
            if total > POOL_W:
                ReservationPool().set(lab.commands, POOL_W, total)
            found[name] = overtakers(lab)
        finally:
            lab.down()
    for name, count in found.items():
        record_property(name, count)
    sys.stderr.write(f"Slurm {slurm_release}: of {NARROW} narrower jobs started before the wide one: {found}\n")
    assert tuple(found.values()) == (NARROW, 0, NARROW), "what the guide says"
