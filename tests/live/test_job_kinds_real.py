"""Energies of requeued, array, heterogeneous and shared jobs of a real Slurm, as their user reads them."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.live.node_counters import IDLE_W, NodeCounters
from tests.live.power_model import steady
from tests.live.site import NET_W, Site, as_account
from tests.live.slurmlab import OPERATOR, OTHER_USER, PATIENCE_S, USER, wait_for
from tests.live.test_budgets_real import recorded as records_of
from tests.live.test_holds_real import run_again
from tests.live.test_shared_real import sharing
from wattqueue.live.files.energy_records import folders_of, read_records, read_running

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm-2")]
SHARE = 0.2
JOB_W = IDLE_W + SHARE * NET_W
"""What every node of a job draws."""


def asked(site: Site, file: Path, user: str, job: str, *more: str) -> tuple[int, Any, str]:
    """Status, JSON and errors of ``wattqueue job`` as a user calls it."""
    program = "from wattqueue.cli import main; main()"
    argv = as_account(user, "-c", program, "job", job, "--json", "--config", str(file), *more)
    done = subprocess.run(argv, env=site.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def recorded(site: Site, file: Path, job: str, runs: int) -> list[dict[str, Any]]:
    """The runs of a job once so many are recorded. Waits by the files: the verb takes a second of a core each time."""
    wait_for(f"{runs} records of job {job}", lambda: len(records_of(site, [job])) == runs, step_s=0.5)
    found: list[dict[str, Any]] = asked(site, file, USER, job)[1]["runs"]
    assert len(found) == runs
    return found


def running(site: Site, job: str) -> list[tuple[float, str]]:
    """When the controller last wrote what a running job used, and the figure's label."""
    places = folders_of(site.root / "live/run/energy", 0)
    return [(at_s, label) for name, at_s, _, label in read_running(places, read_records(places)) if name == job]


def wait_figure(site: Site, file: Path, job: str, label: str) -> None:
    """Wait until a running job has a figure of this kind, and ask for it."""
    wait_for(f"the figure of {job}", lambda: [one for _, one in running(site, job)] == [label], step_s=0.5)
    assert figure(site, file, job) == label


def right(run: dict[str, Any], drawn_w: float) -> None:
    """The interval of a run holds what its nodes drew, and a measured run has that: meters may miss short ones."""
    drawn_j = drawn_w * (run["end_s"] - run["start_s"])
    assert run["low_j"] <= run["energy_j"] <= run["high_j"]
    assert 0.95 * run["low_j"] <= drawn_j <= 1.05 * run["high_j"]
    if run["label"] == "measured":
        assert run["energy_j"] == pytest.approx(drawn_j, rel=0.05)


def test_kinds_of_jobs_are_right_or_labelled(site: Site) -> None:
    lab = site.lab
    counters = NodeCounters(site, 1e9, lambda _: steady(SHARE))
    with counters, sharing(site, f"[energy]\n{counters.sources}\n") as file:
        # beside all the others: two jobs share a node
        both = [site.gated("-n", "1", "-p", "p2", "-w", "n5") for _ in range(2)]
        array = lab.submit("--array=1-2", "-N", "1", "-p", "p1", seconds=15)
        wait_for("both tasks", lambda: finished(site, array) == 2, step_s=0.5)
        runs = recorded(site, file, array, 2)
        assert {run["job"] for run in runs} == {f"{array}_1", f"{array}_2"}
        for run in runs:
            right(run, JOB_W)
            assert run["label"] in {"measured", "modelled"}  # on a busy machine a short run may have no reading

        parts = ["-N", "1", "-p", "p1", ":", "-N", "1", "-p", "p1"]
        done = lab.run(["sbatch", "--parsable", "-o", "/dev/null", *parts, "--wrap=sleep 15"], user=USER)
        het = done.out.strip().split(";")[0]
        wait_for("both components", lambda: finished(site, het) == 2, step_s=0.5)
        runs = recorded(site, file, het, 2)
        assert {run["job"] for run in runs} == {f"{het}+0", f"{het}+1"}
        for run in runs:
            right(run, JOB_W)
        whole = asked_text(site, file, het)
        assert whole[-1].startswith(f"job {het} (2 runs): ")
        assert len(whole) == 3

        again = site.gated("-N", "1", "-p", "p1", "--requeue")
        site.wait_running([again])
        wait_figure(site, file, again, "measured")
        lab.run(["scontrol", "requeue", again])
        run_again(site, again)
        began_s = time.time()

        def measured_again() -> bool:
            rows = running(site, again)  # those of the first run stand for a while
            return [label for at_s, label in rows if at_s > began_s] == ["measured"]

        wait_for("the figure of its second run", measured_again, step_s=0.5)
        site.open_gate(again)
        runs = recorded(site, file, again, 2)
        assert runs[0]["end_s"] < runs[1]["start_s"] + 1.0, "Slurm states starts to the second"
        for run in runs:
            right(run, JOB_W)
        assert asked_text(site, file, again)[0].startswith(f"job {again} (2 runs): ")

        for job in both:
            wait_figure(site, file, job, "attributed")
        site.open_gate(*both)
        runs = [recorded(site, file, job, 1)[0] for job in both]
        assert {run["label"] for run in runs} == {"attributed"}
        assert all(run["share"] == pytest.approx(0.5, abs=0.3) for run in runs)
        assert all(run["low_j"] < run["energy_j"] < run["high_j"] for run in runs)


def test_no_more_is_shown_than_private_data_hides(site: Site) -> None:
    lab, conf = site.lab, site.root / "etc/slurm.conf"
    text = conf.read_text()
    counters = NodeCounters(site, 1e9, lambda _: steady(SHARE))
    with counters, sharing(site, f"[energy]\n{counters.sources}\n") as file:
        try:
            conf.write_text(f"{text}\nPrivateData=jobs,usage,users,accounts\n")
            lab.run(["scontrol", "reconfigure"])
            lab.run(["scontrol", "update", "PartitionName=p2", "Nodes=n[5-6]", "OverSubscribe=NO"])
            job = lab.submit("-N", "1", "-p", "p1", seconds=15)
            site.wait_started([job])
            assert lab.run(["squeue", "-h", "-t", "all", "-o", "%i"], user=OTHER_USER).out == ""
            (run,) = recorded(site, file, job, 1)  # the controller sees it as before
            right(run, JOB_W)
            code, found, _ = asked(site, file, OTHER_USER, job)
            assert code != 0
            assert found.get("runs", []) == []
            code, found, said = asked(site, file, OTHER_USER, job, "--account", "all")
            assert code != 0
            assert found == {}
            assert "not yours to read" in said
            assert asked(site, file, OPERATOR, job)[1]["runs"], "the controller's account reads all"
        finally:
            conf.write_text(text)
            lab.run(["scontrol", "reconfigure"])


def asked_text(site: Site, file: Path, job: str) -> list[str]:
    argv = as_account(USER, "-c", "from wattqueue.cli import main; main()", "job", job, "--config", str(file))
    done = subprocess.run(argv, env=site.env, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return done.stdout.splitlines()


def figure(site: Site, file: Path, job: str) -> str:
    """Label of what a running job used until now."""
    rows = asked(site, file, USER, job)[1].get("running", [])
    return str(rows[0]["label"]) if rows else ""


def finished(site: Site, job: str) -> int:
    """How many tasks or components of a job are completed."""
    rows = site.lab.jobs(fields="%i|%T")
    return sum(state == "COMPLETED" for name, state in rows if name.startswith((f"{job}_", f"{job}+")))
