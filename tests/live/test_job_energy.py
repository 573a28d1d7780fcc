"""What a controller records of the energy of jobs: figures, labels, intervals, prices, waits, and who may read them."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.live.drive import kept, lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.slurmlab import wait_for
from wattqueue.errors import InputError, OutputError
from wattqueue.formats.tariff import parse_source
from wattqueue.live.controller import Controller
from wattqueue.live.features.job_energy import EVERY_S, EnergyRecorder, Rate
from wattqueue.live.files.energy_records import (
    ACL,
    EnergyFolder,
    EnergyRecord,
    access_list,
    folders_of,
    of_account,
    read_records,
    read_running,
)
from wattqueue.live.planner import Rules
from wattqueue.live.shared_nodes import SharedNodes
from wattqueue.live.slurm.install import epilog
from wattqueue.live.telemetry.base import JobEnergy, PowerSample, Reading
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.report.job_energy import document, month_of, sentence, summary, totals

STEP_S = 2.0


@dataclass
class Meters:
    """Watts of every node by a function of its name and the time; the last digits move, as those of a meter do."""

    slurm: FakeSlurm
    watts: Callable[[str], float]
    still: bool = False
    resolution_w: float = 0.0
    name: str = "meters"

    def read(self, now_s: float) -> Reading:
        moved = 0.0 if self.still else 0.001 * (now_s % 97.0)
        names = [name for names in self.slurm.partitions.values() for name in names]
        return Reading({name: PowerSample(self.watts(name) + moved, now_s, self.name) for name in names})


@dataclass
class Accounting:
    """Answers like sacct: each ended job drew 150 W a node."""

    slurm: FakeSlurm
    asked: list[float] = field(default_factory=list)
    name: str = "slurmdbd"

    def finished(self, since_s: float) -> Sequence[JobEnergy]:
        self.asked.append(since_s)
        return [
            JobEnergy(
                job.name, float(int(job.submit_s)), job.start_s, job.end_s, job.nodes,
                150.0 * job.nodes * (job.end_s - job.start_s), "COMPLETED", self.name, job.uid, job.account, "p1",
            )
            for job in self.slurm.jobs.values()
            if job.state == "COMPLETED" and job.end_s >= since_s
        ]  # fmt: skip


def lab(total_w: int = 1600, **more: object) -> FakeSlurm:
    parts = {"p1": ["n1", "n2", "n3", "n4"], "p2": ["m1", "m2", "m3", "m4"]}
    return FakeSlurm(parts, total_w, **more)  # type: ignore[arg-type]


def make(slurm: FakeSlurm, folder: Path, energies: EnergyRecorder | None = None, **more: object) -> Controller:
    energies = energies or EnergyRecorder(EnergyFolder(folder / "energy"))
    given = {"cap": Cap.constant(2400.0), **more}
    return make_controller(slurm, folder, lambda: slurm.now_s, energies=energies, **given)  # type: ignore[arg-type]


def rounds(controller: Controller, slurm: FakeSlurm, seconds: float, step_s: float = STEP_S) -> None:
    end_s = slurm.now_s + seconds
    while slurm.now_s < end_s:
        controller.round()
        slurm.step(step_s)
    controller.round()


def recorded(folder: Path) -> list[EnergyRecord]:
    return read_records(folders_of(folder / "energy", 0))


def test_a_measured_job_has_what_its_meters_counted(tmp_path: Path) -> None:
    slurm = lab()
    controller = make(slurm, tmp_path, sources=(Meters(slurm, lambda name: 250.0 if name == "n1" else 170.0),))
    job = slurm.submit(2, 200.0, watts=400, partition="p1", project="climate")
    rounds(controller, slurm, 260.0)
    assert job.state == "COMPLETED"
    (one,) = recorded(tmp_path)
    assert one.project == "climate"
    drawn_w = sum(250.0 if name == "n1" else 170.0 for name in job.held_nodes)
    run_s = one.end_s - one.start_s
    assert (one.job, one.uid, one.account, one.nodes, one.label) == (job.name, 1000, "all", 2, "measured")
    assert run_s == pytest.approx(job.end_s - job.start_s, abs=EVERY_S + STEP_S)
    assert one.energy_j == pytest.approx(drawn_w * run_s, rel=0.001)
    assert one.low_j < one.energy_j < one.high_j
    assert one.high_j - one.low_j <= 2 * (300.0 - 100.0) * (2 * EVERY_S + STEP_S), "only its edges were not measured"
    assert kept(controller, EnergyRecorder) is not None


def test_without_meters_a_job_is_modelled_between_idle_and_maximum(tmp_path: Path) -> None:
    slurm = lab()
    controller = make(slurm, tmp_path)
    slurm.submit(2, 100.0, watts=400, partition="p1")
    rounds(controller, slurm, 150.0)
    (one,) = recorded(tmp_path)
    run_s = one.end_s - one.start_s
    assert one.label == "modelled"
    assert (one.low_j, one.high_j) == pytest.approx((2 * 100.0 * run_s, 2 * 300.0 * run_s))
    assert one.low_j <= one.energy_j <= one.high_j
    assert one.cost is None
    assert one.carbon is None


@pytest.mark.parametrize("still", [False, True])
def test_a_meter_that_stands_still_measures_nothing(tmp_path: Path, *, still: bool) -> None:
    slurm = lab()
    controller = make(slurm, tmp_path, sources=(Meters(slurm, lambda _: 180.0, still=still),))
    slurm.submit(1, 200.0, watts=200, partition="p1")
    rounds(controller, slurm, 250.0)
    (one,) = recorded(tmp_path)
    assert one.label == ("modelled" if still else "measured")
    assert one.low_j <= 180.0 * (one.end_s - one.start_s) <= one.high_j


def test_the_accounting_tells_what_was_not_measured(tmp_path: Path) -> None:
    slurm = lab()
    accounting = Accounting(slurm)
    energies = EnergyRecorder(EnergyFolder(tmp_path / "energy"), accounting=accounting)
    controller = make(slurm, tmp_path, energies)
    job = slurm.submit(2, 100.0, watts=400, partition="p1")
    rounds(controller, slurm, 250.0)
    (one,) = recorded(tmp_path)
    assert (one.label, one.source, one.energy_j) == ("measured", "slurmdbd", 300.0 * (job.end_s - job.start_s))
    lines = (tmp_path / "energy/users/1000/jobs").glob("*.jsonl")
    assert sum(len(path.read_text().splitlines()) for path in lines) == 2, "the modelled figure, then the measured one"


def test_a_job_that_ended_while_nobody_looked_comes_from_the_accounting(tmp_path: Path) -> None:
    slurm = lab()
    accounting = Accounting(slurm)
    controller = make(slurm, tmp_path, EnergyRecorder(EnergyFolder(tmp_path / "energy"), accounting=accounting))
    job = slurm.submit(1, 300.0, watts=200, partition="p1")
    rounds(controller, slurm, 100.0)
    assert job.state == "RUNNING"
    slurm.step(2000.0)
    assert recorded(tmp_path) == []
    again = make(slurm, tmp_path, EnergyRecorder(EnergyFolder(tmp_path / "energy"), accounting=accounting))
    rounds(again, slurm, 130.0)
    (one,) = recorded(tmp_path)
    assert (one.job, one.uid, one.label) == (job.name, 1000, "measured")
    assert one.energy_j == 150.0 * (job.end_s - job.start_s)


def test_jobs_on_a_shared_node_have_what_it_drew_between_them(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": ["n1"], "p2": ["m1"], "s": ["s1"]}, 1600, shared=frozenset({"s"}))
    shared = SharedNodes((Partition("s", 1, idle_w=50.0, max_w=150.0),))
    machine = lab_machine(2)
    controller = make(slurm, tmp_path, sources=(Meters(slurm, lambda _: 130.0),), shared_nodes=shared, machine=machine)
    slurm.submit_shared(12, 200.0, "s")
    slurm.submit_shared(4, 200.0, "s")
    rounds(controller, slurm, 260.0)
    large, small = recorded(tmp_path)
    assert (large.label, small.label) == ("attributed", "attributed")
    assert large.energy_j == pytest.approx(3 * small.energy_j, rel=0.05)
    span_s = large.end_s - large.start_s
    assert large.energy_j + small.energy_j == pytest.approx(130.0 * span_s, rel=0.05)
    for one, share in ((large, 0.75), (small, 0.25)):
        assert one.share == pytest.approx(share, rel=0.05)
        assert one.low_j <= share * 50.0 * span_s * 1.05
        assert one.high_j >= 130.0 * span_s * 0.9, "all above idle may have been its own"


def test_runs_of_a_requeued_job_are_records_of_their_own(tmp_path: Path) -> None:
    slurm = lab()
    controller = make(slurm, tmp_path)
    job = slurm.submit(1, 100.0, watts=200, partition="p1")
    rounds(controller, slurm, 40.0)
    assert job.state == "RUNNING"
    slurm.requeue(job)
    rounds(controller, slurm, 250.0)
    runs = recorded(tmp_path)
    assert [one.job for one in runs] == [job.name, job.name]
    assert [one.restarts for one in runs] == [0, 1]
    assert runs[0].first_s == runs[1].first_s < runs[1].submit_s or runs[0].submit_s <= runs[1].submit_s
    assert totals(runs)["energy_j"] == runs[0].energy_j + runs[1].energy_j
    assert "2 runs" in sentence(job.name, runs)


def test_the_end_of_a_requeued_run_is_no_run_of_its_own(tmp_path: Path) -> None:
    """Until its nodes are free, Slurm shows it as completing, submitted and started when it was requeued."""
    slurm = lab()
    controller = make(slurm, tmp_path)
    job = slurm.submit(1, 100.0, watts=200, partition="p1")
    rounds(controller, slurm, 40.0)
    nodes = job.held_nodes
    slurm.requeue(job)
    job.state, job.start_s, job.held_nodes, job.begin_s = "COMPLETING", job.submit_s, nodes, slurm.now_s + 60.0
    rounds(controller, slurm, 12.0)
    job.state, job.start_s, job.held_nodes = "PENDING", -1.0, ()
    rounds(controller, slurm, 12.0)
    assert len(recorded(tmp_path)) == 1
    rounds(controller, slurm, 300.0)
    assert job.state == "COMPLETED"
    runs = recorded(tmp_path)
    assert len(runs) == 2
    assert [one.end_s - one.start_s for one in runs] == pytest.approx([40.0, 100.0], abs=8.0)


def test_the_wait_for_watts_is_counted_and_that_for_nodes_is_not(tmp_path: Path) -> None:
    slurm = lab(total_w=800)
    energies = EnergyRecorder(EnergyFolder(tmp_path / "energy"), why=tmp_path / "run")
    controller = make(slurm, tmp_path, energies, cap=Cap.constant(1200.0))  # 800 W idle, 400 W for jobs
    first = slurm.submit(2, 600.0, watts=400, limit_s=600.0, partition="p1")
    rounds(controller, slurm, 10.0)
    second = slurm.submit(2, 100.0, watts=400, limit_s=600.0, partition="p2")
    rounds(controller, slurm, 1000.0, 10.0)
    assert (first.state, second.state) == ("COMPLETED", "COMPLETED")
    found = {one.job: one for one in recorded(tmp_path)}
    waited_s = found[second.name].start_s - found[second.name].first_s
    assert waited_s > 400.0
    assert found[second.name].watts_wait_s == pytest.approx(waited_s, abs=80.0)
    assert found[first.name].watts_wait_s == 0.0
    assert "of a wait of" in sentence(second.name, [found[second.name]])

    free = lab()
    (tmp_path / "b").mkdir()
    other = make(free, tmp_path / "b", EnergyRecorder(EnergyFolder(tmp_path / "b/energy"), why=tmp_path / "b/run"))
    free.submit(4, 400.0, watts=800, limit_s=400.0, partition="p1")
    late = free.submit(4, 50.0, watts=800, limit_s=400.0, partition="p1")
    rounds(other, free, 700.0, 10.0)
    found = {one.job: one for one in recorded(tmp_path / "b")}
    assert found[late.name].start_s - found[late.name].first_s > 300.0
    assert found[late.name].watts_wait_s == 0.0, "it waited for nodes"


def test_cost_and_carbon_follow_the_hours(tmp_path: Path) -> None:
    slurm = lab()
    begin_s = slurm.now_s
    prices, carbon = tmp_path / "prices.csv", tmp_path / "carbon.csv"
    prices.write_text(f"time_s,price\n{begin_s - 100:.0f},100\n{begin_s + 100:.0f},300\n{begin_s + 5000:.0f},0\n")
    carbon.write_text(f"time_s,g\n{begin_s - 100:.0f},400\n{begin_s + 5000:.0f},0\n")
    energies = EnergyRecorder(
        EnergyFolder(tmp_path / "energy"),
        Rate(parse_source(prices, "EUR/MWh", "x")),
        Rate(parse_source(carbon, "gCO2/kWh", "x")),
    )
    controller = make(slurm, tmp_path, energies)
    slurm.submit(1, 300.0, watts=200, partition="p1")
    rounds(controller, slurm, 350.0)
    (one,) = recorded(tmp_path)
    mean = (100.0 * (begin_s + 100.0 - one.start_s) + 300.0 * (one.end_s - begin_s - 100.0)) / (one.end_s - one.start_s)
    assert one.cost == pytest.approx(one.energy_j / 3.6e9 * mean)
    assert (one.cost_unit, one.carbon_unit) == ("EUR", "gCO2")
    assert one.carbon == pytest.approx(one.energy_j / 3.6e6 * 400.0)


def test_a_gap_in_the_prices_leaves_the_cost_out_and_is_said(tmp_path: Path) -> None:
    slurm = lab()
    hours = [h for h in range(-30, 30) if not 0 <= h < 3]
    prices = tmp_path / "prices.csv"
    prices.write_text("time_s,price\n" + "".join(f"{slurm.now_s + 3600 * h - 1:.0f},50\n" for h in hours))
    rate = Rate(parse_source(prices, "EUR/MWh", "x"))
    controller = make(slurm, tmp_path, EnergyRecorder(EnergyFolder(tmp_path / "energy"), rate))
    slurm.submit(1, 60.0, watts=200, partition="p1")
    rounds(controller, slurm, 100.0)
    (one,) = recorded(tmp_path)
    assert one.cost is None
    assert one.energy_j > 0
    assert controller.last is not None
    assert any("a gap of 4 h" in text for text in controller.last.problems)
    assert "(1 run without)" in summary("month", [one, replace(one, job="8", cost=1.0, cost_unit="EUR")])
    with pytest.raises(InputError, match="ends before"):
        rate.of(slurm.now_s + 29 * 3600.0, slurm.now_s + 40 * 3600.0, 1.0)


def test_what_a_lower_clock_would_have_saved_is_the_models(tmp_path: Path) -> None:
    slurm = lab()
    clocks = {"frequencies_hz": (2.4e9, 1.8e9), "idle_w": 20.0, "max_w": 300.0, "dvfs_alpha": 2.5}
    machine = Machine("lab", tuple(Partition(name, 4, **clocks) for name in ("p1", "p2")))  # type: ignore[arg-type]
    controller = make(slurm, tmp_path, machine=machine)
    slurm.submit(1, 60.0, watts=280, partition="p1")
    rounds(controller, slurm, 100.0)
    (one,) = recorded(tmp_path)
    assert one.lower is not None
    hertz, saved, longer = one.lower
    assert hertz == 1.8e9
    lower_w = 20.0 + 280.0 * float(machine.option_dynamic_factor[1])
    assert saved == pytest.approx(1.0 - lower_w * (1.0 + longer) / 300.0, abs=0.01)
    assert longer == pytest.approx(float(machine.option_time_factor[1]) - 1.0)
    assert "less energy" in sentence(one.job, [one])
    other, plain = lab(), tmp_path / "plain"
    plain.mkdir()
    rounds_of = make(other, plain)
    other.submit(1, 60.0, watts=200, partition="p1")
    rounds(rounds_of, other, 100.0)
    assert recorded(plain)[0].lower is None, "one clock: no model says anything"


def test_a_running_job_has_a_preliminary_figure(tmp_path: Path) -> None:
    slurm = lab()
    controller = make(slurm, tmp_path, sources=(Meters(slurm, lambda _: 180.0),))
    job = slurm.submit(1, 500.0, watts=200, partition="p1")
    rounds(controller, slurm, 100.0)
    places = folders_of(tmp_path / "energy", 0)
    ((name, at_s, joules, label),) = read_running(places)
    assert (name, label) == (job.name, "measured")
    assert joules == pytest.approx(180.0 * (at_s - job.start_s), rel=0.1)
    rounds(controller, slurm, 500.0)
    assert read_running(places) == [], "it has ended"


def test_a_run_that_is_recorded_runs_no_more_though_its_row_is_older(tmp_path: Path) -> None:
    folder = EnergyFolder(tmp_path / "energy")
    first = EnergyRecord(
        job="7", submit_s=1.0, first_s=1.0, start_s=10.4, end_s=60.0, uid=os.getuid(), account="", partition="p1",
        nodes=1, energy_j=1e4, low_j=1e4, high_j=1e4, label="measured", source="meters",
    )  # fmt: skip
    second = replace(first, start_s=70.0, end_s=80.0)
    folder.put_running(first.uid, [first, second])
    folder.append(first)
    places = folders_of(folder.folder, 0)
    ((name, at_s, *_),) = read_running(places, read_records(places))
    assert (name, at_s) == ("7", 80.0), "its second run goes on"


@pytest.mark.parametrize("there", ["row", "no folder", "no row", "damaged", "silent"])
def test_the_line_at_the_end_waits_a_second_at_most_and_ends_well(tmp_path: Path, there: str) -> None:
    """Whatever is in place of the file: nothing, rubbish, or storage that does not answer."""
    place = tmp_path / f"energy/users/{os.getuid()}/jobs"
    script = tmp_path / "epilog.sh"
    script.write_text(epilog(tmp_path / "energy"))
    if there != "no folder":
        place.mkdir(parents=True)
        rows = {"row": "7 1000 3600 0 measured 1 2 1\n", "no row": "8 1000 3600 0 measured 1 2 1\n"}
        (place / "running").write_text(rows.get(there, "7 x y z\n7\n"))
    if there == "silent":
        (place / "running").unlink()
        os.mkfifo(place / "running")
    for _ in range(10):  # it gives up after a second, which a busy machine may need to begin
        done = subprocess.run(
            ["sh", str(script)], env={"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "7"}, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        if there != "row" or done.stderr:
            break
    assert done.returncode == 0
    assert done.stdout == ""
    assert ("used about 1 Wh (measured" in done.stderr) is (there == "row")
    assert there == "row" or done.stderr == ""


def test_a_full_disk_costs_records_and_no_round(tmp_path: Path) -> None:
    slurm = lab()
    (tmp_path / "energy").write_text("no folder")
    controller = make(slurm, tmp_path)
    job = slurm.submit(1, 60.0, watts=200, partition="p1")
    rounds(controller, slurm, 120.0)
    assert job.state == "COMPLETED"
    assert controller.last is not None
    assert any("the energies of jobs" in text for text in controller.last.problems)


def test_it_works_while_only_observing(tmp_path: Path) -> None:
    slurm = lab(hold_new=False)
    controller = make(slurm, tmp_path, rules=Rules(mode="observe"), sources=(Meters(slurm, lambda _: 180.0),))
    slurm.submit(1, 100.0, watts=200, partition="p1")
    rounds(controller, slurm, 150.0)
    (one,) = recorded(tmp_path)
    assert one.label == "measured"


# -- who may read -------------------------------------------------------------------------------------------
RECORD = EnergyRecord(
    job="7", submit_s=1e6, first_s=1e6, start_s=1e6 + 60, end_s=1e6 + 3660, uid=1000, account="phys/../x",
    partition="p1", nodes=2, energy_j=7.2e6, low_j=7e6, high_j=8e6, label="measured", source="meters",
)  # fmt: skip

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="reads as other accounts")


def sees(uid: int, folder: Path, *, user: int | None = None, account: str | None = None) -> str:
    """What an account finds: names of jobs, or the kind of its error."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom wattqueue.errors import InputError, OutputError\n"
        "from wattqueue.live.files.energy_records import folders_of, read_records\n"
        "def go():\n"
        f"    places = folders_of(Path({str(folder)!r}), {uid}, {user!r}, {account!r})\n"
        "    return ' '.join(one.job for one in read_records(places))\n"
        "try: print(go())\nexcept (InputError, PermissionError) as e: print(type(e).__name__, e)\n"
    )
    import sys

    from tests.program import IMPORTED_FROM

    drop = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
    keep = ("--inh-caps=-all", "--bounding-set=-all")
    env = {**os.environ, "PYTHONPATH": str(IMPORTED_FROM), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*drop, *keep, sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=120
    )
    return (done.stdout + done.stderr).strip()


