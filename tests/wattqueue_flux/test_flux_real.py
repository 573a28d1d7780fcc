"""WattQueue as the scheduler of a real Flux: the cap holds, every job runs once, and nothing ends the module.

Nodes are emulated: jobs there only last. Each safety test has its twin of liveness.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wattqueue_flux.fluxlab import (
    NET_W,
    Lab,
    change_module,
    instance,
    missing,
    real_flux,
    until,
    wait_for,
    write_config,
)
from tests.wattqueue_flux.instants import decide_again
from wattqueue_flux import sched_wattqueue

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
NODES = 100
IDLE_W = 100 * NODES


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    write_config(tmp_path, NODES, cap_w=IDLE_W + 10 * NET_W)
    with instance(tmp_path, emulated=NODES) as running:
        yield running


def ended(lab: Lab, count: int) -> bool:
    return lab.states()["INACTIVE"] == count


def check_each_ran_once(lab: Lab, ids: list[str], *results: str) -> None:
    jobs = {str(job["id"]): job for job in lab.jobs()}
    assert len(jobs) == len(ids)
    assert {job["result"] for job in jobs.values()} == {"COMPLETED", *results}
    assert {lab.starts_of(job) for job in ids[:: max(1, len(ids) // 10)]} == {1}


@real_flux
def test_the_cap_holds_on_a_thousand_nodes_and_every_job_ends_once(tmp_path: Path) -> None:
    write_config(tmp_path, 1000, cap_w=100_000 + 50 * NET_W)
    with instance(tmp_path, emulated=1000) as lab:
        ids = lab.submit(200)
        used = []

        def all_ended() -> bool:
            used.append(lab.used_w())
            return ended(lab, 200)

        wait_for("the end of 200 jobs", all_ended)
        check_each_ran_once(lab, ids)
        assert 0 < max(used) <= 50 * NET_W
        starts = [job["t_run"] for job in lab.jobs()]
        ends = [job["t_inactive"] for job in lab.jobs()]
        most = max(sum(s <= at < e for s, e in zip(starts, ends, strict=True)) for at in starts)
        assert most == 50, "as many as the cap has room for, and no more"


@real_flux
def test_a_cap_that_is_raised_by_its_file_or_as_announced_starts_jobs_within_a_second(tmp_path: Path) -> None:
    """Without any event of a job, and long before the next periodic round."""
    write_config(tmp_path, NODES, cap_w=IDLE_W, more="period_s = 300.0\n")
    with instance(tmp_path, emulated=NODES) as lab:
        lab.submit(8, seconds=600.0)
        time.sleep(1.5)
        assert lab.states() == {"SCHED": 8}
        lab.cap_w(IDLE_W + 5 * NET_W)
        raised_s = time.time()
        wait_for("starts", lambda: lab.states()["RUN"] == 5, 10.0)
        assert max(job["t_run"] for job in lab.jobs() if "t_run" in job) - raised_s < 1.0
        announced_s = time.time() + 3.0
        lab.cap(f"time_s,cap_w\n0,{IDLE_W + 5 * NET_W}\n{announced_s},{IDLE_W + 8 * NET_W}\n")
        wait_for("starts", lambda: lab.states()["RUN"] == 8, 20.0)
        late = sorted(job["t_run"] for job in lab.jobs())[5:]
        assert announced_s <= late[0] <= late[-1] < announced_s + 1.0


FAILS = """
from pathlib import Path
from wattqueue.parts.contracts import Start


class Fails:
    def schedule(self, view):
        if Path({folder!r}, "fail").exists():
            raise OSError("no luck")
        return [Start(int(entry), view.entry_options(int(entry))[0]) for entry in view.queue[:1]]
