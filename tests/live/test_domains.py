"""Power domains live: starts are pinned, licences follow, and no domain is above its limit whatever fails."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from tests.live.test_pending_room import of_components
from wattqueue.cli._live_status import status_rows
from wattqueue.errors import MachineError, PolicyError
from wattqueue.live.cluster import ReleaseJob, Write
from wattqueue.live.controller import Controller
from wattqueue.live.files.supply_limits import GATE, DomainLimit, FallBack, read_supply
from wattqueue.live.planner import Rules
from wattqueue.live.release import ReleaseSettings, release_all
from wattqueue.live.reports.metrics import LiveMetrics
from wattqueue.live.reports.why import read_why, sentence
from wattqueue.live.slurm.hres import layers_of
from wattqueue.live.state.database import open_state
from wattqueue.live.table import Owner, Stage
from wattqueue.live.watts.domains import LiveDomains
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.model.supply import SupplyDomain
from wattqueue.page.live import LiveState

NET_W = 200
"""Watts of a busy node above idle."""
ROOM_W = {"r1": 250, "r2": 450, "r3": 650, "r4": 850, "row": 1700}
"""What racks of four nodes and the row leave to jobs: one to four nodes, and eight."""
LICENCES = {"r1": "w1", "r2": "w2", "r3": "w3", "r4": "w4", "row": "w"}
NODES = [f"n{i}" for i in range(1, 17)]
RACK = {name: f"r{k // 4 + 1}" for k, name in enumerate(NODES)}


def machine_of(**limits: float) -> Machine:
    racks = tuple(
        SupplyDomain(name=f"r{k}", parent="row", nodes=f"p1[{4 * k - 3}-{4 * k}]", limit_w=400.0 + ROOM_W[f"r{k}"])
        for k in range(1, 5)
    )
    row = SupplyDomain(name="row", limit_w=1600.0 + ROOM_W["row"])
    return Machine("lab", (Partition("p1", 16, idle_w=100.0, max_w=300.0),), supply=(*racks, row))


@dataclass
class Hall:
    """Sixteen nodes in four racks, and their controllers, one after the other."""

    folder: Path
    total_w: int = 3200
    slurm: FakeSlurm = field(init=False)
    most_w: dict[str, int] = field(default_factory=dict)
    at_boundary: Callable[[str], None] = lambda _: None
    rules: Rules = field(default_factory=lambda: Rules(mode="control", write_priority=False))
    hres: bool = False
    """Whether Slurm counts the domains by itself."""

    def __post_init__(self) -> None:
        self.slurm = FakeSlurm({"p1": list(NODES)}, self.total_w)
        self.slurm.domains = {} if self.hres else {LICENCES[name]: watts for name, watts in ROOM_W.items()}
        self.slurm.domains |= {GATE: 1}
        if self.hres:
            self.slurm.layers = [(set(one.nodes), one.count) for one in layers_of(machine_of(), NODES)]
        open_state(self.folder / "live.db").dispose()

    def boundary(self, what: str) -> None:
        self.at_boundary(what)

    def begin(self) -> Controller:
        """A controller whose first round withheld the gate: before that it starts nothing."""
        controller = self.start()
        controller.round()
        return controller

    def start(self) -> Controller:
        return make_controller(
            self.slurm, self.folder, lambda: self.slurm.now_s, cap=Cap.constant(1600.0 + 3200.0), machine=machine_of(),
            domains={} if self.hres else LICENCES, boundary=self.boundary, rules=self.rules, hres=self.hres,
        )  # fmt: skip

    def submit(self, nodes: int, runtime_s: float, **more: object) -> FakeJob:
        job = self.slurm.submit(nodes, runtime_s, watts=nodes * NET_W, limit_s=600.0, **more)
        job.licences[GATE] = 1  # as job_submit.lua does
        return job

    def submit_unreleased(self, controller: Controller) -> tuple[FakeJob, FakeJob]:
        """A job of 200 W a node and one of 60 W, after a round whose releases failed."""
        hot, cool = self.submit(2, 20.0), self.submit(4, 20.0)
        self.slurm.fault = lambda what: "fail" if isinstance(what, ReleaseJob) else None
        controller.round()
        self.slurm.fault = lambda _: None
        cool.licences["watts"] = 4 * 60
        return hot, cool

    def look(self) -> None:
        """What busy nodes draw at most is within each limit. Licences and the controller do not enter."""
        busy = [name for job in self.slurm.running() for name in job.held_nodes]
        drawn = {rack: NET_W * sum(RACK[name] == rack for name in busy) for rack in ("r1", "r2", "r3", "r4")}
        drawn["row"] = NET_W * len(busy)
        for name, watts in drawn.items():
            assert watts <= ROOM_W[name], (name, watts, [(job.id, job.held_nodes) for job in self.slurm.running()])
            self.most_w[name] = max(self.most_w.get(name, 0), watts)

    def step(self, seconds: float = 1.0) -> None:
        self.slurm.step(seconds)
        self.look()

    def run(self, controller: Controller, rounds: int) -> None:
        for _ in range(rounds):
            controller.round()
            self.slurm.schedule()
            self.look()
            self.step()

    def release(self) -> int:
        """``live release`` while no controller is at work; returns how many jobs it released."""
        settings = ReleaseSettings(self.folder / "run", domains=() if self.hres else ("w1",))
        done = release_all(settings, self.slurm, force=True, now_s=self.slurm.now_s, wait=lambda _: None)
        self.slurm.schedule()
        self.look()
        return done.released


@pytest.fixture
def hall(tmp_path: Path) -> Hall:
    return Hall(tmp_path)


def test_starts_are_pinned_and_carry_the_licences_of_their_racks(hall: Hall) -> None:
    controller = hall.begin()
    job = hall.submit(6, 100.0)
    hall.run(controller, 2)
    assert job.held_nodes == ("n1", "n5", "n6", "n9", "n10", "n11")
    assert job.requested == job.held_nodes
    assert job.licences == {"watts": 1200, "w1": 200, "w2": 400, "w3": 600, "w": 1200}
    more = [hall.submit(1, 100.0) for _ in range(4)]
    hall.run(controller, 3)
    assert sum(one.state == "RUNNING" for one in more) == 2, "the row has room for eight nodes"
    assert {RACK[one.held_nodes[0]] for one in more if one.held_nodes} == {"r4"}


def test_slurm_alone_starts_nothing_above_a_rack(hall: Hall) -> None:
    """A requeued job whose controller is dead starts on its nodes, and nobody else beside it."""
    controller = hall.begin()
    jobs = [hall.submit(1, 1e5) for _ in range(10)]
    hall.run(controller, 2)
    assert hall.most_w == {"r1": 200, "r2": 400, "r3": 600, "r4": 400, "row": 1600}
    for job in [one for one in jobs if one.state == "RUNNING"][:4]:
        nodes = job.held_nodes
        hall.slurm.requeue(job)
        job.reason = "None"
        for _ in range(8):
            hall.step()
        assert job.held_nodes == nodes


def test_a_pinned_job_whose_node_is_lost_is_placed_again_in_the_same_round(hall: Hall) -> None:
    controller = hall.begin()
    hall.slurm.start_delay_s = 5.0
    job = hall.submit(2, 50.0)
    controller.round()
    assert job.requested == ("n1", "n5")
    hall.slurm.down.add("n5")
    hall.step()
    controller.round()
    assert job.requested == ("n1", "n6")
    assert job.priority > 0, "released again, without a back-off"
    taker = hall.slurm.submit(1, 100.0, watts=NET_W)
    taker.state, taker.priority, taker.start_s, taker.held_nodes = "RUNNING", 1, hall.slurm.now_s, ("n6",)
    controller.round()
    assert "n6" not in job.requested
    hall.slurm.start_delay_s = 0.0
    hall.run(controller, 60)
    assert job.state == "COMPLETED"
    assert controller.planner.memory.refused == {}


def test_what_jobs_hold_beside_licences_is_set_aside(hall: Hall) -> None:
    """A job that runs since before the installation has watts alone: its racks have as much less for Slurm."""
    old = hall.slurm.submit(2, 500.0, watts=400, limit_s=600.0)
    old.state, old.priority, old.start_s, old.held_nodes = "RUNNING", 1, hall.slurm.now_s, ("n13", "n14")
    controller = hall.begin()
    hall.run(controller, 1)
    assert hall.slurm.domains_aside == {"w1": 0, "w2": 0, "w3": 0, "w4": 400, "w": 400, GATE: 1}
    old.state = "COMPLETED"
    hall.run(controller, 2)
    assert sum(hall.slurm.domains_aside.values()) == 1


def test_licences_beyond_the_longest_text_are_set_aside(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wattqueue.live.watts.domains.MOST_CHARACTERS", 35)
    controller = hall.begin()
    job = hall.submit(6, 20.0)
    hall.run(controller, 2)
    assert job.licences == {"watts": 1200, "w1": 200, "w2": 400}
    assert hall.slurm.domains_aside == {"w1": 0, "w2": 0, "w3": 600, "w4": 0, "w": 1200, GATE: 1}
    order = [write.kind for write in hall.slurm.writes if write.kind in ("domains", "release")]
    assert order == ["domains", "domains", "release"], "set aside before the job can start"
    hall.run(controller, 25)
    assert job.state == "COMPLETED"
    assert sum(hall.slurm.domains_aside.values()) == 1


def test_nothing_starts_beside_a_job_that_may_start_anywhere(hall: Hall) -> None:
    controller = hall.begin()
    stray = hall.submit(1, 50.0)
    del stray.licences[GATE]
    hall.slurm.release(stray)
    job = hall.submit(1, 50.0)
    writes: list[Write] = hall.slurm.writes
    hall.slurm.fault = lambda what: "fail" if isinstance(what, Write) and what.kind == "hold" else None
    controller.round()
    assert not [one for one in writes if isinstance(one, ReleaseJob)]
    assert any("may start on any node" in line for line in controller.last.problems)  # type: ignore[union-attr]
    hall.slurm.fault = lambda _: None
    hall.run(controller, 60)
    assert stray.state == job.state == "COMPLETED"


def test_the_nodes_that_a_user_asked_for_are_kept(hall: Hall) -> None:
    controller = hall.begin()
    job = hall.submit(2, 20.0, requested=("n14", "n15"))
    hot = hall.submit(2, 20.0, requested=("n1", "n2"))
    hall.run(controller, 40)
    assert job.state == "COMPLETED"
    assert job.requested == ("n14", "n15")
    assert hot.starts == 0, "400 W in a rack with room for 250"


def test_another_controller_knows_which_nodes_a_user_asked_for(hall: Hall) -> None:
    """Of a job that was bound to more; the nodes are no range, so that their list has a comma."""
    controller = hall.begin()
    hall.slurm.start_delay_s = 50.0
    job = hall.submit(3, 20.0, requested=("n9", "n11"))
    controller.round()
    assert job.requested == ("n1", "n9", "n11")
    hall.slurm.down = {"n1"}
    hall.step()
    hall.start().round()
    assert job.requested == ("n2", "n9", "n11")
    assert job.priority > 0, "placed again in the same round"


def test_a_requeued_job_keeps_the_nodes_that_its_user_asked_for(hall: Hall) -> None:
    controller = hall.begin()
    job = hall.submit(3, 50.0, requested=("n9", "n11"))
    hall.run(controller, 2)
    assert job.held_nodes == ("n1", "n9", "n11")
    hall.slurm.requeue_and_hold(job)
    hall.slurm.down = {"n11"}
    hall.run(controller, 3)
    assert job.requested == ("n9", "n11"), "n11 is lost, and not another node's turn"
    hall.slurm.down = set()
    hall.slurm.release(job)
    hall.run(controller, 400)
    assert job.state == "COMPLETED"


def test_what_users_ask_for_after_their_job_was_taken_back_is_theirs(hall: Hall) -> None:
    controller = hall.begin()
    hall.slurm.start_delay_s = 50.0
    job = hall.submit(3, 20.0, requested=("n9", "n11"))
    controller.round()
    assert list(job.requested) == ["n1", "n9", "n11"]
    hall.slurm.down = {"n11"}
    hall.step()
    for _ in range(2):
        controller.round()
    assert (job.priority, list(job.requested)) == (0, ["n9", "n11"])
    job.requested = ("n13",)
    controller.round()
    assert list(job.requested) == ["n1", "n5", "n13"]


def test_a_job_whose_users_node_is_lost_keeps_nobody_waiting(hall: Hall) -> None:
    controller = hall.begin()
    hall.slurm.down = {"n15", *NODES[:8]}
    lost = hall.submit(6, 20.0, requested=("n15",))
    wide = hall.submit(5, 20.0)
    hall.run(controller, 8)
    assert (lost.state, wide.state) == ("PENDING", "RUNNING")
    assert "n15, which is not free" in sentence(*read_why(hall.folder / "run", lost.name)[0])
    counts = json.loads((hall.folder / "run/status.json").read_text())["jobs"]
    assert (counts["waiting"], counts["barred"]) == (0, 1), "the status counts it, too"


def test_a_job_that_failed_on_chosen_nodes_gets_others(hall: Hall) -> None:
    """What keeps it from the first nodes cannot be computed (a user's constraint): it is tried on others."""
    controller = hall.begin()
    job = hall.submit(1, 20.0, excluded=("n1", "n5", "n6", "n9"))
    for _ in range(40):
        hall.run(controller, 30)
    assert job.state == "COMPLETED"


def test_a_node_that_gets_another_name_moves_no_other_into_another_rack(hall: Hall) -> None:
    """By the order of names all after it would be one less: n5, n9 and n13 would stand in the rack before theirs."""
    controller = hall.begin()
    hall.slurm.partitions["p1"][2] = "x3"
    RACK["x3"] = "r1"
    jobs = [hall.submit(3, 20.0), hall.submit(2, 20.0)]
    for _ in range(40):
        controller = controller.renewed()
        controller.round()
        hall.step()
    assert any("would stand in another power domain" in line for line in controller.last.problems)  # type: ignore[union-attr]
    assert {job.state for job in jobs} == {"COMPLETED"}
    again = hall.begin()
    assert any("3 nodes stood in other power domains before, n13 is one" in line for line in again.last.problems)  # type: ignore[union-attr]


def test_a_node_that_leaves_slurm_is_not_taken_up_under_domains(hall: Hall) -> None:
    controller = hall.begin()
    hall.slurm.partitions["p1"].remove("n2")
    job = hall.submit(3, 20.0)
    for _ in range(40):
        controller = controller.renewed()
        controller.round()
        hall.step()
    assert any("are not taken up" in line for line in controller.last.problems)  # type: ignore[union-attr]
    assert (job.state, len(controller.planner.layout.names)) == ("COMPLETED", 16)
    with pytest.raises(MachineError, match="p1"):
        hall.begin()


def test_a_release_frees_what_is_safe_anywhere(hall: Hall) -> None:
    """Racks of four nodes leave 250 W at least: 62 W a node are safe on any node, 200 W are not."""
    controller = hall.begin()
    hot, cool = hall.submit_unreleased(controller)
    found = read_supply(hall.folder / "run")
    assert found is not None
    assert found.safe_w(()) == 62
    assert hall.release() == 1
    assert (hot.state, cool.state) == ("PENDING", "RUNNING")


def test_a_release_frees_nothing_where_it_does_not_know_the_domains(hall: Hall) -> None:
    hall.submit(1, 20.0)
    (hall.folder / "run").mkdir(exist_ok=True)
    assert hall.release() == 0
    (hall.folder / "run/domains").write_text("{")
    assert hall.release() == 0


@given(st.data())
def test_jobs_of_safe_watts_keep_every_domain_wherever_they_start(data: st.DataObject) -> None:
    """Pinned jobs and, on any of the other nodes, jobs of the safe watts: for ever, also as pinned jobs end."""
    random_ = random.Random(data.draw(st.integers(0, 2**32)))
    names = [f"n{k}" for k in range(random_.randint(2, 9))]
    cuts = random_.sample(names, random_.randint(1, len(names)))
    domains = [DomainLimit("all", frozenset(names), random_.randint(50, 900), random_.choice([1.0, 1.25]))]
    domains += [DomainLimit("part", frozenset(cuts), random_.randint(20, 500))]
    pinned = {name: random_.randint(1, 200) for name in names if random_.random() < 0.4}
    slurm = FakeSlurm({"p": names}, 10_000)
    for name, watts in pinned.items():
        job = slurm.submit(1, 1.0, watts=watts)
        job.state, job.held_nodes = "RUNNING", (name,)
    safe_w = FallBack(domains, {}).safe_w(slurm.observe().jobs)
    assert safe_w >= 0 or any(d.gain * sum(pinned.get(n, 0) for n in d.nodes) > d.room_w for d in domains)
    if safe_w < 0:
        return
    drawn = dict(pinned)
    for _ in range(20):  # pinned jobs end, others start anywhere
        name = random_.choice(names)
        drawn[name] = safe_w if name not in drawn or random_.random() < 0.5 else drawn[name]
        for domain in domains:
            assert domain.gain * sum(drawn.get(n, 0) for n in domain.nodes) <= domain.room_w + 1e-6
    more = FallBack(domains, {}).safe_w(())
    assert more >= safe_w


def test_why_names_the_domain(hall: Hall) -> None:
    controller = hall.begin()
    hall.submit(8, 100.0)
    waits = hall.submit(2, 100.0)
    hall.run(controller, 8)
    (found,) = read_why(hall.folder / "run", waits.name)
    said = sentence(*found)
    assert "it needs 2 nodes and 400 W, 0 nodes fit: power domain row has 100 W left for jobs" in said


def test_status_and_metrics_say_what_domains_do(hall: Hall) -> None:
    controller = hall.begin()
    hall.slurm.start_delay_s = 2.0
    hall.submit(3, 100.0)
    hall.run(controller, 6)
    values = json.loads((hall.folder / "run/status.json").read_text())
    assert values["domains"]["watts"]["r1"] == {"jobs_w": 200.0, "room_w": 250.0}
    rows = dict(status_rows(values))
    assert rows["power domains"].startswith("r1 200 of 250 W, r2 400 of 450 W")
    assert rows["lost to pinning"].endswith("% of node hours")
    assert isinstance(controller.meter, LiveMetrics)
    found = controller.meter.registry.get_sample_value("wattqueue_pinned_node_seconds_total")
    assert found is not None
    assert found > 0.0
    assert controller.meter.registry.get_sample_value("wattqueue_domain_counted_power_watts", {"domain": "r1"}) == 600.0


def test_where_slurm_counts_the_domains_a_release_frees_what_is_safe_all_the_same(tmp_path: Path) -> None:
    """Starts carry the watts of one node. Slurm 26.05 does not test what was given later: hot ones wait."""
    hall = Hall(tmp_path, hres=True)
    controller = hall.begin()
    first = hall.submit(3, 20.0)
    hall.run(controller, 2)
    assert first.licences == {"watts": 600, "power": 200}
    assert hall.slurm.domains_aside == {GATE: 1}
    hall.run(controller, 25)
    hot, cool = hall.submit_unreleased(controller)
    assert hall.release() == 1
    assert (hot.priority, cool.licences) == (0, {"watts": 240, "power": 60})
    assert (hot.state, cool.state) == ("PENDING", "RUNNING")


@pytest.mark.parametrize("hres", [False, True])
def test_nothing_starts_beside_a_released_job_without_its_pin(tmp_path: Path, hres: bool) -> None:
    """It may start in any rack, also under hres: 26.05 does not test what a job was given since its submission."""
    hall = Hall(tmp_path, hres=hres)
    controller = hall.begin()
    hall.slurm.start_delay_s = 1e6
    first = hall.submit(1, 10.0)
    controller.round()
    assert first.priority > 0
    first.requested = ()  # an administrator's change
    other = hall.submit(1, 10.0)
    controller.round()
    assert (first.state, other.priority) == ("PENDING", 0)
    hall.slurm.start_delay_s = 0.0
    hall.run(controller, 120)
    assert (first.state, other.state) == ("COMPLETED", "COMPLETED")


class KilledError(BaseException):
    """The controller dies here."""


def fight(folder: Path, seed: int, steps: int, *, hres: bool = False) -> Hall:
    """Jobs, kills between writes, lost and forgotten writes, nodes that fail, requeues, releases while it is dead."""
    random_, hall = random.Random(seed), Hall(folder, total_w=2200, hres=hres)
    jobs, dies_at, calls = list[FakeJob](), [0], [0]

    def boundary(_: str) -> None:
        calls[0] += 1
        hall.slurm.schedule()
        hall.look()
        if calls[0] == dies_at[0]:
            raise KilledError

    def fault(what: str | Write) -> str | None:
        return random_.choice(["fail", "lost", "ignored", "silent"]) if random_.random() < 0.06 else None

    hall.at_boundary, hall.slurm.fault = boundary, lambda _: None
    controller = hall.start()
    hall.slurm.fault = fault
    for _ in range(steps):
        if len(hall.slurm.listed()) < 25 and random_.random() < 0.7:
            more = {"requested": (random_.choice(NODES),)} if random_.random() < 0.1 else {}
            nodes = 1 if more else random_.choice([1, 1, 2, 3, 5, 8])
            jobs.append(hall.submit(nodes, random_.uniform(1.0, 25.0), **more))
        if random_.random() < 0.08:
            busy = {name for job in hall.slurm.running() for name in job.held_nodes}
            hall.slurm.down ^= {random_.choice([name for name in NODES if name not in busy])}
        running = hall.slurm.running()
        if running and random_.random() < 0.08:
            hall.slurm.requeue(random_.choice(running))
        dies_at[0] = calls[0] + random_.randint(1, 40) if random_.random() < 0.25 else 0
        try:
            controller.round()
        except KilledError:
            dies_at[0] = 0
            for _ in range(random_.randint(0, 6)):
                hall.step(random_.uniform(0.5, 3.0))
            hall.slurm.fault = lambda _: None
            if random_.random() < 0.5:
                hall.release()
            controller = hall.start()
            hall.slurm.fault = fault
        hall.step(random_.choice([0.3, 1.0, 3.0]))
    hall.slurm.fault, hall.at_boundary, hall.slurm.down = (lambda _: None), (lambda _: None), set()
    for _ in range(1500):
        if not hall.slurm.listed():
            break
        controller.round()
        hall.step(5.0)
    assert [job.id for job in hall.slurm.listed()] == [], "every job that fits ends"
    return hall


@pytest.mark.parametrize(("seed", "hres"), [(1, False), (2, True)])
def test_no_kill_and_no_fault_brings_a_rack_above_its_limit(tmp_path: Path, seed: int, hres: bool) -> None:
    hall = fight(tmp_path, seed, 60, hres=hres)
    assert hall.most_w["r3"] >= 400


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 30))
@pytest.mark.parametrize("hres", [False, True])
def test_no_kill_and_no_fault_brings_a_rack_above_its_limit_for_long(tmp_path: Path, seed: int, hres: bool) -> None:
    fight(tmp_path, seed, 400, hres=hres)


