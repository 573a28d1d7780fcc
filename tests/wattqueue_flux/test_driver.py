"""The driver of Flux without a Flux: what it shows, what it starts, and what it refuses."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.live.drive import make_controller
from wattqueue.errors import InputError
from wattqueue.live.cluster import ChangeJob, ClusterError, Details, JobFields, JobKey, ReleaseJob, RequeueJob, SetPool
from wattqueue.live.features.supply import licences_of
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.model.supply import SupplyDomain
from wattqueue.policy.policy import load_policy
from wattqueue_flux.cluster import FluxCluster, Grant, StartsBeside
from wattqueue_flux.examine import examine_flux
from wattqueue_flux.jobspec import NodeNeed, details_of, need_of
from wattqueue_flux.nodes import KEPT, FluxInstance, Serving, ids_of, idset, nodes_of, partitions_of
from wattqueue_flux.sched_wattqueue import folder_of, refusal
from wattqueue_flux.section import load_flux_config
from wattqueue_flux.wanted import Wanted

MACHINE = Machine("lab", (Partition("all", 8, idle_w=100.0, max_w=300.0),))
NET_W = 200
R = {
    "version": 1,
    "execution": {"R_lite": [{"rank": "0-7", "children": {"core": "0-3"}}], "nodelist": ["node[1-8]"]},
}

DETAILS = Details("app", "u1000", "", "", "", 0, 1, 0)


class Doing:
    """Keeps what the driver has the module do; ``fails``: Flux gives no nodes."""

    def __init__(self) -> None:
        self.grants: list[Grant] = []
        self.done: list[tuple[Any, ...]] = []
        self.fails = False

    def start(self, start: Grant) -> None:
        if self.fails:
            raise ClusterError("Flux does not give these nodes")
        self.grants.append(start)

    def signal(self, job_id: int, number: int) -> None:
        self.done.append((job_id, number))

    def drain(self, rank: int, *, on: bool) -> None:
        self.done.append((rank, on))


class World:
    """Eight nodes under a clock of the test's."""

    def __init__(self) -> None:
        self.now_s, self.do = 1_000_000.0, Doing()
        nodes = nodes_of(R)
        instance = FluxInstance(nodes, partitions_of(nodes, MACHINE, {}, {}), frozenset(range(8)))
        self.cluster = FluxCluster(instance, self.do, lambda: self.now_s, most_w=lambda _: NET_W)
        self.last = 0

    def submit(
        self,
        nodes: int = 1,
        *,
        seconds: float = 60.0,
        able: frozenset[str] | None = None,
        details: Details = DETAILS,
    ) -> JobKey:
        self.last += 1
        key = JobKey(f"f{self.last}", self.now_s)
        self.cluster.queued(self.last, key, 1000, 16, NodeNeed(nodes, nodes, 1, 1, seconds, able), details)
        return key


def release(key: JobKey) -> ReleaseJob:
    return ReleaseJob(key.name, "held", "released", key=key)


def test_a_start_needs_watts_of_the_pool_and_free_nodes() -> None:
    world = World()
    first, second, wide = world.submit(), world.submit(), world.submit(8)
    world.cluster.apply(SetPool("watts", "0", str(NET_W), NET_W))
    world.cluster.apply(release(first))
    with pytest.raises(ClusterError, match="200 W beside 200 W are more than 200 W"):
        world.cluster.apply(release(second))
    world.cluster.apply(SetPool("watts", "0", "9999", 9999))
    with pytest.raises(ClusterError, match="7 of 8 nodes are free"):
        world.cluster.apply(release(wide))
    world.cluster.apply(release(second))
    assert [grant.job_id for grant in world.do.grants] == [1, 2]
    assert world.cluster.used_w == 2 * NET_W
    assert world.do.grants[0].annotations["wattqueue"]["watts"] == NET_W