"""


@real_flux
def test_a_round_that_failed_is_tried_again_and_an_announced_cap_is_not_forgotten(tmp_path: Path) -> None:
    """Long before the next periodic round, and without any event."""
    (tmp_path / "fails.py").write_text(FAILS.format(folder=str(tmp_path)))
    write_config(tmp_path, 4, cap_w=4 * 100, policy="fails.py:Fails", more="period_s = 300.0\n")
    with instance(tmp_path, emulated=4) as lab:
        (tmp_path / "fail").touch()
        announced_s = time.time() + 6.0
        lab.cap(f"time_s,cap_w\n0,{4 * 100 + NET_W}\n{announced_s},{4 * 100 + 2 * NET_W}\n")
        lab.submit(2, seconds=600.0)
        wait_for("a word about it", lambda: "no luck" in lab.log(), 10.0)
        (tmp_path / "fail").unlink()
        wait_for("a start", lambda: lab.states()["RUN"] == 1, 10.0)
        wait_for("another", lambda: lab.states()["RUN"] == 2, 20.0)
        assert announced_s <= max(job["t_run"] for job in lab.jobs()) < announced_s + 3.0


@real_flux
def test_a_reload_counts_running_jobs_again(lab: Lab) -> None:
    first = lab.submit(10, seconds=600.0)
    wait_for("starts", lambda: lab.states()["RUN"] == 10)
    lab.unload()
    lab.load()
    second = lab.submit(5, seconds=0.5)
    time.sleep(2.0)
    assert (lab.states(), lab.stats()["used_w"]) == ({"RUN": 10, "SCHED": 5}, 10 * NET_W)
    lab.run("cancel", *first)
    wait_for("the end of all", lambda: ended(lab, 15))
    check_each_ran_once(lab, first + second, "CANCELED")


@real_flux
def test_nothing_starts_beside_a_job_whose_nodes_cannot_be_read_until_it_has_ended(lab: Lab) -> None:
    """Flux passes over it at a reload, so that nothing would count it."""
    (runs,) = lab.submit(1, seconds=600.0)
    wait_for("a start", lambda: lab.states()["RUN"] == 1)
    lab.unload()
    lab.run("kvs", "unlink", f"{lab.run('job', 'id', '--to=kvs', runs).strip()}.R")
    lab.load()
    wait_for("a word about it", lambda: "its R cannot be read" in lab.log())
    lab.submit(3, seconds=0.2)
    time.sleep(2.0)
    assert lab.states() == {"RUN": 1, "SCHED": 3}
    lab.run("cancel", runs)
    wait_for("the end of all", lambda: ended(lab, 4))
    assert lab.stats()["used_w"] == 0


@real_flux
def test_a_killed_module_leaves_running_jobs_alone_and_a_reload_counts_them(lab: Lab) -> None:
    first = lab.submit(10, seconds=600.0)
    wait_for("starts", lambda: lab.states()["RUN"] == 10)
    os.kill(lab.module_pid(), signal.SIGKILL)
    wait_for("its end", lambda: "sched_wattqueue" not in lab.run("module", "list"))
    second = lab.submit(5, seconds=0.5)
    time.sleep(1.0)
    assert lab.states()["RUN"] == 10
    lab.load()
    time.sleep(1.5)
    assert (lab.states()["RUN"], lab.stats()["used_w"]) == (10, 10 * NET_W)
    lab.run("cancel", *first)
    wait_for("the end of all", lambda: ended(lab, 15))
    check_each_ran_once(lab, first + second, "CANCELED")


@real_flux
def test_without_nopanic_the_death_of_the_module_ends_the_instance(tmp_path: Path) -> None:
    """What the guide says is lost: everything that runs."""
    write_config(tmp_path, 4, cap_w=4 * 300)
    with instance(tmp_path, emulated=4, nopanic=False) as lab:
        lab.submit(2, seconds=600.0)
        wait_for("starts", lambda: lab.states()["RUN"] == 2)
        os.kill(lab.module_pid(), signal.SIGKILL)
        wait_for("the end of the instance", lambda: lab.broker.poll() is not None, 60.0)


@real_flux
def test_a_malformed_cap_leaves_the_last_one_in_force(lab: Lab) -> None:
    lab.submit(20, seconds=600.0)
    wait_for("starts", lambda: lab.states()["RUN"] == 10)
    lab.cap("time_s,cap_w\n0,many\n")
    wait_for("a word about it", lambda: "many" in lab.log(), 10.0)
    wait_for("the status", lambda: "many" in (lab.folder / "run" / "status.json").read_text(), 10.0)
    assert lab.stats()["open_w"] == 10 * NET_W
    lab.run("cancel", *(str(job["id"]) for job in lab.jobs() if job["state"] == "RUN"))
    wait_for("the other ten", lambda: lab.states() == {"INACTIVE": 10, "RUN": 10})


@real_flux
def test_an_estimator_that_answers_nan_counts_the_maximum(tmp_path: Path) -> None:
    (tmp_path / "nan.py").write_text(NAN_ESTIMATOR)
    write_config(tmp_path, 4, cap_w=4 * 100 + 2 * NET_W, policy="nan.py:NaN")
    with instance(tmp_path, emulated=4) as lab:
        lab.submit(4, seconds=600.0)
        wait_for("starts", lambda: lab.states()["RUN"] == 2)
        assert lab.used_w() == 2 * NET_W
        lab.run("cancel", *(str(job["id"]) for job in lab.jobs() if job["state"] == "RUN"))
        wait_for("the other two", lambda: lab.states() == {"INACTIVE": 2, "RUN": 2})
        assert "estimator NaN" in lab.log()


NAN_ESTIMATOR = """
import numpy as np
from wattqueue.parts.contracts import Prediction


