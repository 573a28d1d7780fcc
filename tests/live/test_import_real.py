"""What a real sacct prints, as rows and as JSON, is read alike, to the joule."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from tests.live.releases import lab_of
from tests.live.site import MACHINE
from tests.live.slurmlab import SlurmLab, wait_for
from tests.program import wattqueue
from wattqueue.formats.read import ReadOptions, read_workload
from wattqueue.formats.slurm.sacct import ASK_FOR
from wattqueue.formats.workload import Workload

PICKED = ("--row", "fcfs", "--row", "easy")
pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("arena-2")]


@pytest.fixture(scope="module")
def dumps(slurm_release: str) -> Iterator[Path]:
    """Dumps of a lab whose nodes draw 300, 180, 200 and 200 W, after some jobs of every kind."""
    folder = Path(os.path.realpath(f"/tmp/wattqueue-import-{os.getpid()}"))  # noqa: S108 - other users walk here
    folder.mkdir(mode=0o755)
    draws_w = {"n1": 300.0, "n2": 180.0, "n3": 200.0, "n4": 200.0}
    lab = lab_of(slurm_release, folder, nodes=4, energy=True, node_w=draws_w)
    try:
        lab.up()
        yield ran(lab)
    finally:
        lab.down()
        lab.remove()


def ran(lab: SlurmLab) -> Path:
    """Run jobs, and dump the accounting in each of its dresses."""
    one = lab.submit("-w", "n1", "-t", "7", "-J", "a|b", "--wrap=srun sleep 12", seconds=0)
    two = lab.submit("-p", "p2", "-w", "n[3-4]", "-N2", "--wrap=srun -N2 -n2 sleep 12", seconds=0)
    array = lab.submit("-w", "n2", "--array=1-2%1", "--wrap=sleep 1", seconds=0)
    ended = [one, two, f"{array}_1", f"{array}_2"]
    lab.wait_states(ended, ["COMPLETED"])
    blocker = lab.submit("-w", "n2", "-t", "20", "--wrap=sleep 600", seconds=0)
    lab.wait_states([blocker], ["RUNNING"])
    dead = lab.submit("-w", "n2", "--wrap=sleep 9", seconds=0)
    lab.run(["scancel", dead])
    waits = lab.submit("-w", "n2", "--array=5-7", "--wrap=sleep 9", seconds=0)
    next_one = lab.submit("-w", "n2", "-t", "3", "--wrap=sleep 9", seconds=0)
    lab.wait_states([dead], ["CANCELLED"])

    def settled() -> bool:
        rows = lab.run(["sacct", "-a", "-n", "-X", "-P", "-S", "now-1hour", "-o", "JobID,State"]).out
        return all(f"{job}|COMPLETED" in rows for job in ended) and all(
            text in rows for text in (f"{blocker}|", f"{dead}|", f"{waits}_", f"{next_one}|")
        )

    wait_for("accounting", settled, step_s=0.5)
    out = lab.root / "dumps"
    out.mkdir()
    (out / "ids").write_text(f"{one} {two} {array} {dead} {waits} {blocker} {next_one}")
    wanted = ",".join(ASK_FOR)
    for name, argv in {
        "rows.psv": ["sacct", "-a", "--parsable2", "-S", "now-1hour", f"--format={wanted}"],
        "closed.psv": ["sacct", "-a", "--parsable", "-S", "now-1hour", f"--format={wanted}"],
        "other.psv": [
            "sacct",
            "-aP",
            "-S",
            "now-1hour",
            "--format=End,NNodes,Elapsed,Submit,ConsumedEnergy,JobIDRaw,State",
        ],
        "dump.json": ["sacct", "-a", "--json", "-S", "now-1hour"],
        "queue.json": ["squeue", "--json"],
    }.items():
        (out / name).write_text(lab.run(argv).out)
    argv = ["sacct", "-a", "--parsable2", "-S", "now-1hour", f"--format={wanted}"]
    asked = lab.run(argv, env={"SLURM_TIME_FORMAT": "%s", "TZ": "Asia/Kolkata"})
    (out / "asked.psv").write_text(asked.out)
    local = lab.run(argv, env={"TZ": "Asia/Kolkata"})
    (out / "local.psv").write_text(local.out)
    (out / "night.json").write_text(night(lab))
    advice = said(lab, "pick", str(out / "rows.psv"), "--machine", str(out / "site.toml"), *PICKED, "--json")
    (out / "pick.json").write_text(advice)
    return out


def night(lab: SlurmLab) -> str:
    """Return what ``nightly`` says of today; it asks the real sacct, which is on the caller's PATH alone."""
    machine = lab.root / "dumps/site.toml"
    machine.write_text(MACHINE.replace("nodes = 4", "nodes = 2"))
    hours = 12 - time.gmtime().tm_hour  # a zone in which it is about noon: no midnight while the test runs
    today = time.strftime("%Y-%m-%d", time.gmtime(time.time() + hours * 3_600))
    day = ("--day", today, "--time-zone", f"Etc/GMT{-hours:+d}")
    words = ("nightly", "--machine", str(machine), "--cap", "800W", *day, "--row", "fcfs", "--bound", "6", "--json")
    return said(lab, *words)


