"""The guard: a planner that lies, one that is honest, and each check by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.live.guard.world import NODE_W, TOTAL_W, NaiveJob, NaiveSlurm, random_write
from wattqueue.live.apply import LEFT_OUT
from wattqueue.live.consent_tags import SiteDefaults
from wattqueue.live.guard.audit import AuditFile
from wattqueue.live.guard.checks import LOW, NO_CONSENT, NO_FOLDER, OTHER, UNKNOWN
from wattqueue.live.guard.serve import WriteGuard, reads
from wattqueue.live.guard.settings import LAST_RESORT, GuardSettings
from wattqueue.live.guard.wire import Packet
from wattqueue.live.slurm.lists import JOBS, POOL
from wattqueue.live.watts.bound import ABOVE, AcceptedOvershoot
from wattqueue.live.watts.missed import stored

CAP_W, IDLE_W = 900, 100
FOLDER = {"frequency_dir": "/frequencies"}
"""Of a guard that sets frequencies."""


def settings(folder: Path, **more: Any) -> GuardSettings:
    given = GuardSettings(folder / "socket", folder, f"{CAP_W} W", NODE_W, IDLE_W)
    return replace(given, **more)


def guard_of(world: NaiveSlurm, folder: Path, **more: Any) -> WriteGuard:
    found = settings(folder, **more)
    journal = AuditFile(folder)
    return WriteGuard(found, world, world, journal, lambda: world.now_s)


def write(guard: WriteGuard, *writes: dict[str, Any]) -> list[str]:
    sent = json.loads(json.dumps({"do": "write", "writes": writes}))
    errors: list[str] = guard.answer(Packet(sent)).header["errors"]
    return errors


def of(kind: str, number: int, **more: Any) -> dict[str, Any]:
    name = str(number)
    return {"kind": kind, "target": name, "before": "", "after": "", "why": "", "key": [name, float(number)], **more}


@pytest.mark.parametrize(
    ("later_s", "read_again"), [(0.0, False), (19.9, False), (20.0, False), (20.1, True), (-0.1, True)]
)
def test_lists_of_jobs_serve_for_20_s(tmp_path: Path, later_s: float, read_again: bool) -> None:
    """Where the clock went back they say nothing of now."""
    world = NaiveSlurm(open_w=100)
    guard = guard_of(world, tmp_path)
    guard.bound()
    before = len(world.calls)
    assert before > 0
    world.now_s += later_s
    guard.bound()
    assert (len(world.calls) > before) == read_again


def pool(open_w: int) -> dict[str, Any]:
    return {"kind": "pool", "target": "watts", "before": "", "after": "", "open_w": open_w}


def refused(error: str, reason: str) -> bool:
    return error == f"{LEFT_OUT}: {reason}"


def submit(slurm: NaiveSlurm, rng: np.random.Generator, number: int) -> None:
    """Submit a job, of two components now and then."""
    held, whole = bool(rng.random() < 0.7), number if rng.random() < 0.2 else 0
    for component in range(2 if whole else 1):
        partition, nodes = str(rng.choice([*NODE_W])), int(rng.integers(1, 6))
        watts = 0 if whole and rng.random() < 0.5 else nodes * NODE_W[partition]
        held = held or watts == 0
        comment = str(rng.choice(["", "", "wattqueue:consent"]))
        slurm.submit(NaiveJob(number + component, partition, nodes, watts, "PENDING", held, comment, whole, component))


def counted_w(slurm: NaiveSlurm, accepted: frozenset[str]) -> int:
    """Watts that running jobs may draw: their licences where anything is accepted, the maximum of those without one."""
    if not accepted:
        return slurm.worst_w()
    return sum(job.watts or job.worst_w for job in slurm.jobs.values() if job.state == "RUNNING")


def random_run(seed: int, goals: int, folder: Path, accepted: frozenset[str] = frozenset()) -> tuple[int, int]:
    """Let a planner that lies send goals; return how many writes were done, and to how many jobs consent mattered."""
    rng = np.random.default_rng(seed)
    overshoot = float(rng.choice([0, 0, 60]))
    slurm, cap = NaiveSlurm(open_w=int(rng.integers(0, CAP_W - IDLE_W))), CAP_W
    guard = guard_of(slurm, folder, overshoot=AcceptedOvershoot(overshoot), slurm=FOLDER, accepted=accepted)
    guard.journal.path = Path("/dev/null")
    done, stopped = 0, set[int]()
    for number in range(1, goals + 1):
        if len(slurm.jobs) < 8:
            submit(slurm, rng, 10 * number)
        if rng.random() < 0.02:
            slurm.release_all()
        if rng.random() < 0.1:  # jobs end
            for name in [name for name, job in slurm.jobs.items() if job.state != "PENDING" and rng.random() < 0.5]:
                del slurm.jobs[name]
        if rng.random() < 0.05:
            cap = int(rng.choice([300, 600, CAP_W, 1_500]))
            guard.cap.text = f"{cap} W"
        before_w = counted_w(slurm, accepted)
        agreed = {job.number for job in slurm.jobs.values() if job.comment == "wattqueue:consent"}
        states = {job.number: (job.state, job.khz) for job in slurm.jobs.values()}
        errors = write(guard, *(random_write(rng, slurm) for _ in range(int(rng.integers(1, 6)))))
        done += errors.count("")
        for job in slurm.jobs.values():
            state, khz = states[job.number]
            if job.khz not in (khz, 0) or (job.state != state and job.state in ("STOPPED", "PENDING")):
                stopped.add(job.number)
                assert job.number in agreed
        guard.keep_cap()
        slurm.schedule()
        assert counted_w(slurm, accepted) <= max(cap - IDLE_W + overshoot, before_w)
        slurm.now_s += float(rng.choice([0.5, 3.0, 15.0]))
    return done, len(stopped)


def test_a_planner_that_lies_exceeds_no_cap_and_stops_nobody(tmp_path: Path) -> None:
    found = [random_run(seed, 500, tmp_path) for seed in range(6)]
    assert min(done for done, _ in found) > 100
    assert sum(stopped for _, stopped in found) > 0


@pytest.mark.parametrize(
    "accepted", [{"limits"}, {"estimates"}, {"frequencies", "limits"}], ids=lambda a: "+".join(sorted(a))
)
def test_what_is_accepted_counts_as_the_licences_say_and_they_hold_the_cap(accepted: set[str], tmp_path: Path) -> None:
    found = [random_run(seed, 300, tmp_path, frozenset(accepted)) for seed in range(10, 16)]
    assert min(done for done, _ in found) > 60


@pytest.mark.slow
def test_a_hundred_thousand_goals_of_a_planner_that_lies(tmp_path: Path) -> None:
    found = [random_run(seed, 1_000, tmp_path) for seed in range(1_000, 1_100)]
    assert sum(done for done, _ in found) > 20_000
    assert sum(stopped for _, stopped in found) > 10


def test_the_naive_slurm_exceeds_the_cap_without_a_guard() -> None:
    """The search can fail: watts of a planner that lies, carried out unchecked."""
    rng, slurm = np.random.default_rng(0), NaiveSlurm(open_w=CAP_W - IDLE_W)
    for number in range(1, 200):
        slurm.submit(NaiveJob(number, "large", 3, 300, held=False))
        sent = random_write(rng, slurm)
        if sent["kind"] == "update":
            slurm.jobs[str(number)].watts = sent["fields"].get("watts", 300)
        slurm.schedule()
    assert slurm.worst_w() > CAP_W


def test_an_honest_planner_gets_its_work_done(tmp_path: Path) -> None:
    """The liveness twin: jobs at the maximum of their nodes are released while the pool has room, and all end."""
    slurm = NaiveSlurm()
    guard = guard_of(slurm, tmp_path)
    for number in range(1, 21):
        slurm.submit(NaiveJob(number, "large", 4, 400))
    assert write(guard, pool(CAP_W - IDLE_W)) == [""]
    ended = 0
    for _ in range(60):
        slurm.now_s += 30.0
        for name in [name for name, job in slurm.jobs.items() if job.state == "RUNNING"]:
            del slurm.jobs[name]
            ended += 1
        held = [job.number for job in slurm.jobs.values() if job.held][:2]
        assert write(guard, *(of("release", number) for number in held)) == [""] * len(held)
        slurm.schedule()
    assert ended == 20


def test_a_pool_beyond_the_cap_is_raised_as_far_as_the_cap_leaves(tmp_path: Path) -> None:
    """A planner that counts less than the guard (nodes that are off or drained) is not left without watts."""
    slurm = NaiveSlurm(open_w=100)
    guard = guard_of(slurm, tmp_path)
    most_w = CAP_W - IDLE_W
    (error,) = write(guard, pool(most_w + 50))
    assert slurm.open_w == most_w
    assert error.startswith(LEFT_OUT)
    assert f"{most_w} W" in error
    assert write(guard, pool(most_w)) == [""]
    slurm.submit(NaiveJob(1, "large", 2, 150, state="RUNNING"))
    slurm.now_s += 30.0
    assert refused(write(guard, pool(most_w - 10))[0], ABOVE)
    assert slurm.open_w == most_w - 50, "what it may draw above its licence is not open"
    guard.cap.text = "none"
    assert write(guard, pool(TOTAL_W)) == [""]


def test_a_release_on_fewer_watts_than_its_nodes_draw(tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=500)
    guard = guard_of(slurm, tmp_path)
    slurm.submit(NaiveJob(1, "large", 2, 200))
    assert refused(write(guard, of("update", 1, fields={"watts": 50}), of("release", 1))[0], LOW)
    slurm.jobs["1"].watts = 50  # an administrator, or the time before the installation
    slurm.now_s += 100.0  # it reads the list itself
    assert refused(write(guard, of("release", 1))[0], LOW)
    assert write(guard, of("update", 1, fields={"comment": "hello"})) == [""]
    assert write(guard, of("update", 1, fields={"watts": 200}), of("release", 1)) == ["", ""]
    # more nodes than the watts count
    slurm.submit(NaiveJob(2, "large", 2, 200))
    slurm.now_s += 100.0
    assert refused(write(guard, of("update", 2, fields={"node_count": [5, 5]}))[0], LOW)
    assert write(guard, of("update", 2, fields={"node_count": [5, 5], "watts": 500})) == [""]
    # in a partition that is dearer
    slurm.submit(NaiveJob(3, "small", 2, 80))
    slurm.now_s += 100.0
    assert refused(write(guard, of("update", 3, fields={"partition": "large"}))[0], LOW)


@pytest.mark.parametrize("listed", [1, 2, 6])
def test_nodes_that_a_list_only_estimates_keep_no_component_from_its_start(tmp_path: Path, listed: int) -> None:
    """Three heterogeneous jobs of an hour were refused in each round until somebody cancelled them."""
    slurm = NaiveSlurm(open_w=500)
    slurm.submit(NaiveJob(1, "large", 1, 100, whole=1, listed=listed))
    slurm.submit(NaiveJob(2, "small", 1, 40, whole=1, component=1))
    guard = guard_of(slurm, tmp_path)
    assert write(guard, {**of("release", 1), "key": ["1+0", 1.0]}) == [""]
    assert not slurm.jobs["1+1"].held


def test_a_suspended_job_on_nodes_beside_the_pool_leaves_the_whole_pool(tmp_path: Path) -> None:
    """An administrator moved it there with the watts that it carried; the pool stood 200 W too low until it ended."""
    slurm = NaiveSlurm(open_w=100)
    slurm.submit(NaiveJob(1, "beside", 1, 200, "SUSPENDED", held=False))
    guard = guard_of(slurm, tmp_path, free=frozenset({"beside"}))
    assert write(guard, pool(CAP_W - IDLE_W)) == [""]
    slurm.submit(NaiveJob(2, "large", 2, 200, "SUSPENDED", held=False))
    slurm.now_s += 30.0
    guard.keep_cap()
    assert slurm.open_w == CAP_W - IDLE_W - 200, "it may go on, and Slurm checks no licence then"


def test_what_a_site_has_it_accept(tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=500)
    slurm.submit(NaiveJob(1, "large", 2, 200))
    guard = guard_of(slurm, tmp_path, accepted=frozenset({"estimates"}))
    assert write(guard, of("update", 1, fields={"watts": 50}), of("release", 1)) == ["", ""]


def test_the_licence_of_a_running_job_is_not_lowered_below_what_it_may_draw(tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=CAP_W - IDLE_W)
    slurm.submit(NaiveJob(1, "large", 2, 200, "RUNNING", held=False))
    guard = guard_of(slurm, tmp_path)
    assert refused(write(guard, of("update", 1, fields={"watts": 50}))[0], ABOVE)
    accepting = guard_of(slurm, tmp_path, overshoot=AcceptedOvershoot(150.0))
    assert refused(write(accepting, of("update", 1, fields={"watts": 49}))[0], ABOVE)
    assert write(accepting, of("update", 1, fields={"watts": 50})) == [""]


@pytest.mark.parametrize("between", ["comments", "cap", "jobs", "pool"])
def test_a_licence_that_was_lowered_is_not_forgotten(between: str, tmp_path: Path) -> None:
    """Neither another list nor another cap makes the guard start again from a list of before its own write."""
    slurm = NaiveSlurm(open_w=CAP_W - IDLE_W)
    for number in (1, 2):
        slurm.submit(NaiveJob(number, "large", 2, 200, "RUNNING", held=False, comment="wattqueue:consent"))
    guard = guard_of(slurm, tmp_path, overshoot=AcceptedOvershoot(150.0))
    assert write(guard, of("update", 1, fields={"watts": 50})) == [""]
    if between == "comments":
        assert "no such job" in write(guard, of("stop", 9))[0]
    elif between == "cap":
        guard.cap.text = f"{CAP_W}.0 W"
        assert write(guard, pool(CAP_W - IDLE_W)) == [""]
        guard.cap.text = f"{CAP_W + 1} W"
    else:
        assert (
            guard.answer(Packet({"do": "read", "argv": [*(JOBS if between == "jobs" else POOL)]})).header["code"] == 0
        )
    assert refused(write(guard, of("update", 2, fields={"watts": 50}))[0], ABOVE)


@pytest.mark.parametrize("text", ["", "no header\n", "|".join("x" * 17) + "\nno job\n"])
def test_a_list_that_is_none_is_no_empty_queue(text: str, tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=100)
    slurm.submit(NaiveJob(1, "large", 2, 50, "RUNNING", held=False))
    guard = guard_of(slurm, tmp_path)
    assert "leaves 650 W" in write(guard, pool(700))[0], "150 W of a running job are uncovered"
    slurm.now_s += 30.0
    slurm.lists[JOBS] = text
    answer = guard.answer(Packet({"do": "write", "writes": [pool(700)]}))
    assert "squeue" in answer.header["error"]
    assert slurm.open_w == 650


def test_watts_of_jobs_that_the_list_does_not_show_count(tmp_path: Path) -> None:
    """The pool is read after the jobs: one may have started in between."""
    slurm = NaiveSlurm(open_w=CAP_W - IDLE_W)
    slurm.submit(NaiveJob(1, "large", 2, 200))
    guard = guard_of(slurm, tmp_path)
    slurm.lists[POOL] = f"LicenseName=watts Total={TOTAL_W} Used=700 Reserved={TOTAL_W - slurm.open_w}\n"
    assert refused(write(guard, of("release", 1))[0], ABOVE)


def test_the_pool_stays_below_the_cap_that_it_read(tmp_path: Path) -> None:
    cap = tmp_path / "cap.csv"
    cap.write_text("time_s,cap_w\n0,900\n2000,500\n")
    slurm = NaiveSlurm()
    guard = guard_of(slurm, tmp_path, cap=str(cap))
    assert write(guard, pool(801)) == [f"{LEFT_OUT}: the cap that the guard reads leaves 800 W"]
    assert slurm.open_w == 800
    slurm.now_s = 2_001.0  # the cap falls, and nobody asks
    guard.keep_cap()
    assert slurm.open_w == 400
    assert stored(tmp_path) == TOTAL_W - 400  # a release opens no more than that
    for nonsense in (
        "nonsense",
        "a,b\n1,2\n",
        "time_s,cap_w\n1\n",
        "time_s,cap_w\n1,-5\n",
        "time_s,cap_w\n2,5\n1,5\n",
        "\0",
    ):
        cap.write_text(nonsense)
        slurm.now_s += 10.0
        guard.keep_cap()
        assert "cap" in guard.cap.problem, nonsense
        assert refused(write(guard, pool(401))[0], ABOVE)
    cap.write_text("time_s,cap_w\n0,none\n")
    assert write(guard, pool(TOTAL_W)) == [""]


def test_a_cap_that_was_never_read_is_zero(tmp_path: Path) -> None:
    guard = guard_of(NaiveSlurm(), tmp_path, cap=str(tmp_path / "missing.csv"))
    assert refused(write(guard, pool(1))[0], ABOVE)


def test_stops_and_requeues_need_consent(tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=800)
    guard = guard_of(slurm, tmp_path)
    slurm.submit(NaiveJob(1, "large", 2, 200, "RUNNING", held=False))
    slurm.submit(NaiveJob(2, "large", 2, 200, "RUNNING", held=False, comment="wattqueue:consent"))
    slurm.submit(NaiveJob(3, "large", 2, 200, "RUNNING", held=False, comment="wattqueue:consent,nonsense"))
    for kind in ("stop", "requeue"):
        found = write(guard, *(of(kind, number) for number in (1, 2, 3, 4)))
        assert [error.removeprefix(f"{LEFT_OUT}: ") for error in found] == [NO_CONSENT, "", NO_CONSENT, UNKNOWN]
    slurm.jobs["1"].comment = "wattqueue:consent"
    slurm.now_s += 10.0
    assert write(guard, of("stop", 1)) == [""]


COMMENTS = {"none": "", "consent": "wattqueue:consent", "no consent": "wattqueue:no-consent", "wrong": "wattqueue:x"}


@pytest.mark.parametrize("comment", COMMENTS.values(), ids=COMMENTS)
@pytest.mark.parametrize("kind", sorted(LAST_RESORT))
def test_consent_or_a_last_resort_decides_about_each_kind(kind: str, comment: str, tmp_path: Path) -> None:
    """Only the one that is named is done without consent; a default of the guard's own counts where no tag does."""
    others = frozenset(LAST_RESORT - {kind})
    consenting = SiteDefaults(users={"ada": True})
    for number, (resorts, consent, allowed) in enumerate((
        (frozenset[str](), SiteDefaults(), comment == "wattqueue:consent"),
        (others, SiteDefaults(), comment == "wattqueue:consent"),
        (frozenset({kind}), SiteDefaults(), True),
        (frozenset[str](), consenting, comment in ("", "wattqueue:consent")),
    )):  # fmt: skip
        folder = tmp_path / str(number)
        folder.mkdir()
        slurm = NaiveSlurm(open_w=800)
        slurm.submit(NaiveJob(1, "large", 2, 200, "RUNNING", held=False, comment=comment))
        guard = guard_of(slurm, folder, last_resort=resorts, consent=consent, slurm=FOLDER)
        more = {"khz": 1_200_000} if kind == "frequency" else {}
        (error,) = write(guard, of(kind, 1, **more))
        assert error == ("" if allowed else f"{LEFT_OUT}: {NO_CONSENT}"), number
        job = slurm.jobs["1"]
        done = {"stop": job.state == "STOPPED", "requeue": job.state == "PENDING", "frequency": job.khz == 1_200_000}
        assert [name for name, seen in done.items() if seen] == ([kind] if allowed else [])