class NaN:
    asked = "once"
    machine_figures = False

    def predict(self, jobs, machine):
        shape = (len(jobs), len(machine.option_partition))
        return Prediction(np.full(shape, np.nan), np.ones(shape))
"""


@real_flux
def test_two_schedulers_a_wrong_file_and_unknown_resources_are_refused_in_a_line(lab: Lab) -> None:
    assert "File exists" in lab.run("module", "load", "sched-simple", check=False)
    lab.unload()
    (lab.folder / "live.toml").write_text('machine = "machine.toml"\ncap = "cap.csv"\n[flux]\n')
    lab.load(check=False)
    assert 'mode = "observe" is not carried out inside Flux' in lab.log()
    write_config(lab.folder, NODES, cap_w=IDLE_W + NET_W)
    lab.load()
    jobspec = json.loads(lab.run("submit", "--dry-run", "-N1", "true"))
    jobspec["resources"].append({"type": "licence", "count": 1})
    (lab.folder / "job.json").write_text(json.dumps(jobspec))
    refused = lab.run("job", "submit", "--flags=novalidate", str(lab.folder / "job.json")).strip()
    wait_for("its end", lambda: ended(lab, 1))
    assert "'licence' is not known" in lab.run("job", "eventlog", refused)
    lab.submit(1)
    wait_for("another one", lambda: ended(lab, 2))


@real_flux
def test_a_job_that_never_fits_the_cap_is_denied(lab: Lab) -> None:
    (never,) = lab.submit(1, nodes=50)
    wait_for("its end", lambda: ended(lab, 1))
    assert "W" in lab.run("job", "eventlog", never)
    assert lab.jobs()[0]["result"] == "FAILED"
    lab.submit(1, nodes=10)
    wait_for("one that fits", lambda: ended(lab, 2))


@real_flux
def test_with_the_ingest_plugin_a_job_that_never_fits_is_refused_at_its_submission(tmp_path: Path) -> None:
    write_config(tmp_path, NODES, cap_w=IDLE_W + 10 * NET_W)
    plugins = '[ingest.validator]\nplugins = ["jobspec", "feasibility"]\n'
    with instance(tmp_path, emulated=NODES, config=plugins) as lab:
        said = lab.run("submit", "-N50", "true", check=False)
        assert "10000 W above idle" in said
        assert lab.jobs() == []
        lab.submit(1, nodes=10)
        wait_for("one that fits", lambda: ended(lab, 1))


@real_flux
def test_recorded_instants_are_decided_alike_in_three_drivers(lab: Lab) -> None:
    lab.submit(30, seconds=0.7)
    lab.submit(3, nodes=7, seconds=0.7)
    wait_for("the end of all", lambda: ended(lab, 33))
    lab.unload()
    found = decide_again(lab.folder / "views.jsonl", lab.folder)
    assert (found.differ, found.starts) == ([], 33)


@real_flux
def test_drained_nodes_get_no_job_and_serve_again(tmp_path: Path) -> None:
    """On four real brokers, with real processes."""
    write_config(tmp_path, 4, cap_w=4 * 300)
    with instance(tmp_path, brokers=4) as lab:
        lab.run("resource", "drain", "1-3")
        ids = [lab.run("submit", "-N1", *until(tmp_path / "go")).strip() for _ in range(3)]
        wait_for("a start", lambda: lab.states()["RUN"] == 1)
        assert lab.states() == {"RUN": 1, "SCHED": 2}
        lab.run("resource", "undrain", "1-3")
        wait_for("starts", lambda: lab.states() == {"RUN": 3})
        (tmp_path / "go").touch()
        wait_for("the end of all", lambda: ended(lab, 3))
        check_each_ran_once(lab, ids)
        assert lab.run("run", "-N4", "echo", "here").split() == ["here"] * 4


@real_flux
def test_a_job_without_a_limit_has_no_expiration_and_a_limit_can_be_updated(lab: Lab) -> None:
    (without,) = lab.submit(1, seconds=600.0)
    (short,) = lab.submit(1, "-t", "300s", seconds=600.0)
    wait_for("starts", lambda: lab.states()["RUN"] == 2)
    assert json.loads(lab.run("job", "info", without, "R"))["execution"]["expiration"] == 0
    R = json.loads(lab.run("job", "info", short, "R"))["execution"]
    assert R["expiration"] - R["starttime"] == pytest.approx(300.0)
    lab.run("update", short, "duration=+5m")
    events = [json.loads(line) for line in lab.run("job", "eventlog", "-f", "json", short).splitlines()]
    assert events[-1]["context"]["expiration"] - R["starttime"] == pytest.approx(600.0)
    assert lab.states() == {"RUN": 2}


@real_flux
def test_urgency_orders_the_queue_and_held_jobs_wait(tmp_path: Path) -> None:
    write_config(tmp_path, 2, cap_w=2 * 100 + NET_W, policy="flux-priority")
    with instance(tmp_path, emulated=2) as lab:
        first = lab.submit(1, seconds=600.0)
        wait_for("a start", lambda: lab.states()["RUN"] == 1)
        low, high = lab.submit(1, seconds=0.3), lab.submit(1, "--urgency=30", seconds=0.3)
        later = lab.submit(1, seconds=0.3)
        (held,) = lab.submit(1, "--urgency=0", seconds=0.3)
        lab.run("job", "urgency", *later, "20")
        assert lab.states() == {"RUN": 1, "SCHED": 4}
        lab.run("cancel", *first)
        wait_for("the end of four", lambda: ended(lab, 4))
        runs = {job["t_run"]: job["id"] for job in lab.jobs() if "t_run" in job}
        order = [lab.run("job", "id", str(runs[at])).strip() for at in sorted(runs)]
        assert order == [lab.run("job", "id", one).strip() for one in (*first, *high, *later, *low)]
        lab.run("job", "urgency", held, "16")
        wait_for("the held one", lambda: ended(lab, 5))


@real_flux
def test_a_cancelled_job_and_its_successor_are_both_answered(lab: Lab) -> None:
    ids = lab.submit(30, seconds=600.0)
    wait_for("starts", lambda: lab.states()["RUN"] == 10)
    lab.run("cancel", *ids)
    wait_for("the end of all", lambda: ended(lab, 30))
    assert lab.stats()["used_w"] == 0
    lab.submit(10, seconds=0.2)
    wait_for("others", lambda: ended(lab, 40))


LATE_STORE = """
from pathlib import Path