def test_what_is_not_combined_is_refused_by_name(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": list(NODES)}, 3200)
    made = {"cap": Cap.constant(4800.0), "machine": machine_of()}
    with pytest.raises(PolicyError, match="r1 is one"):
        make_controller(slurm, tmp_path, lambda: slurm.now_s, **made)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match=r"control .* is not combined with power domains"):
        make_controller(
            slurm, tmp_path, lambda: slurm.now_s, policy="dr-fcfs-off", domains=LICENCES, **made  # type: ignore[arg-type]
        )  # fmt: skip


def test_in_observe_mode_nothing_is_written_and_starts_are_shown(hall: Hall) -> None:
    hall.rules = Rules(mode="observe")
    hall.slurm.hold_new = False
    hall.slurm.down = set(NODES[:12])
    controller = hall.start()
    hall.slurm.schedule = lambda: None  # type: ignore[method-assign]
    hall.slurm.submit(2, 10.0, watts=400)
    report = controller.round()
    assert report is not None
    assert [one.start.nodes for one in report.plan.chosen] == [(12, 13)]
    assert hall.slurm.writes == []


def test_the_share_that_pinning_costs(hall: Hall) -> None:
    controller = hall.begin()
    hall.slurm.start_delay_s = 3.0
    hall.submit(4, 50.0)
    hall.run(controller, 6)
    found = controller.planner.domains
    assert isinstance(found, LiveDomains)
    assert 0.0 < found.pinned_node_s <= 4 * 5
    assert found.pinning_share == found.pinned_node_s / found.node_s