def test_a_frequency_that_nobody_would_set_is_refused(tmp_path: Path) -> None:
    """The job would start on fewer watts than it draws."""
    slurm = NaiveSlurm(open_w=800)
    slurm.submit(NaiveJob(1, "large", 2, 200, comment="wattqueue:consent"))
    guard = guard_of(slurm, tmp_path, accepted=frozenset({"frequencies"}))
    found = write(guard, of("frequency", 1, khz=1_200_000), of("release", 1))
    assert refused(found[0], NO_FOLDER)
    assert found[1].startswith(LEFT_OUT)
    assert slurm.jobs["1"].held


def test_a_frequency_is_taken_back_without_consent(tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=800)
    slurm.submit(NaiveJob(1, "large", 2, 200, "RUNNING", held=False, khz=1_200_000))
    assert write(guard_of(slurm, tmp_path), of("frequency", 1, khz=0)) == [""]
    assert slurm.jobs["1"].khz == 0


def test_a_job_with_another_submit_time_is_another_job(tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=800)
    slurm.submit(NaiveJob(1, "large", 2, 200))
    sent = {**of("release", 1), "key": ["1", 2.0]}
    assert refused(write(guard_of(slurm, tmp_path), sent)[0], UNKNOWN)


@pytest.mark.parametrize(
    "sent",
    [
        *(None, "release", [], {}, {"kind": "shell"}, {"kind": "release"}, {**pool(1), "more": 1}),
        *({**pool(1), "open_w": wrong} for wrong in ("1", True, 1.5, 1e300, None)),
        {**pool(1), "target": "x" * 9_999},
        *(
            of("update", 1, fields=wrong)
            for wrong in ({"shell": "rm"}, {"watts": float("nan")}, {"node_count": [1]}, 7)
        ),
        of("update", 1, fields={"limit_s": float("inf")}),
        {**of("release", 1), "key": ["1"]},
        {**of("release", 1), "reduces_power": True},
    ],
)
def test_what_is_no_write_is_refused(sent: Any, tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=800)
    slurm.submit(NaiveJob(1, "large", 2, 200))
    error = write(guard_of(slurm, tmp_path), sent)[0]
    assert error.startswith(f"{LEFT_OUT}: no write: ")
    assert slurm.jobs["1"].held