def change(h):
    import wattqueue_flux.protocol as protocol
    stored, late = protocol.commit_async, Path({late!r})

    class Refused:
        def then(self, call, *args):
            def asked(*_):
                if not late.exists():
                    self.timer.stop()
                    call(self, *args)

            self.timer = h.timer_watcher_create(0.1, asked, repeat=0.1)
            self.timer.start()

        def get(self):
            raise OSError("refused late")

    protocol.commit_async = lambda *args, **more: Refused() if late.exists() else stored(*args, **more)
"""
"""The module; what is stored while a file exists is refused once that file is gone."""


@real_flux
def test_a_job_that_is_cancelled_or_held_while_its_start_is_stored_waits_no_more_if_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config(tmp_path, 2, cap_w=2 * 300)
    late = tmp_path / "late"
    change_module(tmp_path, LATE_STORE.format(late=str(late)), monkeypatch)
    with instance(tmp_path, emulated=2) as lab:
        late.touch()
        (cancelled,), (held,) = lab.submit(1), lab.submit(1, seconds=0.2)
        wait_for("both starts", lambda: lab.stats()["used_w"] == 2 * NET_W)
        lab.run("cancel", cancelled)
        lab.run("job", "urgency", held, "0")
        late.unlink()
        wait_for("a word about it", lambda: "refused late" in lab.log())
        wait_for("both refusals", lambda: lab.stats()["used_w"] == 0)
        assert lab.stats()["pending_jobs"] == 0
        assert lab.states() == {"INACTIVE": 1, "SCHED": 1}
        lab.run("job", "urgency", held, "16")
        wait_for("its end", lambda: ended(lab, 2))
        assert (lab.starts_of(cancelled), lab.starts_of(held)) == (0, 1)


OTHER_FLUX = """
def change(h):
    import wattqueue_flux.examine as examine
    examine.TESTED = "0.99"
