"""Why a job waits: a record for each, in words, with a bound for its start that is never after it starts."""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.site import MACHINE, Site, as_operator, cap_text
from tests.live.slurmlab import USER, real, wait_for
from tests.live.test_parking import Place
from tests.program import wattqueue
from wattqueue.errors import InputError
from wattqueue.live.cluster import ChangeJob, ReleaseJob
from wattqueue.live.consent_tags import CONSENT
from wattqueue.live.reports.why import consent_sentence, read_consent, read_why, sentence
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.model.signals import Cap


def make_slurm() -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)


def test_a_job_of_a_partition_that_the_machine_file_does_not_name_is_told_of_its_watts(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": ["n1"], "p2": ["m1"], "p3": ["x1"]}, 1600)
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(800.0 + 800.0), machine=lab_machine(2)
    )
    counted = slurm.submit(1, 50.0, watts=300, partition="p3")
    free = slurm.submit(1, 50.0, watts=-1, partition="p3")
    for _ in range(2):
        controller.round()
        slurm.now_s += 6.0
    said = [sentence(job.name, read_why(tmp_path / "run", job.name)[0][1]) for job in (counted, free)]
    assert "300 W" in said[0]
    assert "without" not in said[0]
    assert "without a power budget" in said[1]
    assert "without a power budget" in sentence("1", ["elsewhere", "p3"]), "the file of an earlier version"


def test_each_waiting_job_has_a_reason(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(800.0 + 800.0))
    runs = slurm.submit(3, 100.0, watts=600, limit_s=120.0, partition="p1")
    while runs.state != "RUNNING":  # nothing starts in a round that compiled for long
        controller.round()
        slurm.step()
    started_s = runs.start_s
    nodes = slurm.submit(2, 50.0, watts=400, limit_s=60.0, partition="p1")
    watts = slurm.submit(4, 50.0, watts=800, limit_s=60.0, partition="p2")
    held = slurm.submit(1, 50.0, watts=200, mark="wattqueue:user-held")
    later = slurm.submit(1, 50.0, watts=200, begin_s=slurm.now_s + 500.0)
    depends = slurm.submit(1, 50.0, watts=200, dependency="afterok:1")
    failed = slurm.submit(1, 50.0, watts=200)
    failed.reason = "launch failed requeued held"
    broken = slurm.submit(1, 5.0, watts=200, limit_s=60.0, partition="p2")
    slurm.fault = lambda what: "fail" if isinstance(what, ReleaseJob) and what.target == broken.name else None
    for _ in range(8):
        controller.round()
        slurm.step()

    def of(job: object) -> list[object]:
        ((_, record),) = read_why(tmp_path / "run", str(getattr(job, "name")))  # noqa: B009
        return record

    assert of(nodes) == ["turn", 1, 2, 2, 1, 400, 200, round(started_s + 120.0)]
    assert of(watts) == ["turn", 2, 2, 4, 4, 800, 200, round(started_s + 120.0)]
    assert "1 nodes are free" in sentence("2", of(nodes))
    assert "200 W of the power budget are free" in sentence("3", of(watts))
    assert of(held) == ["user"]
    assert of(later) == ["later", round(later.begin_s)]
    assert of(depends) == ["depends"]
    assert of(failed) == ["failed"]
    assert of(broken)[0] == "refused"
    assert read_why(tmp_path / "run", runs.name) == []
    text = (tmp_path / "run/why.json").read_text()
    assert "u1000" not in text, "no user is named"
    assert "app" not in text