def test_what_flux_does_not_give_takes_nothing() -> None:
    world = World()
    key = world.submit()
    world.cluster.apply(SetPool("watts", "0", "9999", 9999))
    world.do.fails = True
    with pytest.raises(ClusterError, match="does not give"):
        world.cluster.apply(release(key))
    assert world.cluster.used_w == 0
    assert world.cluster.observe().by_key[key].pending
    world.do.fails = False
    world.cluster.apply(release(key))
    assert world.cluster.observe().by_key[key].active


def test_watts_count_until_the_last_node_is_back_and_nodes_serve_at_once() -> None:
    world = World()
    key = world.submit(4)
    world.cluster.apply(SetPool("watts", "0", "9999", 9999))
    world.cluster.apply(release(key))
    world.cluster.freed(1, [0, 1], final=False)
    row = world.cluster.observe().by_key[key]
    assert (row.state, row.node_names, world.cluster.used_w) == ("completing", ("node3", "node4"), 4 * NET_W)
    assert [node.busy for node in world.cluster.observe().nodes][:4] == [False, False, True, True]
    world.cluster.freed(1, [2, 3], final=True)
    assert (world.cluster.used_w, world.cluster.observe().jobs) == (0, ())


def test_a_start_that_was_not_stored_waits_again() -> None:
    world = World()
    key = world.submit()
    world.cluster.apply(SetPool("watts", "0", "9999", 9999))
    world.cluster.apply(release(key))
    world.cluster.not_started(1)
    assert (world.cluster.used_w, world.cluster.observe().by_key[key].pending) == (0, True)
    assert not any(node.busy for node in world.cluster.observe().nodes)


def test_a_store_that_fails_for_long_delays_a_job_by_half_a_minute_and_no_longer(tmp_path: Path) -> None:
    """The adversary's jobs waited for up to an hour after a store that had failed some times."""
    world = World()
    cap = Cap.constant(8 * 100.0 + 3 * NET_W)
    controller = make_controller(world.cluster, tmp_path, lambda: world.now_s, cap=cap, machine=MACHINE)
    key = world.submit()
    for _ in range(5):
        controller.round()
        assert world.cluster.observe().by_key[key].active
        world.cluster.not_started(1)
        controller.round()
        assert world.cluster.observe().by_key[key].pending
        world.now_s += 31.0


def test_constraints_that_the_policy_does_not_know_choose_other_nodes() -> None:
    world = World()
    key = world.submit(2, able=frozenset({"node5", "node7"}))
    world.cluster.apply(SetPool("watts", "0", "9999", 9999))
    world.cluster.apply(ChangeJob("f1", "", "", JobFields(nodes=("node1", "node2")), key=key))
    world.cluster.apply(release(key))
    assert world.cluster.observe().by_key[key].node_names == ("node5", "node7")
    assert world.do.grants[0].resources["execution"]["R_lite"][0]["rank"] == "4,6"


def test_constraints_that_mean_a_whole_partition_tell_no_nodes_apart() -> None:
    """Such a job keeps its turn and its reservation, as one without constraints."""
    world = World()
    whole = world.submit(2, able=frozenset(f"node{k}" for k in range(1, 9)))
    some = world.submit(2, able=frozenset({"node5", "node7"}))
    assert world.cluster.observe().site.nodes == {some: {"node5", "node7"}}
    assert {row.key: row.partition for row in world.cluster.observe().jobs} == {whole: "all", some: "all"}


def test_nodes_that_leave_the_instance_count_their_idle_watts_and_serve_no_job(tmp_path: Path) -> None:
    """They may be on: what the cap leaves for jobs does not grow."""
    world = World()
    controller = make_controller(
        world.cluster, tmp_path, lambda: world.now_s, cap=Cap.constant(8 * 100.0 + 3 * NET_W), machine=MACHINE,
        policy=load_policy("easy"),
    )  # fmt: skip
    world.cluster.nodes.update(world.cluster.instance.with_states(set(range(2, 8)), {2}))
    left = world.submit(2, able=frozenset(f"node{k}" for k in range(3, 9)))
    assert not world.cluster.observe().site.nodes, "these are all that are left: they tell no nodes apart"
    world.submit(2)
    controller = controller.renewed()
    controller.round()
    rows = world.cluster.observe()
    assert world.cluster.open_w == 3 * NET_W
    assert rows.by_key[left].node_names == ("node4", "node5")
    assert len([row for row in rows.jobs if row.pending]) == 1


