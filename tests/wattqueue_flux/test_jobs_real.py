"""What Flux's jobs may ask for, under WattQueue as the scheduler: queues, properties, dependencies, updates, signals.

Nodes are emulated where jobs only last; brokers are real where processes, housekeeping or lost nodes take part.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.wattqueue_flux.fluxlab import IDLE_W, NAME, NET_W, Lab, instance, missing, real_flux, wait_for, write_config
from wattqueue.formats.machine.file import write_machine
from wattqueue.model.machine import Machine, Partition
from wattqueue_flux.nodes import ids_of

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
QUEUES = """
[queues.batch]
requires = ["slow"]
[queues.debug]
requires = ["fast"]
[queues.debug.policy.limits.job-size.max]
nnodes = 1
[policy.jobspec.defaults.system]
queue = "batch"
"""
FAST_W = 500
CHEAP_S = 60.0
"""When energy becomes cheap."""


@pytest.fixture
def queues(tmp_path: Path) -> Iterator[Lab]:
    """Two queues on two partitions of unlike nodes; room for two nodes of batch and one of debug."""
    room_w = 2 * NET_W + FAST_W
    write_config(tmp_path, 6, cap_w=4 * 100 + 2 * 200 + room_w)
    parts = (Partition("cpu", 4, idle_w=100.0, max_w=300.0), Partition("gpu", 2, idle_w=200.0, max_w=700.0))
    write_machine(tmp_path / "machine.toml", Machine("two", parts))
    with (tmp_path / "live.toml").open("a") as file:
        file.write('partitions = { batch = "cpu", debug = "gpu" }\n')
    with instance(tmp_path, emulated=6, config=QUEUES, properties="-p slow:0-3 -p fast:4-5") as lab:
        lab.run("queue", "start", "--all")
        yield lab


def ranks_of(lab: Lab, job: str) -> str:
    return str(json.loads(lab.run("job", "info", job, "R"))["execution"]["R_lite"][0]["rank"])


@real_flux
def test_queues_and_properties_choose_nodes_and_their_watts(queues: Lab) -> None:
    lab = queues
    (small,) = lab.submit(1, seconds=600.0)
    (fast,) = lab.submit(1, "-q", "debug", seconds=600.0)
    (named,) = lab.submit(1, "--requires=rank:2", seconds=600.0)
    wait_for("starts", lambda: lab.states()["RUN"] == 3)
    assert (ranks_of(lab, small), ranks_of(lab, fast), ranks_of(lab, named)) == ("0", "4", "2")
    assert lab.stats()["used_w"] == 2 * NET_W + FAST_W
    (later,) = lab.submit(1, "-q", "debug", seconds=0.2)
    time.sleep(1.0)
    assert lab.states() == {"RUN": 3, "SCHED": 1}, "a node is free, its watts are not"
    lab.run("cancel", small, fast, named)
    wait_for("the end of all", lambda: lab.states()["INACTIVE"] == 4)
    assert ranks_of(lab, later) in ("4", "5")
    assert "exceeds policy limit of 1 for queue debug" in lab.run("submit", "-q", "debug", "-N2", "true", check=False)
    lab.cap_w(4 * 100 + 2 * 200 + 400)
    wait_for("a round", lambda: lab.stats()["open_w"] == 400)
    (never,) = lab.submit(1, "-q", "debug", seconds=0.2)
    wait_for("its refusal", lambda: "it needs 500 W above idle" in lab.run("job", "eventlog", never))
    (fits,) = lab.submit(1, seconds=0.2)
    wait_for("its end", lambda: lab.starts_of(fits) == 1)


@real_flux
def test_flux_jobs_shows_watts_reason_and_expected_start_of_waiting_jobs(tmp_path: Path) -> None:
    write_config(tmp_path, 2, policy="flux-priority", cap_w=2 * IDLE_W + 2 * NET_W)
    with instance(tmp_path, emulated=2) as lab:
        (runs,) = lab.submit(1, "-t", "10m", seconds=600.0)
        wait_for("a start", lambda: lab.states()["RUN"] == 1)
        (head,) = lab.submit(1, "-t", "10m", nodes=2)
        (late,) = lab.submit(1, "-t", "1h", seconds=600.0)
        shown = "{annotations.wattqueue.watts}|{annotations.sched.reason_pending}|{annotations.sched.t_estimate}"

        def said(job: str) -> list[str]:
            return lab.run("jobs", "-n", "-o", shown, job).strip().split("|")

        wait_for("their words", lambda: all(said(job)[1] for job in (head, late)))
        start_s = next(float(job["t_run"]) for job in lab.jobs() if job["state"] == "RUN")
        assert said(head)[0] == str(2 * NET_W)
        assert float(said(head)[2]) == pytest.approx(start_s + 600.0, abs=5.0)
        assert said(late)[0] == str(NET_W), "it would delay the head"
        lab.run("update", runs, "duration=+10m")
        wait_for("another estimate", lambda: float(said(head)[2]) == pytest.approx(start_s + 1200.0, abs=5.0))
        (first,) = lab.submit(1, "-t", "10m", "--urgency=31", nodes=2)
        wait_for("the estimate of another head", lambda: said(first)[2] != "")
        wait_for("an estimate that is taken back", lambda: said(head)[2] == "")
        lab.reload()  # what was changed of a job that runs is in its event log alone
        wait_for("the same estimate", lambda: float(said(first)[2]) == pytest.approx(start_s + 1200.0, abs=5.0))
        lab.run("cancel", runs)
        wait_for("the head's start", lambda: lab.run("jobs", "-n", "-o", "{state}", head).strip() != "SCHED")
        assert said(first)[1:] == said(head)[1:] == ["", ""], "neither waits any more"


@real_flux
def test_a_job_without_a_limit_ends_for_backfilling_when_the_site_says(tmp_path: Path) -> None:
    write_config(tmp_path, 2, cap_w=2 * IDLE_W + 2 * NET_W)
    with (tmp_path / "live.toml").open("a") as file:
        file.write("no_limit_s = 120.0\n")
    with instance(tmp_path, emulated=2) as lab:
        (runs,) = lab.submit(1, seconds=600.0)
        wait_for("a start", lambda: lab.states()["RUN"] == 1)
        (head,) = lab.submit(1, "-t", "10m", nodes=2)
        shown = "{annotations.sched.t_estimate}"
        wait_for("an estimate", lambda: lab.run("jobs", "-n", "-o", shown, head).strip() != "")
        start_s = next(float(job["t_run"]) for job in lab.jobs() if job["state"] == "RUN")
        assert float(lab.run("jobs", "-n", "-o", shown, head)) == pytest.approx(start_s + 120.0, abs=5.0)
        assert json.loads(lab.run("job", "info", runs, "R"))["execution"]["expiration"] == 0
        (short,) = lab.submit(1, "-t", "30s", seconds=0.2)
        wait_for("a backfilled one", lambda: lab.starts_of(short) == 1)
        (long,) = lab.submit(1, "-t", "10m", seconds=0.2)
        time.sleep(1.0)
        assert lab.starts_of(long) == 0
        lab.run("cancel", runs, head, long)


@real_flux
@pytest.mark.slow
def test_a_job_without_a_limit_ends_with_an_instance_that_does_and_follows_its_extension(tmp_path: Path) -> None:
    """An instance of three minutes inside another one: WattQueue is the scheduler of both."""
    outer_folder = tmp_path / "outer"
    outer_folder.mkdir()
    write_config(outer_folder, 4, cap_w=4 * 300)
    write_config(tmp_path, 2, cap_w=2 * 300)
    with instance(outer_folder, brokers=4) as outer:
        job = outer.run("alloc", "-N2", "-t3m", "--bg", "--broker-opts=-Sbroker.module-nopanic=1").split()[-1]
        assert outer.stats()["used_w"] == 2 * NET_W
        lab = replace(outer, folder=tmp_path, uri=outer.run("uri", "--local", job).split()[-1])
        lab.run("module", "unload", "sched-simple")
        lab.load()
        ends_s = json.loads(lab.run("kvs", "get", "resource.R"))["execution"]["expiration"]
        runs = lab.run("submit", "-N1", "sleep", "600").strip()
        wait_for("a start", lambda: lab.states()["RUN"] == 1)
        assert json.loads(lab.run("job", "info", runs, "R"))["execution"]["expiration"] == ends_s
        head, short = (lab.run("submit", f"-N{n}", "-t10s", "true").strip() for n in (2, 1))

        def estimate_s() -> float:
            return float(lab.run("jobs", "-n", "-o", "{annotations.sched.t_estimate}", head).strip() or 0.0)

        wait_for("an estimate", lambda: estimate_s() == pytest.approx(ends_s, abs=0.01))
        wait_for("a backfilled one", lambda: lab.starts_of(short) == 1)
        outer.run("update", job, "duration=+5m")
        wait_for("a later end", lambda: estimate_s() == pytest.approx(ends_s + 300.0, abs=0.01))
        lab.reload()
        lab.run("job", "urgency", head, "20")
        time.sleep(1.0)
        assert estimate_s() == pytest.approx(ends_s + 300.0, abs=0.01)
        assert lab.states()["RUN"] == 1


@real_flux
def test_jobs_of_cores_get_whole_nodes_and_count_their_watts(tmp_path: Path) -> None:
    """Four cores a node (ADR 0018)."""
    write_config(tmp_path, 4, cap_w=4 * IDLE_W + 4 * NET_W)
    with instance(tmp_path, emulated=4) as lab:
        lasting = ("--setattr=exec.test.run_duration=600s", "true")
        wide = lab.run("submit", "-n3", "-c2", *lasting).strip()
        small = lab.run("submit", "-n1", *lasting).strip()
        own = lab.run("submit", "-N1", "--exclusive", *lasting).strip()
        waits = lab.run("submit", "-n1", *lasting).strip()
        wait_for("starts", lambda: lab.states() == {"RUN": 3, "SCHED": 1})
        assert [ranks_of(lab, job) for job in (wide, small, own)] == ["0-1", "2", "3"]
        assert lab.used_w() == lab.stats()["used_w"] == 4 * NET_W
        lab.run("cancel", wide)
        wait_for("its successor", lambda: lab.starts_of(waits) == 1)
        assert ranks_of(lab, waits) == "0"
        lab.run("cancel", small, own, waits)


@real_flux
def test_gpus_are_given_with_whole_nodes(tmp_path: Path) -> None:
    """Two GPUs a node."""
    write_config(tmp_path, 4, cap_w=4 * IDLE_W + 4 * NET_W)
    with instance(tmp_path, emulated=4, properties="-g0-1") as lab:
        lasting = ("--setattr=exec.test.run_duration=600s", "true")
        three, never = (lab.run("submit", f"-n{n}", "-g1", *lasting).strip() for n in (3, 9))
        wait_for("its refusal", lambda: "it needs 5 nodes, and 4" in lab.run("job", "eventlog", never))
        wait_for("a start", lambda: lab.states()["RUN"] == 1)
        execution = json.loads(lab.run("job", "info", three, "R"))["execution"]
        assert execution["R_lite"] == [{"rank": "0-1", "children": {"core": "0-3", "gpu": "0-1"}}]
        assert (execution["nslots"], lab.stats()["used_w"]) == (3, 2 * NET_W)


@real_flux
def test_a_stopped_queue_starts_nothing_and_goes_on(queues: Lab) -> None:
    lab = queues
    lab.run("queue", "stop", "debug")
    lab.submit(1, "-q", "debug", seconds=0.2)
    lab.submit(1, seconds=0.2)
    wait_for("the end of one", lambda: lab.states()["INACTIVE"] == 1)
    time.sleep(0.5)
    assert lab.states() == {"INACTIVE": 1, "SCHED": 1}
    lab.run("queue", "start", "debug")
    wait_for("the end of both", lambda: lab.states()["INACTIVE"] == 2)


@real_flux
def test_dependencies_begin_times_and_updates_of_waiting_jobs(tmp_path: Path) -> None:
    write_config(tmp_path, 2, cap_w=2 * IDLE_W + NET_W)
    with instance(tmp_path, emulated=2) as lab:
        (first,) = lab.submit(1, seconds=600.0)
        (after,) = lab.submit(1, f"--dependency=afterany:{first}", seconds=0.2)
        (later,) = lab.submit(1, "--begin-time=+3s", seconds=0.2)
        (waits,) = lab.submit(1, "-t10s", seconds=0.2)
        wait_for("a start", lambda: lab.states()["RUN"] == 1)
        lab.run("update", waits, "duration=90s")
        lab.run("cancel", first)
        wait_for("the end of all", lambda: lab.states()["INACTIVE"] == 4)
        jobs = {lab.run("job", "id", name).strip(): name for name in (first, after, later, waits)}
        found = {jobs[str(job["id"])]: job for job in lab.jobs()}
        assert {name for name, job in found.items() if job["result"] != "COMPLETED"} == {first}
        assert found[after]["t_run"] >= found[first]["t_inactive"] - 0.5
        assert found[later]["t_run"] - found[later]["t_submit"] >= 2.0
        execution = json.loads(lab.run("job", "info", waits, "R"))["execution"]
        assert execution["expiration"] - execution["starttime"] == pytest.approx(90.0)


@real_flux
def test_nodes_that_housekeeping_gives_back_serve_at_once_while_the_jobs_watts_count(tmp_path: Path) -> None:
    """On four real brokers: housekeeping takes long on rank 3 alone."""
    write_config(tmp_path, 4, cap_w=4 * IDLE_W + 5 * NET_W)
    (tmp_path / "keep.sh").write_text(
        f"#!/bin/sh\ntest $(flux getattr rank) = 3 && while ! [ -e {tmp_path}/done ]; do sleep 0.2; done\nexit 0\n"
    )
    (tmp_path / "keep.sh").chmod(0o755)
    config = f'[job-manager.housekeeping]\ncommand = ["{tmp_path}/keep.sh"]\nrelease-after = "0s"\n'
    with instance(tmp_path, brokers=4, config=config) as lab:
        wide = lab.run("submit", "-N4", "true").strip()
        wait_for("its end", lambda: lab.states()["INACTIVE"] == 1)
        wait_for("three nodes", lambda: lab.stats()["nodes_held"] == 1, 20.0)
        assert lab.stats()["used_w"] == 4 * NET_W
        lab.run("run", "-N1", "true")
        lab.reload()
        wait_for("its watts", lambda: (lab.stats()["used_w"], lab.stats()["nodes_held"]) == (4 * NET_W, 1))
        (tmp_path / "done").touch()
        wait_for("the last node", lambda: lab.stats()["used_w"] == 0)
        assert lab.starts_of(wide) == 1


@real_flux
def test_a_broker_that_is_lost_takes_its_node_away_and_the_others_serve(tmp_path: Path) -> None:
    write_config(tmp_path, 4, policy="fcfs", cap_w=4 * 300)
    with instance(tmp_path, brokers=4) as lab:
        lab.run("run", "-N4", "true")
        runs = lab.run("submit", "-N1", "sleep", "600").strip()
        wait_for("a start", lambda: lab.states()["RUN"] == 1)
        (head,) = lab.submit(1, nodes=4)
        behind = lab.run("submit", "-N1", "true").strip()
        os.kill(int(lab.run("exec", "-r3", lab.flux, "getattr", "broker.pid")), signal.SIGKILL)
        wait_for("its loss", lambda: lab.run("resource", "list", "-sfree", "-no", "{ranks}").strip() == "1-2")
        wait_for("the refusal of one that waited", lambda: "too few of the nodes" in lab.run("job", "eventlog", head))
        wait_for("a start behind it", lambda: lab.starts_of(behind) == 1)
        lab.run("cancel", runs)
        assert lab.run("run", "-N3", "echo", "here").split() == ["here"] * 3
        (wide,) = lab.submit(1, nodes=4)
        wait_for("its refusal", lambda: "it needs 4 nodes, and 3" in lab.run("job", "eventlog", wide))
        lab.cap_w(4 * 300 - 1)  # a round counts the nodes that are left
        wait_for("a round", lambda: lab.stats()["open_w"] < 4 * NET_W)
        stats = lab.stats()
        # nothing says that the lost node is off: an hour of attacks found its idle watts given to jobs
        assert (stats["used_w"], stats["open_w"]) == (0, 4 * NET_W - 1)


@real_flux
def test_excluded_nodes_get_no_job_and_count_their_idle_watts(tmp_path: Path) -> None:
    """On four real brokers. Flux reads ``exclude`` when its module ``resource`` is loaded, at no reload of the file."""
    write_config(tmp_path, 4, cap_w=4 * IDLE_W + 4 * NET_W)
    with instance(tmp_path, brokers=4, config='[resource]\nexclude = "3"\n') as lab:
        (wide,) = lab.submit(1, nodes=4)
        wait_for("its refusal", lambda: "it needs 4 nodes, and 3" in lab.run("job", "eventlog", wide))
        assert lab.run("run", "-N3", "echo", "here").split() == ["here"] * 3
        assert lab.stats()["open_w"] == 4 * NET_W, "the excluded node may be on: its idle watts are not for jobs"
        exclude(lab, "")
        runs = [lab.run("submit", "-N1", "sleep", "900").strip() for _ in range(4)]
        wait_for("starts", lambda: lab.states()["RUN"] == 4)
        lab.configure('[resource]\nexclude = "2"\n')
        lab.reload()
        assert (lab.states()["RUN"], lab.stats()["used_w"]) == (4, 4 * NET_W), "Flux excludes nothing yet"
        exclude(lab, "2")
        wait_for("the end of the job there, by Flux", lambda: lab.stats()["used_w"] == 3 * NET_W)
        assert "failed to reallocate R" in "".join(lab.run("job", "eventlog", job) for job in runs)
        lab.submit(1)
        lab.cap_w(4 * IDLE_W + 4 * NET_W - 1)
        wait_for("a round", lambda: lab.stats()["open_w"] == 4 * NET_W - 1)
        assert lab.states()["SCHED"] == 1, "the node is free, and serves nobody"
        lab.run("cancel", *runs, check=False)
        wait_for("its end", lambda: not lab.jobs(ended=False))


def exclude(lab: Lab, ranks: str) -> None:
    """Have Flux exclude ranks, as the guide says."""
    lab.configure(f'[resource]\nexclude = "{ranks}"\n')
    lab.unload()
    lab.run("module", "reload", "resource")
    lab.load()


@real_flux
def test_a_load_target_parks_the_processes_of_users_who_consent_alone(tmp_path: Path) -> None:
    """On four real brokers: parked processes stand still, others run on, and after the target all go on.

    A module that died meanwhile finds its parked jobs again: Flux does not say whether processes are stopped.
    """
    more = 'targets = "targets.csv"\n[consent]\nevery_s = 0.3\n'
    write_config(tmp_path, 4, policy="dr-parking", cap_w=4 * 300, more=more)
    with instance(tmp_path, brokers=4) as lab:
        tag = "--setattr=system.wattqueue.consent=consent"
        gives = lab.run("submit", "-N2", tag, "sleep", "977").strip()
        other = lab.run("submit", "-N1", "sleep", "978").strip()
        wait_for("starts", lambda: lab.states()["RUN"] == 2)
        wait_for("the processes", lambda: len(states("sleep 977")) == 2)
        begin_s = time.time()
        rows = f"{begin_s},{begin_s + 900.0},{4 * IDLE_W + NET_W},W,3600,event\n"
        (tmp_path / "targets.csv").write_text("start_s,end_s,limit,unit,notice_s,correlation_id\n" + rows)
        wait_for("stopped processes", lambda: states("sleep 977") == ["T", "T"])
        assert states("sleep 978") == ["S"]
        wait_for("what they count", lambda: lab.stats()["used_w"] == NET_W)
        os.kill(lab.module_pid(), signal.SIGKILL)
        wait_for("its end", lambda: NAME not in lab.run("module", "list"))
        assert states("sleep 977") == ["T", "T"]
        lab.load()
        wait_for("what they count", lambda: lab.stats()["used_w"] == NET_W)
        time.sleep(1.0)
        assert (states("sleep 977"), states("sleep 978")) == (["T", "T"], ["S"])
        (tmp_path / "targets.csv").unlink()
        wait_for("continued processes", lambda: states("sleep 977") == ["S", "S"])
        wait_for("what they count", lambda: lab.stats()["used_w"] == 3 * NET_W)
        lab.run("cancel", gives, other)
        wait_for("the end of both", lambda: lab.states()["INACTIVE"] == 2)


def states(command: str) -> list[str]:
    """States of all processes of a command."""
    lines = subprocess.run(["ps", "-eo", "stat=,args="], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line[0] for line in lines if line.split(maxsplit=1)[1] == command]


@real_flux
def test_what_users_state_of_a_node_is_counted_and_a_figure_that_is_none_is_refused(tmp_path: Path) -> None:
    write_config(tmp_path, 4, policy="easy+estimator=user-figure", cap_w=4 * IDLE_W + 2 * NET_W)
    own = "--setattr=system.wattqueue.watts="
    with instance(tmp_path, emulated=4) as lab:
        (states,) = lab.submit(1, f"{own}149.5", seconds=600.0, nodes=2)
        wait_for("a start", lambda: lab.states()["RUN"] == 1)
        assert lab.used_w() == lab.stats()["used_w"] == 2 * 50
        (silent,) = lab.submit(1, seconds=600.0)
        wait_for("a start", lambda: lab.states()["RUN"] == 2)
        assert lab.stats()["used_w"] == 2 * 50 + NET_W
        (waits,) = lab.submit(1, f"{own}250", seconds=0.2)
        time.sleep(1.0)
        assert lab.states() == {"RUN": 2, "SCHED": 1}, "it states 150 W above idle, and 100 W are left"
        lab.cap_w(4 * IDLE_W + 2 * 50 + NET_W + 150)
        wait_for("its end", lambda: lab.states()["INACTIVE"] == 1)
        for wrong, why in (("many", "'many' is no number"), ("-1", "watts = -1 is outside"), ("1e30", "is outside")):
            (refused,) = lab.submit(1, f"{own}{wrong}")
            wait_for("its refusal", lambda: why in lab.run("job", "eventlog", refused))  # noqa: B023
        (never,) = lab.submit(1, f"{own}9000")
        wait_for("its refusal", lambda: "it needs 8900 W above idle" in lab.run("job", "eventlog", never))
        lab.run("cancel", states, silent, waits, check=False)


@real_flux
def test_jobs_of_another_scheduler_count_what_their_users_state_else_the_maximum(tmp_path: Path) -> None:
    write_config(tmp_path, 4, cap_w=4 * 300)
    with instance(tmp_path, emulated=4, load=False) as lab:
        lab.run("module", "load", "sched-simple")
        lab.submit(1, "--exclusive", "--setattr=system.wattqueue.watts=149.5", seconds=600.0, nodes=2)
        lab.submit(1, "--exclusive", "--setattr=system.wattqueue.watts=many", seconds=600.0)
        lab.submit(1, "--exclusive", seconds=600.0)
        wait_for("starts", lambda: lab.states()["RUN"] == 3)
        lab.run("module", "unload", "sched-simple")
        lab.load()
        assert lab.stats()["used_w"] == 2 * 50 + 2 * NET_W


@real_flux
def test_jobs_of_another_scheduler_go_on_wherever_they_run_and_count_by_the_kind_of_each_node(tmp_path: Path) -> None:
    """On two partitions, on nodes that the machine file does not name, and with a jobspec that nobody else can read."""
    write_config(tmp_path, 4, cap_w=2 * 100 + 2 * 200 + 10_000)
    parts = (Partition("cpu", 2, idle_w=100.0, max_w=300.0), Partition("gpu", 2, idle_w=200.0, max_w=700.0))
    write_machine(tmp_path / "machine.toml", Machine("two", parts))
    with instance(tmp_path, emulated=7, load=False, properties="-p cpu:0-1 -p gpu:2-3") as lab:
        lab.run("module", "load", "sched-simple")
        for ranks, more in (("0", "--setattr=system.job=text"), ("1-2", ""), ("3-5", ""), ("6", "")):
            nodes = len(ids_of(ranks))
            lab.submit(1, f"--requires=rank:{ranks}", "--exclusive", *more.split(), seconds=600.0, nodes=nodes)
        wait_for("starts", lambda: lab.states()["RUN"] == 4)
        lab.run("module", "unload", "sched-simple")
        lab.load()
        assert lab.stats()["used_w"] == NET_W + (NET_W + FAST_W) + FAST_W
        lab.cap_w(2 * 100 + 2 * 200 + 9_000)
        wait_for("a round", lambda: lab.stats()["open_w"] == 9_000)
        assert lab.states() == {"RUN": 4}, lab.log()[-3000:]


@real_flux
@pytest.mark.slow
def test_consenting_jobs_wait_for_the_cheap_hour_and_each_record_has_the_price_in_force(tmp_path: Path) -> None:
    """As in a controller of Slurm (``tests/live/test_delays_live.py``, ``test_job_energy.py``): by the same code."""
    prices, row = tmp_path / "prices.csv", tmp_path / "row.toml"

    def state(scale: float) -> None:
        steps = ((-600.0, 90.0), (CHEAP_S, 30.0), (600.0, 80.0), (7200.0, 80.0))
        prices.write_text("time_s,price\n" + "".join(f"{begin_s + at},{scale * price}\n" for at, price in steps))

    row.write_text('[cheap]\ncontrols = [{ part = "delay-consenting", prices = "prices.csv" }]\n')
    more = '[energy]\nprices = "prices.csv"\n[consent]\n'
    write_config(tmp_path, 4, policy=f"{row}:cheap", cap_w=4 * 300, more=more)
    with instance(tmp_path, emulated=4, load=False) as lab:
        begin_s = time.time()
        state(1.0)
        lab.load()
        until = datetime.fromtimestamp(begin_s + 3600.0, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        tag = f"--setattr=system.wattqueue.consent=consent,until={until}"
        (willing,) = lab.submit(1, tag, "-t", "1m", seconds=8.0)  # energy is looked at every 5 s
        (other,) = lab.submit(1, "-t", "1m", seconds=8.0)
        wait_for("the end of one", lambda: lab.states()["INACTIVE"] == 1)
        folder = tmp_path / f"run/energy/users/{os.getuid()}/jobs"

        def records() -> list[dict[str, Any]]:
            return [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]

        wait_for("its record", lambda: len(records()) == 1)
        (dear,) = records()
        assert dear["cost"] == pytest.approx(dear["energy_j"] / 3.6e9 * 90.0)
        state(2.0)
        wait_for("the end of both", lambda: lab.states()["INACTIVE"] == 2, 2 * CHEAP_S)
        starts = {lab.run("job", "id", name).strip(): name for name in (willing, other)}
        started = {starts[str(job["id"])]: job["t_run"] - begin_s for job in lab.jobs()}
        assert started[other] < CHEAP_S <= started[willing] < CHEAP_S + 3.0
        wait_for("its record", lambda: len(records()) == 2)
        cheap = records()[1]
        assert cheap["cost"] == pytest.approx(cheap["energy_j"] / 3.6e9 * 60.0)