@pytest.mark.parametrize(
    ("argv", "may"),
    [
        (JOBS, True),
        (POOL, True),
        (("scontrol", "show", "config"), True),
        (("sacctmgr", "-n", "-P", "show", "user"), True),
        (("scontrol", "update", "JobId=1"), False),
        (("scontrol", "-o", "update", "show"), False),
        (("scontrol", "reconfigure"), False),
        (("sacct", "-f", "/etc/shadow"), False),
        (("sdiag", "--reset"), False),
        (("sacctmgr", "-i", "delete", "show"), False),
        (("scancel", "1"), False),
        (("sh", "-c", "id"), False),
        ((), False),
    ],
)
def test_only_commands_that_read_are_run(argv: tuple[str, ...], may: bool, tmp_path: Path) -> None:
    assert reads(argv) is may
    if not may:
        slurm = NaiveSlurm()
        answer = guard_of(slurm, tmp_path).answer(Packet({"do": "read", "argv": [*argv]}))
        assert (answer.header, slurm.calls) == ({"error": "only commands that read are run"}, [])


def test_lists_that_the_planner_had_read_are_not_read_again(tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=800)
    guard = guard_of(slurm, tmp_path)
    for argv in (JOBS, POOL):
        assert guard.answer(Packet({"do": "read", "argv": [*argv]})).header["code"] == 0
    write(guard, pool(700))
    assert slurm.calls == [JOBS, POOL]
    slurm.now_s += 21.0
    write(guard, pool(600))
    assert slurm.calls == [JOBS, POOL, JOBS, POOL]