def test_a_constraint_still_tells_nodes_apart_once_some_of_its_own_are_lost() -> None:
    world = World()
    some = world.submit(2, able=frozenset(f"node{k}" for k in range(1, 6)))
    world.cluster.nodes.update(world.cluster.instance.with_states(set(range(3, 8)), set()))
    assert some in world.cluster.observe().site.nodes, "two of five are left, and three others are no nodes of it"
    assert world.cluster.unservable() == []
    world.cluster.nodes.update(world.cluster.instance.with_states(set(range(4, 8)), set()))
    assert world.cluster.unservable() == [1]


def test_jobs_without_a_limit_end_with_the_instance() -> None:
    """Its end may be moved; a site may state an earlier one."""
    world = World()
    world.cluster.ends_at(world.now_s + 3600.0)
    limited, waits, runs = world.submit(), world.submit(seconds=0.0), world.submit(seconds=0.0)
    world.cluster.apply(SetPool("watts", "0", "9999", 9999))
    world.cluster.apply(release(runs))
    assert world.do.grants[0].resources["execution"]["expiration"] == world.now_s + 3600.0

    def walltimes() -> list[float]:
        rows = world.cluster.observe().by_key
        return [rows[key].walltime_s for key in (limited, waits, runs)]

    assert walltimes() == [60.0, 3600.0, 3600.0]
    world.cluster.runs(9, JobKey("f9", 0.0), 1000, [7], world.now_s - 100.0, world.now_s + 3600.0, 0)
    world.cluster.ends_at(world.now_s + 7200.0)
    assert walltimes() == [60.0, 7200.0, 7200.0]
    assert world.cluster.jobs[9].row.walltime_s == 7300.0, "Flux gave it the end of the instance"
    world.cluster.expires(3, world.now_s + 50.0)
    world.cluster.ends_at(0.0)
    assert walltimes() == [60.0, math.inf, 50.0]
    world.cluster.no_limit_s = 1000.0
    world.cluster.ends_at(world.now_s + 5000.0)
    assert walltimes() == [60.0, 1000.0, 50.0]


def test_rows_that_did_not_change_are_the_same_objects() -> None:
    world = World()
    world.submit()
    one, two = world.cluster.observe(), world.cluster.observe()
    assert one.jobs[0] is two.jobs[0]
    assert one.nodes is two.nodes
    assert one.site.priority is two.site.priority


@pytest.mark.parametrize(
    ("duration_s", "limit_s", "ends_s"), [(0.0, None, 0.0), (30.0, 60.0, 30.0), (30.0, 120.0, 120.0)]
)
def test_a_job_ends_after_its_duration_and_without_one_never(
    duration_s: float, limit_s: float | None, ends_s: float
) -> None:
    world = World()
    key = world.submit(seconds=duration_s)
    world.cluster.apply(SetPool("watts", "0", "9999", 9999))
    world.cluster.apply(ChangeJob("f1", "", "", JobFields(limit_s=limit_s), key=key))
    world.cluster.apply(release(key))
    expiration = world.do.grants[0].resources["execution"]["expiration"]
    assert expiration == (world.now_s + ends_s if ends_s else 0.0)
    assert math.isinf(world.cluster.observe().jobs[0].walltime_s) == (duration_s == 0)


def test_a_requeue_is_refused() -> None:
    world = World()
    key = world.submit()
    with pytest.raises(ClusterError, match="Flux cannot do this"):
        world.cluster.apply(RequeueJob("f1", "running", "pending", key=key))