@as_root
def test_a_user_reads_own_jobs_a_manager_those_of_the_account_and_nobody_else_any(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o711)
        folder = top / "energy"
        files = EnergyFolder(folder)
        files.append(RECORD, managers=[1001])
        files.append(replace(RECORD, job="8", uid=1002, account="other"))
        files.put_running(1000, [replace(RECORD, job="9")])
        assert sees(1000, folder) == "7"
        assert "InputError" in sees(1000, folder, user=1002)
        assert "InputError" in sees(1000, folder, account=RECORD.account), "a member of the account is no manager"
        assert sees(1001, folder, account=RECORD.account) == "7"
        assert "InputError" in sees(1001, folder, account="other")
        assert sees(1001, folder) == ""
        assert sees(1003, folder) == ""
        listing = subprocess.run(
            ["setpriv", "--reuid=1003", "--regid=1003", "--clear-groups", "ls", str(folder / "users/1000")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert listing.returncode != 0
        assert [one.job for one in read_records(folders_of(folder, 0))] == ["7", "8"], "root reads all"
        files.append(RECORD, managers=[])
        assert "InputError" in sees(1001, folder, account=RECORD.account), "no manager any more"


@pytest.mark.parametrize(
    "line", ["", "{", "[]", '{"job":"7"}', '{"job":"7","energy_j":"x"}', "null", RECORD.line()[:-20]]
)
def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path, line: str) -> None:
    files = EnergyFolder(tmp_path / "energy")
    files.append(RECORD)
    path = next((tmp_path / "energy/users/1000/jobs").glob("*.jsonl"))
    path.write_text(path.read_text() + line + "\n" + replace(RECORD, job="9").line())
    assert [one.job for one in recorded(tmp_path)] == ["7", "9"]


def test_old_months_are_removed(tmp_path: Path) -> None:
    files = EnergyFolder(tmp_path / "energy", keep_months=2)
    for month in range(6):
        start_s = 1e6 + month * 30.5 * 86_400.0
        files.append(replace(RECORD, job=str(month), submit_s=start_s, start_s=start_s, end_s=start_s + 60.0))
    assert [one.job for one in recorded(tmp_path)] == ["3", "4", "5"]


@pytest.mark.parametrize(
    ("month", "hours"), [("2026-10", 745), ("2026-03", 743), ("2026-12", 744), ("2024-02", 29 * 24)]
)
def test_a_month_has_the_hours_of_its_zone(month: str, hours: int) -> None:
    begin_s, end_s = month_of(month, "Europe/Berlin")
    assert (end_s - begin_s) / 3600.0 == hours


@pytest.mark.parametrize("month", ["", "2026-13", "26-1", "2026", "9999-12", "2026-11-01", "november"])
def test_what_is_no_month_is_refused(month: str) -> None:
    with pytest.raises(InputError, match="is no month"):
        month_of(month, "UTC")


def test_no_job_is_lost_or_counted_twice_at_a_clock_change(tmp_path: Path) -> None:
    begin_s, end_s = month_of("2026-10", "Europe/Berlin")
    files = EnergyFolder(tmp_path / "energy")
    ends = [begin_s - 1.0, begin_s, end_s - 1800.0, end_s - 1.0, end_s]
    for k, at_s in enumerate(ends):
        files.append(replace(RECORD, job=str(k), submit_s=at_s - 10.0, start_s=at_s - 5.0, end_s=at_s))
    places = folders_of(tmp_path / "energy", 0)
    months = [
        [one.job for one in read_records(places, *month_of(m, "Europe/Berlin"))]
        for m in ("2026-09", "2026-10", "2026-11")
    ]
    assert months == [["0"], ["1", "2", "3"], ["4"]]


def test_names_of_accounts_are_shown_as_text(tmp_path: Path) -> None:
    page = document("Energy", "all users", [replace(RECORD, account="<b>x</b>"), replace(RECORD, job="8")], str).html()
    assert "<b>x</b>" not in page
    assert "&lt;b&gt;x" in page


def test_a_sum_has_the_weakest_label_and_no_cost_that_lacks_a_part() -> None:
    paid = replace(RECORD, cost=1.0, cost_unit="EUR")
    for other, cost in ((replace(paid, cost=2.0), ", 3 EUR"), (replace(RECORD, cost=None), "")):
        line = sentence("7", [paid, replace(other, job="7", label="modelled")])
        assert "(modelled" in line
        assert (cost in line) if cost else "EUR" not in line


def test_no_round_waits_for_who_manages_accounts(tmp_path: Path) -> None:
    """The resource manager answers when it answers; from then on managers read the records of their account."""
    slurm, answer, asked = lab(), threading.Event(), threading.Event()

    def managers() -> dict[str, Sequence[int]]:
        asked.set()
        assert answer.wait(30.0)
        return {"all": [1234]}

    energies = EnergyRecorder(EnergyFolder(tmp_path / "energy"), managers=managers)
    controller = make(slurm, tmp_path, energies)
    slurm.submit(1, 30.0, watts=200, partition="p1")
    rounds(controller, slurm, 60.0)
    assert asked.is_set()
    assert len(recorded(tmp_path)) == 1, "the record does not wait either"
    answer.set()
    wait_for("the answer", lambda: energies._managers == {"all": [1234]})
    slurm.submit(1, 30.0, watts=200, partition="p1")
    rounds(controller, slurm, 60.0)
    listed = os.getxattr(of_account(tmp_path / "energy", "all"), ACL)
    assert listed == access_list([1234])


def test_managers_that_cannot_be_asked_are_reported(tmp_path: Path) -> None:
    slurm = lab()

    def managers() -> dict[str, Sequence[int]]:
        raise OutputError("sacctmgr does not answer")

    energies = EnergyRecorder(EnergyFolder(tmp_path / "energy"), managers=managers)
    controller = make(slurm, tmp_path, energies)
    slurm.submit(1, 30.0, watts=200, partition="p1")
    rounds(controller, slurm, 60.0)
    assert energies._unmanaged == "sacctmgr does not answer"
    assert len(recorded(tmp_path)) == 1