def test_what_cannot_be_recorded_is_done_only_where_it_lowers(tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=300)
    guard = guard_of(slurm, tmp_path)
    guard.journal.path = tmp_path / "missing" / "audit.jsonl"
    slurm.submit(NaiveJob(1, "large", 2, 200))
    found = write(guard, pool(200), of("release", 1), of("hold", 1))
    assert [error == "" for error in found] == [True, False, False]
    assert (slurm.open_w, slurm.jobs["1"].held) == (200, True)


def test_a_target_that_is_not_the_job_of_the_key(tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=800)
    slurm.submit(NaiveJob(1, "large", 2, 200))
    slurm.submit(NaiveJob(2, "large", 2, 0))
    guard = guard_of(slurm, tmp_path)
    assert refused(write(guard, {**of("release", 1), "target": "2"})[0], OTHER)
    for kind in ("release", "continue", "stop"):
        sent = of(kind, 2)
        del sent["key"]
        assert refused(write(guard, sent)[0], UNKNOWN)
    assert slurm.jobs["2"].held


def test_components_are_released_once_all_carry_their_watts(tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=800)
    for component, watts in enumerate((200, 0)):
        slurm.submit(NaiveJob(10 + component, "large", 2, watts, whole=10, component=component))
    guard = guard_of(slurm, tmp_path)
    release = {"kind": "release", "target": "10", "before": "", "after": "", "key": ["10+0", 10.0]}
    assert refused(write(guard, release)[0], LOW)
    gives = {
        "kind": "update",
        "target": "10+1",
        "before": "",
        "after": "",
        "key": ["10+1", 10.0],
        "fields": {"watts": 200},
    }
    assert write(guard, gives, release) == ["", ""]
    assert [job.held for job in slurm.jobs.values()] == [False, False]