"""
"""The module as it would be in a Flux of another release."""


@real_flux
def test_another_flux_and_another_python_are_refused_in_a_line_and_jobs_wait(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = lab.submit(1, seconds=600.0)
    wait_for("a start", lambda: lab.states()["RUN"] == 1)
    lab.unload()
    change_module(lab.folder, OTHER_FLUX, monkeypatch)
    lab.load(check=False)
    assert "the scheduler is tested with 0.99: it starts nothing here" in lab.log()
    site = "site=/venv/lib/python3.10/site-packages"
    lab.run("module", "load", sched_wattqueue.__file__, site, f"config={lab.folder}/live.toml", check=False)
    assert "Flux runs Python 3.11, WattQueue is installed for 3.10" in lab.log()
    second = lab.submit(1, seconds=0.2)
    time.sleep(1.0)
    assert lab.states() == {"RUN": 1, "SCHED": 1}
    monkeypatch.undo()
    lab.load()
    lab.run("cancel", *first)
    wait_for("the end of both", lambda: ended(lab, 2))
    check_each_ran_once(lab, first + second, "CANCELED")


def doctor(lab: Lab) -> dict[str, tuple[str, str, str]]:
    """What the doctor says of an instance: mark, what it found, and what that costs, by thing."""
    environment = {**os.environ, "FLUX_URI": lab.uri, "PATH": f"{Path(lab.flux).parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "wattqueue", "doctor", "--flux", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    checks = [one for one in json.loads(done.stdout)["checks"] if one["area"] == "Flux"]
    return {one["name"]: (one["state"], one["found"], one["cost"]) for one in checks}


@real_flux
def test_the_doctor_names_what_an_instance_lacks(tmp_path: Path) -> None:
    write_config(tmp_path, 4, cap_w=4 * 300)
    with instance(tmp_path, emulated=4, nopanic=False, load=False) as lab:
        lab.load("queue-depth=none", check=False)  # a module that cannot be loaded ends nothing, also without nopanic
        said = doctor(lab)
        assert said["flux"][0] == said["Python"][0] == "yes"
        assert said["scheduler"] == ("no", "none", "flux module load $(wattqueue flux module) config=FILE")
        assert said["feasibility"][:2] == ("part", "not checked")
        assert said["module-nopanic"] == (
            "no", "not set", "if a module dies, all jobs are cancelled: flux setattr broker.module-nopanic 1"
        )  # fmt: skip
        lab.run("module", "load", "sched-simple")
        assert doctor(lab)["scheduler"] == (
            "no", "sched-simple", "two schedulers cannot be loaded: flux module unload sched-simple"
        )  # fmt: skip
        lab.run("module", "unload", "sched-simple")
        lab.load("queue-depth=8")
        assert doctor(lab)["scheduler"][:2] == ("part", "sched_wattqueue, queue depth 8")
        lab.run("setattr", "broker.module-nopanic", "1")
        assert doctor(lab)["module-nopanic"][0] == "yes"


@real_flux
def test_the_doctor_finds_nothing_where_all_is_set(tmp_path: Path) -> None:
    write_config(tmp_path, 4, cap_w=4 * 300)
    plugins = '[ingest.validator]\nplugins = ["jobspec", "feasibility"]\n'
    with instance(tmp_path, emulated=4, config=plugins) as lab:
        said = doctor(lab)
        assert {mark for mark, _, _ in said.values()} == {"yes"}
        assert said["scheduler"][1] == "sched_wattqueue, queue depth unlimited"