def test_the_controller_keeps_the_cap_and_starts_everything(tmp_path: Path) -> None:
    world = World()
    cap = Cap.constant(8 * 100.0 + 3 * NET_W)
    controller = make_controller(world.cluster, tmp_path, lambda: world.now_s, cap=cap, machine=MACHINE)
    for _ in range(10):
        world.submit()
    most = 0
    for _ in range(60):
        controller.round()
        most = max(most, world.cluster.used_w)
        for row in world.cluster.observe().jobs:
            if row.active and world.now_s - row.start_s >= 5.0:
                world.cluster.freed(row.number, [], final=True)
        world.now_s += 1.0
    assert most == 3 * NET_W
    assert (len(world.do.grants), world.cluster.jobs) == (10, {})


class Kept:
    """A journal in memory."""

    def __init__(self) -> None:
        self.writes: list[Any] = []
        self.outcomes: list[tuple[int, str]] = []

    def intend(self, writes: Any) -> list[int]:
        self.writes += writes
        return list(range(1, len(writes) + 1))

    def record_outcomes(self, outcomes: Any) -> None:
        self.outcomes += outcomes


def test_starts_are_left_to_fluxs_event_log_and_other_writes_are_recorded() -> None:
    world, kept, pool = World(), Kept(), SetPool("watts", "0", "9999", 9999)
    runs, waits = world.submit(), world.submit()
    world.cluster.apply(pool)
    world.cluster.apply(release(runs))
    journal = StartsBeside(kept, world.cluster.waits)
    counts = [ChangeJob(key.name, "200", "100", JobFields(watts=100), key=key) for key in (runs, waits)]
    numbers = journal.intend([release(waits), counts[1], pool, counts[0]])
    assert (numbers, kept.writes) == ([0, 0, 1, 2], [pool, counts[0]])
    journal.record_outcomes([(0, "done"), (1, "done")])
    assert kept.outcomes == [(1, "done")]


def test_idsets_read_back() -> None:
    assert idset([3, 0, 1, 7]) == "0-1,3,7"
    assert ids_of("0-1,3,7") == [0, 1, 3, 7]
    assert ids_of("") == []


def test_ranks_on_one_host_have_names_of_their_own() -> None:
    same = {"execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0"}}], "nodelist": ["here,here"]}}
    assert [node.name for node in nodes_of(same)] == ["here-0", "here-1"]
    with pytest.raises(InputError, match=r"no R of version 1"):
        nodes_of({"execution": {}})


def test_partitions_are_found_by_queue_property_and_host() -> None:
    two = Machine("two", (Partition("cpu", 4, idle_w=1, max_w=2), Partition("gpu", 4, idle_w=1, max_w=2)))
    tagged = {**R["execution"], "properties": {"fast": "0-3"}}  # type: ignore[dict-item]
    nodes = nodes_of({"execution": tagged})
    found = partitions_of(nodes, two, {"batch": "cpu", "node[5-8]": "gpu"}, {"batch": ["fast"]})
    assert [found[f"node{k}"] for k in (1, 4, 5, 8)] == ["cpu", "cpu", "gpu", "gpu"]
    with pytest.raises(InputError, match="no partition 'tape'"):
        partitions_of(nodes, two, {"batch": "tape"}, {})
    with pytest.raises(InputError, match="is in partitions"):
        partitions_of(nodes, two, {"fast": "cpu", "node[1-8]": "gpu"}, {})


class Count:
    """As Flux's ``ResourceCount``."""

    def __init__(self, least: int, most: int | None, values: tuple[int, ...] = ()) -> None:
        self.min, self.max, self.values = least, most, values

    def valid_counts(self, available: int) -> list[int]:
        return [n for n in (self.values or range(self.min, available + 1)) if n <= available]


class Request:
    """As Flux's ``ResourceRequest``."""

    def __init__(self, nodes: Count | None, slots: Count, kind: str = "node") -> None:
        self.node_count, self.slot_count, self.slot_size, self.gpu_per_slot = nodes, slots, 2, 0
        self.duration, self.jobspec = 60.0, {"resources": [{"type": kind, "with": [{"type": "core"}]}]}
        self.constraint: Any = None