def test_the_owner_of_an_impossible_job_is_told_after_three_refusals(tmp_path: Path) -> None:
    """Slurm holds the job itself at each start. One that starts after two refusals is told nothing."""
    slurm = make_slurm()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1800.0))
    never = slurm.submit(1, 50.0, watts=200, least_nodes=3)
    later = slurm.submit(1, 50.0, watts=200, least_nodes=3)
    own = slurm.submit(1, 50.0, watts=200, least_nodes=3, comment="mine", partition="p2")

    def kind() -> object:
        found = read_why(tmp_path / "run", never.name)
        return found[0][1][0] if found else None

    refused = controller.planner.memory.refused
    seen = set()
    for _ in range(26):
        controller.round()
        controller.round()  # before Slurm has looked at a job that the controller has changed
        slurm.step(5.0)
        times = {key.name: one.times for key, one in refused.items()}
        seen.add((times.get(never.name, 0), kind()))
        later.least_nodes = 0 if times.get(later.name) == 2 else later.least_nodes
    controller.round()
    assert (2, "refused") in seen
    assert {kind for times, kind in seen if times == 3} == {"impossible"}
    assert "impossible" in sentence(never.name, read_why(tmp_path / "run", never.name)[0][1])
    assert (later.state, later.comment) == ("RUNNING", "")
    assert "refused 3 starts (BadConstraints)" in never.comment
    notes = [w for w in slurm.writes if isinstance(w, ChangeJob) and w.fields.comment is not None]
    assert len(notes) == 1, "told once"
    assert own.comment == "mine", "what its owner wrote stays"
    assert (never.priority, never.reason) == (0, "JobHeldAdmin"), "a change of a job that Slurm holds would release it"
    assert own.reason == "BadConstraints", "nothing was written, so its owner sees what Slurm found"


@real
def test_slurm_tells_the_owner_of_a_job_that_it_refuses(site: Site, tmp_path: Path) -> None:
    """``--tmp`` is not examined at the submission, and no node has as much."""
    site.keep_beating()
    job = site.lab.submit("-N1", "-p", "p1", "--tmp=900000", seconds=60)
    ahead = [0.0]

    def clock() -> float:
        return time.time() + ahead[0]

    cluster = SlurmCluster(site.lab.commands, clock=clock)
    controller = make_controller(cluster, tmp_path, clock, cap=Cap.constant(1200.0), machine=lab_machine())
    refused = controller.planner.memory.refused
    for times in (1, 2, 3):

        def again(times: int = times) -> bool:
            controller.round()
            return any(one.times == times for one in refused.values())

        wait_for(f"refusal {times}", again, step_s=0.5)
        ahead[0] += 600.0  # the back-off
    shown = site.lab.run(["scontrol", "show", "job", job], user=USER).out
    assert " Comment=wattqueue: impossible: Slurm refused 3 starts (BadConstraints)" in shown
    assert " Reason=JobHeldAdmin " in shown, "held by the controller before its comment was changed"
    ahead[0] -= 600.0

    def explained() -> bool:
        controller.round()
        ((_, record),) = read_why(tmp_path / "run", job)
        return list(record[:3]) == ["impossible", 3, "BadConstraints"]

    wait_for("the explanation, after a look at the job as it is held now", explained, step_s=0.5)


@real
@pytest.mark.parametrize("held", [True, False])
def test_a_change_releases_a_job_that_slurm_holds_itself(site: Site, *, held: bool) -> None:
    """As in the fake; one that an operator has held since then stays held. The partition is down: nothing is tried."""
    site.keep_beating()
    lab = site.lab
    job = lab.submit("-N1", "-p", "p1", "--tmp=900000", seconds=60)
    lab.run(["scontrol", "release", job])
    wait_for("Slurm's own hold", lambda: lab.field(job, "Reason") == "BadConstraints", step_s=0.2)
    lab.run(["scontrol", "update", "PartitionName=p1", "State=DOWN"])
    try:
        if held:
            lab.run(["scontrol", "hold", job])
        lab.run(["scontrol", "update", f"JobId={job}", "Comment=other"])
        assert (lab.field(job, "Priority") == "0") is held
        lab.run(["scancel", job])
    finally:
        lab.run(["scontrol", "update", "PartitionName=p1", "State=UP"])


def column(*values: int) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}i", *values)).decode()