def stopped_with_a_long_limit(slurm: NaiveSlurm, guard: WriteGuard) -> NaiveJob:
    """A job of an hour whose user consents, parked as a planner does it."""
    slurm.submit(NaiveJob(1, "large", 2, 200, "RUNNING", held=False, comment="wattqueue:consent"))
    assert write(guard, of("stop", 1), of("update", 1, fields={"watts": 0, "limit_s": 9_000.0})) == ["", ""]
    slurm.now_s += 500.0
    return slurm.jobs["1"]


@pytest.mark.parametrize("continued", [False, True])
def test_a_job_that_stood_still_goes_on_with_its_time_and_its_watts(continued: bool, tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=500)
    guard = guard_of(slurm, tmp_path)
    job = stopped_with_a_long_limit(slurm, guard)
    if continued:
        job.state = "RUNNING"  # somebody else continues it
    limit_s = 3_600.0 + 500.0
    assert write(guard, of("update", 1, fields={"watts": 200, "limit_s": limit_s}), of("continue", 1)) == ["", ""]
    assert (job.state, job.watts, job.limit_s) == ("RUNNING", 200, limit_s)
    slurm.now_s += 1_000.0
    assert write(guard, of("update", 1, fields={"limit_s": 3_000.0})) == [f"{LEFT_OUT}: a shorter limit would end it"]
    assert write(guard, of("stop", 1)) == [""]  # a second pause counts as well
    slurm.now_s += 300.0
    for limit_s, error in ((4_300.0, f"{LEFT_OUT}: a shorter limit would end it"), (4_500.0, "")):
        assert write(guard, of("update", 1, fields={"limit_s": 9_000.0})) == [""]
        slurm.now_s += 30.0  # the lists are read again
        assert write(guard, of("update", 1, fields={"limit_s": limit_s})) == [error]