def test_slots_become_whole_nodes() -> None:
    serving = Serving.of(nodes_of(R), whole=True)
    assert need_of(Request(None, Count(5, 5)), serving)[:4] == (3, 3, 0, 5)
    assert need_of(Request(Count(2, 4), Count(2, 2)), serving)[:3] == (2, 4, 2)
    assert need_of(Request(Count(2, None), Count(1, 1)), serving).most == 8
    for request, text in (
        (Request(Count(9, 9), Count(1, 1)), "needs 9 nodes, and 8"),
        (Request(Count(1, 1), Count(3, 3)), "needs 1 nodes, and 0"),
        (Request(Count(1, 4, (1, 2, 4)), Count(1, 1)), "discrete"),
        (Request(Count(1, 1), Count(1, 1), "licence"), "'licence' is not known"),
    ):
        with pytest.raises(InputError, match=text):
            need_of(request, serving)


class Pool:
    """As Flux's ``ResourcePool``: the constraint of a jobspec names ranks."""

    impl: Pool

    def __init__(self) -> None:
        self.impl, self.ranks = self, "0-7"

    def parse_resource_request(self, jobspec: dict[str, Any]) -> Request:
        request = Request(Count(1, 1), Count(1, 1))
        request.constraint = jobspec["constraint"]
        return request

    def copy_constraint(self, constraint: dict[str, Any]) -> Pool:
        self.ranks = constraint["and"][0]["ranks"]
        return self

    def to_dict(self) -> dict[str, Any]:
        return {"execution": {"R_lite": [{"rank": self.ranks}]}}


def test_caches_of_what_users_choose_are_bounded() -> None:
    world, wanted = World(), Wanted()
    for k in range(KEPT + 50):
        need = wanted.need({"constraint": {"ranks": f"{k % 8}", "of": k}}, Pool(), world.cluster.instance)
        assert need.able == frozenset({f"node{k % 8 + 1}"})
        world.cluster.nodes.partitions(frozenset({"node1", f"other{k}"}))
    assert len(wanted._serving) == len(world.cluster.nodes._parts) == KEPT


def test_a_jobspec_states_application_consent_and_watts() -> None:
    system = {"job": {"name": "hpl"}, "bank": "b", "wattqueue": {"consent": "consent,slowdown=1.5", "watts": 899.5}}
    jobspec = {"attributes": {"system": system}, "tasks": [{"command": ["/bin/true"]}]}
    assert details_of(jobspec, 7)[:4] == ("hpl", "u7", "b", "wattqueue:consent,slowdown=1.5")
    assert details_of(jobspec, 7).node_w == 899.5
    for watts in (True, "9", None, math.nan, math.inf, -1, 1e30):
        with pytest.raises(InputError, match=r"attributes\.system\.wattqueue\.watts"):
            details_of({"attributes": {"system": {"wattqueue": {"watts": watts}}}}, 7)
    assert details_of({}, 7).app == ""


@pytest.mark.parametrize(
    ("folder", "version", "text"),
    [
        ("/venv/lib/python3.11/site-packages", (3, 12, 1), "Flux runs Python 3.12, WattQueue is installed for 3.11"),
        ("/venv/lib/python3.11/site-packages", (3, 9, 1), "Flux runs Python 3.9, WattQueue needs 3.11 or newer"),
        ("/venv/lib/python3.11/site-packages", (3, 11, 9), ""),
        ("/somewhere/else", (3, 12, 1), ""),
    ],
)
def test_another_python_is_refused_in_one_line(folder: str, version: tuple[int, ...], text: str) -> None:
    said = refusal(folder_of([f"site={folder}"]), version)
    assert said.startswith(text)
    assert bool(said) == bool(text)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ('mode = "observe"\n[flux]\n', 'mode = "observe" is not carried out inside Flux'),
        ('mode = "control"\nframe = 1\n[flux]\n', "frame"),
        ('mode = "control"\n', "no section"),
        ('mode = "control"\n[flux]\n[slurm]\ntimeout_s = 3\n', r"\[slurm\] is not carried out"),
        ('mode = "control"\n[flux]\npartition = {}\n', "partition"),
    ],
)
def test_a_configuration_that_flux_cannot_carry_out_is_refused(tmp_path: Path, more: str, text: str) -> None:
    (tmp_path / "live.toml").write_text(f'machine = "m.toml"\n{more}')
    with pytest.raises(InputError, match=text):
        load_flux_config(tmp_path / "live.toml")