def test_the_earliest_start_is_that_of_the_partition_that_may_take_it_first(tmp_path: Path) -> None:
    # Job 7 needs 2 nodes and 300 W in partition 0, or 2 nodes and 500 W in partition 1; job 8 more than there is.
    turns = {
        "names": ["7", "8"], "nodes": column(2, 9), "job": column(0, 0, 1), "partition": column(0, 1, 0),
        "watts": column(300, 500, 900),
    }  # fmt: skip
    ends = [[200, 0, 1, 100], [300, 1, 2, 300], [None, 0, 8, 900]]
    values: dict[str, Any] = {"time_s": 100, "free": [0, 1], "free_w": 100, "ends": ends, "turns": turns}
    values["jobs"] = {"8": ["new"]}

    def records(job: str) -> list[tuple[str, list[Any]]]:
        (tmp_path / "why.json").write_text(json.dumps(values))
        return read_why(tmp_path, job)

    # Nodes of partition 1 and 500 W are there at 300 s; partition 0 has two nodes at no known time.
    assert records("7") == [("7", ["turn", 1, 2, 2, 1, 500, 100, 300])]
    assert records("8") == [("8", ["new"])], "started in this round"
    values["jobs"] = {}
    assert records("8") == [("8", ["turn", 2, 2, 9, 0, 900, 100, None])]
    values["free_w"] = None  # no budget is configured: nodes alone count
    values["free"] = [2, 0]
    assert records("7") == [("7", ["turn", 1, 2, 2, 2, 300, None, 100])]


def test_without_a_controller_there_is_no_reason(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_why(tmp_path, "1")


def test_the_command_says_it_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(MACHINE)
    (tmp_path / "live.toml").write_text('machine = "m.toml"\ncap = "1800W"\n')
    (tmp_path / "run").mkdir()
    (tmp_path / "run/why.json").write_text(json.dumps({"time_s": 1, "jobs": {"7_1": ["failed"], "7_2": ["user"]}}))

    def why(job: str) -> subprocess.CompletedProcess[str]:
        return wattqueue("live", "why", job, "--config", tmp_path / "live.toml")

    assert [line.partition(":")[0] for line in why("7").stdout.splitlines()] == ["job 7_1", "job 7_2"]
    assert why("7_1").returncode == 0
    assert why("8").returncode == 1


@real
def test_a_user_of_a_real_slurm_reads_why_the_job_waits(site: Site) -> None:
    config = site.begin(cap_text(200))
    runs = site.gated("-N1", "-p", "p1", "-t", "10")
    site.wait_running([runs])
    waits = site.gated("-N1", "-p", "p1", "-t", "10")
    file = site.root / "live/run/why.json"
    wait_for("the record", lambda: file.exists() and bool(read_why(file.parent, waits)), step_s=0.2)
    assert site.lab.run(["cat", str(file)], user=USER).code == 0, "readable by every user"
    done = subprocess.run(
        as_operator("live", "why", waits, "--config", str(config)), env=site.env, capture_output=True, text=True,
        timeout=60.0, check=False,
    )  # fmt: skip
    assert "0 W of the power budget are free" in done.stdout, done.stderr
    site.lab.run(["scontrol", "hold", waits], user=USER)
    wait_for("the user's hold", lambda: json.loads(file.read_text())["jobs"].get(waits) == ["user"], step_s=0.2)
    site.open_gate(runs)
    late = site.gated("-N1", "-p", "p1", "-t", "10")
    site.wait_running([late])
    site.lab.run(["scontrol", "release", waits], user=USER)
    site.open_gate(late)
    site.wait_running([waits])
    site.open_gate(waits)


def test_a_parked_job_and_its_consent_are_explained(tmp_path: Path) -> None:
    place = Place(tmp_path)
    mine, wrong = place.submit(2, f"{CONSENT},slowdown=2"), place.submit(1, "wattqueue:consnet")
    place.rounds(3)
    place.target(0.0, 60.0, 250.0)
    place.rounds(7)
    folder = tmp_path / "run"
    ((_, parked),) = read_why(folder, mine.name)
    assert (
        "with the consent of its user: load target e1 of 1050 W; it continues as soon as the limit has its 400 W"
        in (sentence(mine.name, parked))
    )
    limit = "run time at most 2 times that at full speed"
    says = [consent_sentence(name, record) for job in (mine, wrong) for name, record in read_consent(folder, job.name)]
    assert says == [
        f"job {mine.name}: may be slowed down or parked during a load target (its comment says so; {limit})",
        f"job {wrong.name}: its comment holds a wrong consent tag, so it is neither slowed down nor parked",
    ]