def test_a_job_of_components_stays_held_and_keeps_nothing(tmp_path: Path) -> None:
    """Slurm would place it in any domain; what it would need is for others."""
    hall = Hall(tmp_path)
    controller = hall.begin()
    group = [hall.submit(1, 50.0) for _ in range(2)]
    seen = of_components(hall.slurm.observe(), [group], {str(group[0].id)})
    plan = controller.planner.plan(seen, {}, telemetry_ok=True)
    assert [row.whole for row in plan.jobs.rows(plan.jobs.at([Stage.HELD], Owner.HANDED_OVER))] == ["1", "1"]
    assert plan.reserved_w == 0.0
    assert [goal for goal in plan.goal.jobs if goal.held is False] == []


@pytest.mark.parametrize("hres", [False, True])
def test_jobs_of_components_from_before_are_named_and_nobody_can_start_them(tmp_path: Path, hres: bool) -> None:
    """job_submit.lua refuses them; these were there before. What they would need is for others."""
    hall = Hall(tmp_path, hres=hres)
    controller = hall.begin()
    group = hall.slurm.submit_whole(("p1",) * 2, 30.0, watts=NET_W)
    job = hall.submit(8, 20.0)
    hall.run(controller, 3)
    assert job.state == "RUNNING"
    assert any("2 components of heterogeneous jobs never start" in line for line in controller.last.problems)  # type: ignore[union-attr]
    hall.slurm.release(group[0])
    hall.slurm.schedule()
    assert (group[0].state, group[0].reason) == ("PENDING", "Licenses"), "the gate"