def test_power_domains_that_could_hold_jobs_back_are_refused(tmp_path: Path) -> None:
    (tmp_path / "live.toml").write_text('machine = "m.toml"\nmode = "control"\n[flux]\n')
    config, _ = load_flux_config(tmp_path / "live.toml")
    for limit_w, refused in ((1000.0, True), (9000.0, False)):
        supply = (SupplyDomain(name="row", nodes="all", limit_w=limit_w),)
        machine = Machine("lab", (Partition("all", 8, idle_w=100.0, max_w=300.0),), supply=supply)
        with pytest.raises(InputError, match="flux: is not combined with power domains") if refused else nullcontext():
            assert licences_of(config, machine) is None


def test_the_order_of_fluxs_priorities_has_a_name_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "live.toml").write_text('machine = "m.toml"\npolicy = "flux-priority"\nmode = "control"\n[flux]\n')
    config, _ = load_flux_config(tmp_path / "live.toml")
    assert type(load_policy(config.policy).order) is type(load_policy("slurm-priority").order)


ANSWERS = {
    "version": "commands:    \t\t0.88.0\nlibflux-core:\t\t0.88.0",
    "python": "3.11",
    "getattr rank": "0",
    "module list": "sched_wattqueue 0 R 0 0 feasibility,sched",
    "module stats": '{"queue_depth": "unlimited"}',
    "config get": '["jobspec","feasibility"]',
    "getattr broker.module-nopanic": "1",
}


def examined(changed: dict[str, str], version: str = "3.11") -> dict[str, str]:
    """States by name of the checks."""
    answers = {**ANSWERS, "python": version, **changed}

    def run(argv: Any) -> tuple[int, str]:
        words = " ".join(argv[1:])
        found = next(text for start, text in answers.items() if words.startswith(start))
        return (0 if found else 1), found

    return {one.name: one.state for one in examine_flux(Path("/"), run, lambda _: "/usr/bin/flux")}


def test_doctor_names_what_is_missing() -> None:
    import sys

    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert set(examined({}, own).values()) == {"yes"}
    assert examined({}, "2.7")["Python"] == "no"
    assert examined({"getattr broker.module-nopanic": ""}, own)["module-nopanic"] == "no"
    assert examined({"config get": ""}, own)["feasibility"] == "part"
    assert examined({"module list": "sched-simple 0 R 0 0 sched"}, own)["scheduler"] == "no"
    assert examined({"module stats": '{"queue_depth": "8"}'}, own)["scheduler"] == "part"
    assert examined({"version": "commands:    \t\t0.70.0"}, own)["flux"] == "part"
    assert examined({"getattr rank": ""}, own)["instance"] == "no"
    none = list(examine_flux(Path("/"), lambda _: (1, ""), lambda _: None))
    assert [(one.name, one.state) for one in none] == [("flux", "no")]


def test_an_estimator_counts_what_a_user_states_of_a_node_and_the_maximum_else(tmp_path: Path) -> None:
    world = World()
    controller = make_controller(
        world.cluster, tmp_path, lambda: world.now_s, cap=Cap.constant(8 * 100.0 + 1000.0), machine=MACHINE,
        policy=load_policy("easy", estimator="user-figure"),
    )  # fmt: skip
    states = world.submit(2, details=DETAILS._replace(node_w=149.5))
    silent = world.submit(2)
    above = world.submit(details=DETAILS._replace(node_w=5000.0))
    controller.round()
    rows = world.cluster.observe().by_key
    assert (rows[states].watts, rows[silent].watts) == (2 * 50, 2 * NET_W)
    assert rows[above].pending, "more than the cap has"