def test_no_limit_ends_a_job_that_stands_still(tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=500)
    guard = guard_of(slurm, tmp_path)
    job = stopped_with_a_long_limit(slurm, guard)
    for limit_s in (60.0, 3_600.0, 4_000.0):  # the hour and the pause are 4,100 s, less a step
        assert refused(write(guard, of("update", 1, fields={"limit_s": limit_s}))[0], "a shorter limit would end it")
    assert job.limit_s == 9_000.0


def test_a_guard_that_was_started_again_shortens_no_limit_and_lets_jobs_go_on(tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=500)
    job = stopped_with_a_long_limit(slurm, guard_of(slurm, tmp_path))
    guard = guard_of(slurm, tmp_path)
    fields = {"watts": 200, "limit_s": 4_200.0}
    assert write(guard, of("update", 1, fields=fields), of("continue", 1)) == ["", ""]
    assert (job.state, job.watts, job.limit_s) == ("RUNNING", 200, 9_000.0)
    last = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [one["after"] for one in last if one.get("kind") == "update"][-1] == "watts=200", "as it was written"


def test_the_planner_states_no_consent_and_ends_no_job_by_its_limit(tmp_path: Path) -> None:
    slurm = NaiveSlurm(open_w=800)
    slurm.submit(NaiveJob(1, "large", 2, 200, "RUNNING", held=False))
    guard = guard_of(slurm, tmp_path)
    for comment in ("wattqueue:consent", "x wattqueue:consent,slowdown=2", "wattqueue:nonsense"):
        assert refused(
            write(guard, of("update", 1, fields={"comment": comment}))[0], "consent is stated by the user alone"
        )
    assert write(guard, of("update", 1, fields={"comment": "wattqueue: would start now on p1"})) == [""]
    assert refused(write(guard, of("update", 1, fields={"limit_s": 60.0}))[0], "a shorter limit would end it")
    assert write(guard, of("update", 1, fields={"limit_s": 7_200.0})) == [""]