def test_a_job_of_components_that_somebody_released_is_held_again(tmp_path: Path) -> None:
    """Before the gate was withheld, or without it, Slurm would start it in any domain."""
    hall = Hall(tmp_path)
    controller = hall.begin()
    group = hall.slurm.submit_whole(("p1", "p1"), 50.0, watts=NET_W)
    controller.round()
    hall.slurm.release(group[0])
    controller.round()
    assert [job.priority for job in group] == [0, 0]


def test_the_page_shows_domains_with_their_limits_and_counted_watts(hall: Hall) -> None:
    """Counted with idle nodes, as limits are stated."""
    controller = hall.begin()
    jobs = [hall.submit(1, 500.0) for _ in range(5)]
    for _ in range(8):
        controller.round()
        hall.step()
    assert {job.state for job in jobs} == {"RUNNING"}
    rows = LiveState(hall.folder / "run", hall.folder / "run", 60.0).sections(hall.slurm.now_s)[0]["domains"]
    assert [row[:2] for row in rows] == [*([f"r{k}", "row"] for k in range(1, 5)), ["row", ""]]
    busy = Counter(RACK[name] for job in jobs for name in job.held_nodes)
    for name, _, counted_w, limit_w in rows:
        nodes, whole = (16, 5) if name == "row" else (4, busy[name])
        assert counted_w == 100 * nodes + NET_W * whole <= limit_w == 100 * nodes + ROOM_W[name]


def test_jobs_that_a_lowered_limit_never_feeds_are_named(tmp_path: Path) -> None:
    """They were accepted; a limit that comes up again, or another one, and a job that fits are not named."""
    hall = Hall(tmp_path)
    controller = hall.begin()
    fits, wide = hall.submit(8, 10.0), hall.submit(9, 10.0)
    controller.round()
    said = [line for line in controller.last.problems if "ever feed" in line]  # type: ignore[union-attr]
    text = f"1 queued jobs need more nodes than power domains ever feed, {wide.name} is one"
    assert said == [f"{text}: raise a limit (row), or cancel them"]
    hall.run(controller, 30)
    assert (fits.state, wide.state) == ("COMPLETED", "PENDING")