def said(lab: SlurmLab, *words: str) -> str:
    """Return what a verb prints where the lab's Slurm is on the path; in this process, whose kernels are compiled."""
    path = {"PATH": f"{lab.bin_dir}:{os.environ['PATH']}", "SLURM_CONF": lab.env["SLURM_CONF"]}
    with mock.patch.dict(os.environ, path):
        done = wattqueue(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def by_id(workload: Workload) -> dict[str, int]:
    return {str(job): i for i, job in enumerate(workload.jobs.job_id.tolist())}


def test_rows_of_a_real_sacct(dumps: Path) -> None:
    workload = read_workload(dumps / "rows.psv")
    one, two, array, dead, waits, blocker, _ = (dumps / "ids").read_text().split()
    at = by_id(workload)
    jobs = workload.jobs
    assert set(at) == {one, two, f"{array}_1", f"{array}_2"}
    assert jobs.nodes[at[two]] == 2
    assert jobs.walltime_s[at[one]] == 420.0
    assert jobs.app.values()[at[one]] == "a|b"
    assert jobs.mean_power_w is not None
    # a busy machine starts a step late: its joules stand over the whole job's seconds
    for job, watts in ((one, 300.0), (two, 200.0)):
        assert 0.1 * watts < jobs.mean_power_w[at[job]] < 1.35 * watts
    assert jobs.extra["alone"].tolist() == ["yes"] * 4
    left_out = {job: reason for _, job, reason in workload.unusable.rows()}
    assert left_out[dead] == "never ran"
    assert left_out[blocker] == "still running when the dump was made"
    assert any("had not started" in why for job, why in left_out.items() if job.startswith(waits))


def test_nightly_asks_the_real_sacct(dumps: Path) -> None:
    """Four jobs ended, one runs and one waits; one was cancelled in the queue, and an array has no row per task."""
    found = json.loads((dumps / "night.json").read_text())
    assert (found["jobs"], found["recorded"]["jobs"]) == (6, 5)
    assert "2 jobs had not ended when the record was made" in " ".join(found["notes"])
    bound = found["bound"]
    assert bound["jobs"] == 6
    assert 0.0 < bound["bound_s"] <= bound["best_known_s"] <= bound["policy_s"]


def test_pick_forecasts_the_queue_of_the_real_sacct(dumps: Path) -> None:
    """One job runs; the next one waits for its node by name, which accounting does not say: elsewhere it may start."""
    found = json.loads((dumps / "pick.json").read_text())
    assert found["running"] == 1
    assert found["waiting"] in (1, 2)  # the array that waits has one row, or none that can be read
    assert sorted(found["wait_s"]) == ["easy", "fcfs"]
    limits_s = 1200.0 + 180.0 + 3 * 180.0
    assert all(0.0 <= wait <= limits_s for wait in found["wait_s"].values())
    assert found["left_out"].keys() <= {"pas", "conservative"}


def test_parsable_is_the_same(dumps: Path) -> None:
    rows, closed = read_workload(dumps / "rows.psv"), read_workload(dumps / "closed.psv")
    assert closed.jobs.job_id.tolist() == rows.jobs.job_id.tolist()
    assert closed.jobs.extra["energy_j"].tolist() == rows.jobs.extra["energy_j"].tolist()
    assert closed.rows == rows.rows


def test_the_command_that_we_ask_for_leaves_no_doubt_about_zones(dumps: Path) -> None:
    document, asked = read_workload(dumps / "dump.json"), read_workload(dumps / "asked.psv")
    assert sorted(asked.jobs.submit_s.tolist()) == sorted(document.jobs.submit_s.tolist())
    assert not any("zone" in note for note in asked.notes)


def test_local_times_become_the_same_instants_once_their_zone_is_said(dumps: Path) -> None:
    document = read_workload(dumps / "dump.json")
    local = read_workload(dumps / "local.psv", ReadOptions(time_zone="Asia/Kolkata"))
    assert sorted(local.jobs.submit_s.tolist()) == sorted(document.jobs.submit_s.tolist())


def test_other_columns_in_another_order(dumps: Path) -> None:
    rows, other = read_workload(dumps / "rows.psv"), read_workload(dumps / "other.psv")
    assert other.jobs.runtime_s.tolist() == rows.jobs.runtime_s.tolist()
    assert np.allclose(other.jobs.extra["energy_j"], rows.jobs.extra["energy_j"], rtol=0.01, equal_nan=True)


def test_json_says_the_same_as_rows(dumps: Path) -> None:
    rows, document = read_workload(dumps / "rows.psv"), read_workload(dumps / "dump.json")
    assert document.format == "slurm-json"
    ours, theirs = by_id(rows), by_id(document)
    assert set(ours) == set(theirs)
    for job, i in ours.items():
        j = theirs[job]
        for name in ("nodes", "walltime_s", "runtime_s", "submit_s", "start_s"):
            assert getattr(document.jobs, name)[j] == getattr(rows.jobs, name)[i], (job, name)
        assert document.jobs.user.values()[j] == rows.jobs.user.values()[i]
        for name in ("energy_j", "alone", "cpus"):
            a, b = document.jobs.extra[name][j], rows.jobs.extra[name][i]
            assert str(a) == str(b), (job, name)


def test_the_queue_lists_what_waits(dumps: Path) -> None:
    """22.05 lists jobs that ended a moment ago as well; newer releases do not."""
    *_, dead, waits, blocker, next_one = (dumps / "ids").read_text().split()
    options = ReadOptions(queued=True)
    workload = read_workload(dumps / "queue.json", options)
    left_out = {job.partition("_")[0] for _, job, _ in workload.unusable.rows()}
    jobs = by_id(workload)
    assert waits in left_out | {job.partition("_")[0] for job in jobs}
    assert [workload.jobs.walltime_s[jobs[job]] for job in (blocker, next_one)] == [1200.0, 180.0]
    assert dead not in jobs
