"""job_submit.lua in a real Slurm: every job carries watts, waits, and its user cannot get round either."""

from __future__ import annotations

import os
import pwd
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.releases import lab_of
from tests.live.slurmlab import OPERATOR, USER, SlurmLab, real, wait_for
from tests.live.submit_script import with_data
from wattqueue.errors import InputError, OutputError
from wattqueue.formats.slurm.hostlist import expand
from wattqueue.live.config import load_config
from wattqueue.live.consent_tags import parse_tag
from wattqueue.live.managed import managed_machine
from wattqueue.live.release import ReleaseSettings, release_all
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.connect import connect
from wattqueue.live.slurm.install import Settings, install, prolog, script
from wattqueue.live.slurm.observe import Observer
from wattqueue.live.slurm.sizing import Shape
from wattqueue.live.slurm.submit_data import NodeWatts, SubmitData, body_of, write_data
from wattqueue.live.slurm.submit_file import SubmitFile
from wattqueue.live.slurm.submit_text import SUBMIT_DATA, keep_lines, staff_of, text_of
from wattqueue.live.world import Layout

STAFF = "bin"
OPERATOR_UID = pwd.getpwnam(OPERATOR).pw_uid


P1, P2 = Shape(16, 2, 16, 32000, (("gpu", 4),)), Shape(8, 1, 8, 32000)
NODES = {"p1": NodeWatts(300, 100, 16, 2, (P1,)), "p2": NodeWatts(120, 60, 8, 2, (P2,))}
"""The partition ``debug`` over all nodes is left out, as one that was added after the installation."""


def settings(beat: Path | None, pool_w: int = 1000) -> Settings:
    return Settings(SubmitData(NODES), [OPERATOR_UID], beat, 60, pool_w)


def beat(file: Path, age_s: float = 0.0) -> None:
    file.write_text(f"control {int(time.time() - age_s)}\n")


@pytest.fixture(scope="module")
def guarded(slurm_release: str) -> Iterator[SlurmLab]:
    """A Slurm with our script, its pool 1000 W."""
    folder = Path(os.path.realpath(f"/tmp/wattqueue-guard-{os.getpid()}"))  # noqa: S108 - other users walk here
    folder.mkdir(mode=0o755)
    lua = with_data(settings(folder / "run/beat"))
    more = {"scheduler": f"{SlurmLab.scheduler},permit_job_expansion"}
    lab = lab_of(slurm_release, folder, lua, 1000, nodes=4, gpus=4, overlap=True, memory=True, **more)
    try:
        yield lab.up()
    finally:
        lab.down()
        lab.remove()


@pytest.fixture
def slurm(guarded: SlurmLab) -> SlurmLab:
    guarded.clear()
    beat(guarded.root / "run/beat")
    return guarded


def refused(lab: SlurmLab, *argv: str, user: str = USER) -> str:
    done = lab.run(argv, user=user, check=False)
    assert done.code != 0, f"{argv} went through"
    return done.err


def licences_used(lab: SlurmLab, what: str = "Used") -> int:
    text = lab.run(["scontrol", "-o", "show", "licenses"]).out
    return int(next(piece for piece in text.split() if piece.startswith(f"{what}=")).removeprefix(f"{what}="))


@real
@pytest.mark.parametrize(
    ("options", "watts"),
    [
        ((), 300),
        (("-N2",), 600),
        (("-n20",), 600),
        (("-n10", "-p", "p2"), 240),
        (("-N1-3",), 900),
        (("-p", "p1,p2"), 300),
        (("-n2", "--ntasks-per-node=1"), 600),
        (("-L", "watts:1"), 300),
        (("--gpus=8",), 600),
        (("-n8", "--mem-per-cpu=8000"), 600),
        (("-n8", "--ntasks-per-socket=2"), 600),
        (("-n5", "--ntasks-per-core=2"), 300),
        (("-n5", "--ntasks-per-core=2", "--gpus=1"), 600),
        (("-n3", "--gpus-per-task=2"), 600),
        (("-N1-2", "--gpus=4"), 600),
        (("-N1-9",), 900),
        (("-p", "debug"), 300),
        (("-p", "debug", "-N2-3"), 900),
        (("-p", "debug,p2"), 300),
        (("-p", "p2,debug", "-N3"), 900),
    ],
)
def test_every_job_declares_the_most_it_can_draw_and_waits(
    slurm: SlurmLab, options: tuple[str, ...], watts: int
) -> None:
    job = slurm.submit(*options, seconds=60)
    assert slurm.field(job, "Licenses") == f"watts:{watts}"
    if options[:2] == ("-p", "debug"):
        assert slurm.field(job, "Priority") != "0", "Slurm schedules partitions that the machine file does not name"
    else:
        assert slurm.field(job, "Reason") == "JobHeldUser"
        assert slurm.field(job, "AdminComment") == "wattqueue:held"


@real
@pytest.mark.parametrize("working", [True, False])
def test_a_job_with_fewer_gpus_than_nodes_starts(slurm: SlurmLab, working: bool) -> None:
    """Slurm lowers a stated maximum of nodes to the GPUs of the whole job, so none is stated before the start.

    It counts as many nodes as it has tasks, and the partition has no more than two.
    """
    if not working:
        beat(slurm.root / "run/beat", 3600.0)
    job = slurm.submit("-n18", "--gpus=1", "-p", "p1")
    assert slurm.field(job, "Licenses") == "watts:600"
    if working:
        slurm.run(["scontrol", "update", f"JobId={job}", "NumNodes=2-2"])  # as the controller does at a start
        slurm.run(["scontrol", "release", job])
    slurm.wait_states([job], ["RUNNING", "COMPLETING", "COMPLETED"])
    assert slurm.field(job, "NumNodes") == "2"


@real
@pytest.mark.parametrize(("age_s", "held"), [(0.0, True), (-5.0, True), (59.0, True), (70.0, False), (-3600.0, False)])
def test_only_a_heartbeat_of_now_holds_jobs(slurm: SlurmLab, age_s: float, held: bool) -> None:
    """One from the future was written by a clock that was wrong, and is no more a heartbeat than an old one."""
    beat(slurm.root / "run/beat", age_s)
    job = slurm.submit(seconds=60)
    assert (slurm.field(job, "Reason") == "JobHeldUser") == held


@real
@pytest.mark.parametrize(
    "options",
    [
        ("-N1-3",),
        ("-N1-9", "-p", "debug"),
        ("--gpus=8",),
        ("--gpus=5", "-p", "debug"),
        ("-n18", "--mem-per-cpu=1900"),
        ("-n8", "--ntasks-per-socket=2"),
        ("-n5", "--ntasks-per-core=2", "--gpus=1"),
        ("-n3", "--gpus-per-task=2"),
        ("-n20",),
        ("-n3", "-c10", "-p", "debug"),
        ("-p", "debug,p2", "-n10"),
        ("-p", "p1,p2", "-n20"),
        ("--mem=30000", "-n2"),
    ],
)
def test_slurm_alone_gives_no_more_nodes_than_were_counted(slurm: SlurmLab, options: tuple[str, ...]) -> None:
    """Without a controller, on an empty machine: each job starts, and its nodes' watts are within its licences."""
    (slurm.root / "run/beat").unlink()
    job = slurm.submit(*options, seconds=60, check=False)
    if not job:  # 24.11 finds no nodes for three tasks of ten CPUs
        pytest.skip(f"this Slurm refuses a job with {' '.join(options)}")
    slurm.wait_states([job], ["RUNNING"])
    names = expand(slurm.field(job, "NodeList"))
    watts = sum(300 if name in ("n1", "n2") else 120 for name in names)
    assert names
    assert watts <= int(slurm.field(job, "Licenses").removeprefix("watts:"))


@real
def test_a_job_beyond_the_whole_budget_is_told_so(slurm: SlurmLab) -> None:
    done = slurm.run(["sbatch", "-N11", "--wrap=true"], user=USER, check=False)
    assert "the whole budget is 1000 W" in done.err


@real
def test_components_of_a_heterogeneous_job_are_counted_together(slurm: SlurmLab) -> None:
    """Each fits, both never do: such a job would wait for ever, and backfill would reserve its watts for ever."""
    done = slurm.run(["sbatch", "-N2", ":", "-N2", "--wrap=true"], user=USER, check=False)
    assert "1200 W" in done.err
    fits = slurm.run(["sbatch", "--parsable", "-N2", ":", "-N1", "--wrap=true"], user=USER).out.strip()
    assert slurm.field(fits, "Licenses") == "watts:600"
    assert "watts" not in slurm.field(f"{fits}+1", "Licenses"), "Slurm takes them on the first component alone"
    held = slurm.run(["sbatch", "--parsable", "-H", ":", "-H", "--wrap=true"], user=USER).out.strip()
    for job in (fits, held):
        slurm.run(["scontrol", "release", job], user=USER)
        assert slurm.field(job, "Priority") == "0", "it waits for the watts of its second component"
    alone = slurm.submit("-N2", seconds=60)
    assert slurm.field(alone, "Licenses") == "watts:600", "a job after it starts to count anew"


@real
@pytest.mark.parametrize("change", ["release", "Priority=5", "Nice=5"])
def test_nobody_starts_a_component_that_carries_no_watts(slurm: SlurmLab, change: str) -> None:
    """Not even an administrator: what frees the first component frees the others, which nothing counts yet."""
    job = slurm.run(["sbatch", "--parsable", "-N1", ":", "-N1", "--wrap=sleep 60"], user=USER).out.strip()
    argv = ["scontrol", "release", job] if change == "release" else ["scontrol", "update", f"JobId={job}", change]
    assert slurm.run(argv, check=False).code != 0
    assert slurm.field(f"{job}+1", "Priority") == "0"
    slurm.run(["scontrol", "update", f"JobId={job}+1", "Licenses=watts:300"])
    slurm.run(["scontrol", "release", job])
    slurm.wait_states([f"{job}+0", f"{job}+1"], ["RUNNING"])


@real
def test_a_job_that_needs_a_lower_frequency_waits_for_the_controller(slurm: SlurmLab) -> None:
    job = slurm.submit("-N4", "-p", "debug,p1", seconds=60)
    assert slurm.field(job, "Licenses") == "watts:1000"
    assert slurm.field(job, "AdminComment") == "wattqueue:needs-controller"


@real
@pytest.mark.parametrize(
    "change",
    [
        "Licenses=watts:1",
        "Licenses=",
        "Priority=5",
        "Nice=5",
        "NumNodes=2",
        "NumTasks=40",
        "NumCPUs=40",
        "Partition=p2",
    ],
)
def test_a_user_cannot_lower_his_watts_or_free_his_job(slurm: SlurmLab, change: str) -> None:
    job = slurm.submit(seconds=60)
    refused(slurm, "scontrol", "update", f"JobId={job}", change)
    assert slurm.field(job, "Licenses") == "watts:300"
    assert slurm.field(job, "Priority") == "0"


@real
def test_a_refusal_reaches_the_user_with_its_reason(slurm: SlurmLab) -> None:
    job = slurm.submit(seconds=60)
    for change, says in {
        "Priority=5": "Job is in held state",
        "Nice=5": "Job is in held state",
        "Licenses=watts:1": "Invalid license specification",
        "NumNodes=2": "violates accounting/QOS policy",
    }.items():
        assert says in refused(slurm, "scontrol", "update", f"JobId={job}", change)
    assert slurm.field(job, "Priority") == "0"
    big = slurm.run(["sbatch", "-N4", "-p", "debug", "--wrap=true"], user=USER, check=False)
    assert big.code != 0
    assert "the whole budget is 1000 W" in big.err


@real
@pytest.mark.parametrize("verb", ["hold", "uhold"])
@pytest.mark.parametrize("held_by", ["script", "controller"])
def test_a_user_holds_and_releases_a_waiting_job_that_keeps_its_place(slurm: SlurmLab, verb: str, held_by: str) -> None:
    job = slurm.submit(seconds=60)
    if held_by == "controller":
        slurm.run(["scontrol", "hold", job], user=OPERATOR)
    before = [slurm.field(job, name) for name in ("SubmitTime", "Licenses")]
    slurm.run(["scontrol", verb, job], user=USER)
    observer = Observer(slurm.commands, time.time)
    (row,) = observer.snapshot().jobs
    assert (row.held, row.eligible) == (True, False), "the controller leaves it alone"
    slurm.run(["scontrol", "release", job], user=USER)
    wait_for("its turn", lambda: observer.snapshot().jobs[0].eligible, step_s=0.2)
    assert slurm.field(job, "Priority") == "0", "it waits for its watts as before"
    assert [slurm.field(job, name) for name in ("SubmitTime", "Licenses")] == before


@real
def test_a_user_holds_a_job_that_is_about_to_start(slurm: SlurmLab) -> None:
    blocker, job = slurm.submit("-N2", "-p", "p1", seconds=600), slurm.submit("-N2", "-p", "p1", seconds=60)
    for one in (blocker, job):
        slurm.run(["scontrol", "release", one], user=OPERATOR)
    slurm.wait_states([blocker], ["RUNNING"])
    slurm.run(["scontrol", "hold", job], user=USER)
    slurm.run(["scancel", blocker])
    slurm.wait_idle()
    assert slurm.states()[job] == "PENDING"
    slurm.run(["scontrol", "release", job], user=USER)
    slurm.wait_states([job], ["RUNNING"])


@real
def test_what_staff_changes_is_not_refused(slurm: SlurmLab) -> None:
    """An account with Slurm's operator level that is not the controller's: the data file names it from then on."""
    slurm.run(["sacctmgr", "-i", "add", "account", "ops", "Cluster=lab"], check=False)
    slurm.run(["sacctmgr", "-i", "add", "user", STAFF, "Account=ops", "AdminLevel=Operator"])
    commands = slurm.commands
    staff = staff_of(commands)
    assert staff is not None
    assert pwd.getpwnam(STAFF).pw_uid in staff
    wait_for("its rights", lambda: "Operator" in slurm.run(["sacctmgr", "-n", "show", "user", STAFF]).out)
    job = slurm.submit("-t", "9", seconds=600)
    path = slurm.root / "run" / SUBMIT_DATA
    try:
        write_data(path, SubmitData(NODES, staff=staff), time.time())
        slurm.run(["scontrol", "update", f"JobId={job}", "Partition=p2"], user=STAFF)
        assert slurm.field(job, "Partition") == "p2"
    finally:
        write_data(path, SubmitData(NODES), time.time())


@real
@pytest.mark.parametrize("change", ["TimeLimit=7", "Comment=mine", "StartTime=now", "JobName=other"])
def test_what_does_no_harm_is_still_the_users(slurm: SlurmLab, change: str) -> None:
    job = slurm.submit("-t", "9", seconds=60)
    slurm.run(["scontrol", "update", f"JobId={job}", change], user=USER)
    assert slurm.field(job, "Priority") == "0", "and it does not free the job"


@real
def test_a_job_that_its_user_holds_is_his_to_release(slurm: SlurmLab) -> None:
    job = slurm.submit("--hold", seconds=60)
    assert slurm.field(job, "AdminComment") == "wattqueue:user-held"
    refused(slurm, "scontrol", "update", f"JobId={job}", "Licenses=watts:1")
    slurm.run(["scontrol", "release", job], user=USER)
    assert slurm.field(job, "Priority") != "0"


@real
def test_the_operator_may_do_all_that_the_controller_does(slurm: SlurmLab) -> None:
    job = slurm.submit("-t", "9", seconds=600)
    slurm.run(["scontrol", "update", f"JobId={job}", "Licenses=watts:5", "Partition=p2", "TimeLimit=30"], user=OPERATOR)
    slurm.run(["scontrol", "release", job], user=OPERATOR)
    slurm.run(["scontrol", "update", f"JobId={job}", "Priority=77"], user=OPERATOR)
    slurm.wait_states([job], ["RUNNING"])
    slurm.run(["scontrol", "update", f"JobId={job}", "Licenses=watts:4"], user=OPERATOR)
    slurm.run(["scontrol", "requeuehold", job], user=OPERATOR)
    assert slurm.field(job, "Licenses") == "watts:4"


@real
@pytest.mark.parametrize("age_s", [61.0, None])
def test_without_a_controller_jobs_start_alone_under_their_watts(slurm: SlurmLab, age_s: float | None) -> None:
    file = slurm.root / "run/beat"
    file.unlink() if age_s is None else beat(file, age_s)
    jobs = [slurm.submit("-p", "p1,p2", seconds=600) for _ in range(4)]
    slurm.wait_states(jobs[:3], ["RUNNING"])
    slurm.wait_considered(jobs[3])
    assert slurm.states()[jobs[3]] == "PENDING"
    assert "Used=900" in slurm.run(["scontrol", "-o", "show", "lic"]).out


MACHINE = """
name = "m"
[[partitions]]
name = "p1"
nodes = 2
idle_w = 10.0
max_w = 310.0
[[partitions]]
name = "p2"
nodes = 2
idle_w = 10.0
max_w = 130.0
"""


@pytest.fixture
def kept_file(slurm: SlurmLab) -> Iterator[SubmitFile]:
    """What a controller of this Slurm keeps the data file with; at the end the file is as the other tests want it."""
    home = slurm.root / "live"
    home.mkdir(exist_ok=True)
    (home / "m.toml").write_text(MACHINE)
    where = f'[slurm]\nconf = "{slurm.root}/etc/slurm.conf"\nbin_dir = "{slurm.bin_dir}"\n'
    (home / "live.toml").write_text(f'machine = "m.toml"\nrun_dir = "{slurm.root}/run"\n{where}')
    config, path = load_config(home / "live.toml"), slurm.root / "run" / SUBMIT_DATA
    machine = managed_machine(config)

    def keep(path: Path, body: str) -> str:
        keep_lines(path, body, time.time())
        return ""

    yield SubmitFile(path, connect(config), lambda nodes: Layout.of(machine, nodes, {}), keep)
    write_data(path, SubmitData(NODES), time.time())


def follow(file: SubmitFile) -> None:
    """What a round and its thread do about other nodes."""
    file.cluster.observe()
    file.look()
    file.refresh()
    assert file.problem == ""


def watts_of(slurm: SlurmLab, *options: str) -> int:
    return int(slurm.field(slurm.submit(*options, seconds=60), "Licenses").removeprefix("watts:"))


@real
def test_the_next_submission_counts_what_the_cluster_has_become(slurm: SlurmLab, kept_file: SubmitFile) -> None:
    """Partitions and resources of nodes change, and nobody touches the script."""
    follow(kept_file)
    lua, conf = slurm.root / "etc/job_submit.lua", slurm.root / "etc/slurm.conf"
    before, text = lua.stat(), conf.read_text()
    slurm.run(["scontrol", "create", "PartitionName=extra", "Nodes=n[3-4]", "OverSubscribe=EXCLUSIVE", "State=UP"])
    try:
        assert watts_of(slurm, "-n10", "-p", "extra") == 600, "two nodes, as dear as any"
        follow(kept_file)
        assert watts_of(slurm, "-n10", "-p", "extra") == 240
        slurm.run(["scontrol", "update", "PartitionName=extra", "Nodes=n[1,3]"])
        follow(kept_file)
        assert watts_of(slurm, "-n10", "-p", "extra") == 600
        assert watts_of(slurm, "-n10", "-p", "p2") == 240
        conf.write_text(re.sub(r"(?m)^(NodeName=n[34] .*) Sockets=1", r"\1 Sockets=2", text))
        slurm.restart_controller()
        follow(kept_file)
        assert watts_of(slurm, "-n10", "-p", "p2") == 120, "sixteen CPUs are one node now"
        assert lua.stat() == before
    finally:
        slurm.clear()
        conf.write_text(text)
        slurm.run(["scontrol", "delete", "PartitionName=extra"], check=False)
        slurm.restart_controller()


@real
@pytest.mark.parametrize("damage", ["missing", "cut", "a folder"])
def test_without_the_data_file_jobs_run_and_count_the_dearest_node(
    slurm: SlurmLab, kept_file: SubmitFile, damage: str
) -> None:
    path, log = kept_file.path, slurm.root / "log/slurmctld.log"
    follow(kept_file)
    assert watts_of(slurm, "-p", "p2") == 120
    path.unlink()
    if damage == "cut":
        path.write_text(text_of(body_of(SubmitData(NODES)), time.time() + 100.0)[:-20])
    elif damage == "a folder":
        path.mkdir()
    try:
        job = slurm.submit("-p", "p2", seconds=600)
        assert slurm.field(job, "Licenses") == "watts:300"
        slurm.wait_states([job], ["RUNNING"])
        assert f"wattqueue: {path}: " in log.read_text()
    finally:
        if damage == "a folder":
            path.rmdir()
    follow(kept_file)
    assert watts_of(slurm, "-p", "p2") == 120


def test_a_sites_own_script_is_kept_and_never_overwritten(tmp_path: Path) -> None:
    own = "function slurm_job_submit() return 0 end\n"
    (tmp_path / "job_submit.lua").write_text(own)
    for _ in range(2):
        install(tmp_path, settings(None), None)
        assert (tmp_path / "job_submit.site.lua").read_text() == own
    (tmp_path / "job_submit.lua").write_text(own)
    with pytest.raises(OutputError) as caught:
        install(tmp_path, settings(None), None)
    assert caught.value.where == tmp_path
    assert (tmp_path / "job_submit.site.lua").read_text() == own


def test_files_that_are_installed_again_keep_owner_and_links(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "job_submit.lua").symlink_to(kept / "job_submit.lua")
    for pool_w in (1000, 2000):
        install(tmp_path, settings(None, pool_w), tmp_path / "frequencies")
        assert (tmp_path / "job_submit.lua").is_symlink()
        assert f"WHOLE_POOL_W = {pool_w}" in (kept / "job_submit.lua").read_text()
        if os.geteuid() == 0 and pool_w == 1000:
            os.chown(kept / "job_submit.lua", OPERATOR_UID, -1)
    if os.geteuid() == 0:
        assert (kept / "job_submit.lua").stat().st_uid == OPERATOR_UID
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("job_submit.lua", "wattqueue_task_prolog.sh")]
    assert modes == [0o644, 0o755]
    assert not [*tmp_path.rglob("*.part")]


@pytest.mark.parametrize("name", ['p"1', "p;1", "x\ny", "]]"])
def test_no_name_can_become_code(name: str) -> None:
    with pytest.raises(OutputError):
        script(Settings(SubmitData({}), [], Path(f"/x/{name}/beat"), 1, 1))
    with pytest.raises(OutputError):
        prolog(Path(f"/x/{name}"))


@real
@pytest.mark.parametrize(
    ("comment", "wrong"),
    [
        ("wattqueue:consent", False),
        ("mine wattqueue:consent,slowdown=1.5,until=2026-11-23T08:00:00+01:00,price=2.5 too", False),
        ("wattqueue:consent,checkpoint=600", False),
        ("wattqueue:consent,checkpoint=0", True),
        ("wattqueue:no-consent", False),
        ("nothing about it", False),
        ("wattqueue:consnet", True),
        ("wattqueue:consent,slowdown=0.5", True),
        ("wattqueue:consent,price=1,price=2", True),
        ("wattqueue:consent wattqueue:no-consent", True),
        ("wattqueue:consent,", True),
    ],
)
def test_a_user_learns_of_a_wrong_consent_at_the_submission(slurm: SlurmLab, comment: str, wrong: bool) -> None:
    """The script and the controller agree on what is a tag."""
    done = slurm.run(["sbatch", "--wrap=true", f"--comment={comment}"], user=USER)
    assert ("states no consent" in done.err) is wrong
    try:
        parse_tag(comment)
        assert not wrong
    except InputError:
        assert wrong


NO_BUDGET = ("Comment=x", "JobName=y", "TimeLimit=1", "StdOut=/dev/null", "Requeue=0", "MailUser=me", "TimeMin=1")
"""Changes that leave the job's size as it is."""
SIZES = (
    "NumNodes=0", "NumNodes=1", "NumNodes=1-2", "NumNodes=ALL", "NumCPUs=2", "NumCPUs=2-4", "MinCPUs=2",
    "NumTasks=0", "NumTasks=2", "CPUsPerTask=0", "CPUsPerTask=2", "TasksPerNode=2", "MinCPUsNode=0",
    "MinCPUsNode=2", "MinMemoryNode=0", "MinMemoryNode=100", "MinMemoryNode=65534", "MinMemoryCPU=0",
    "MinMemoryCPU=100", "ReqSockets=0", "ReqSockets=1", "ReqCores=1", "ReqThreads=1", "OverSubscribe=1", "Gres=",
    "Gres=gpu:1", "TresPerNode=gres/gpu:1", "TresPerTask=gres/gpu:1", "Partition=p2", "Licenses=",
    "Licenses=watts:1",
)  # fmt: skip
"""Changes of a job's nodes, CPUs, tasks, memory, generic resources, partition or licences, as scontrol names them."""


@real
@pytest.mark.parametrize("state", ["waits", "waits, no controller", "runs"])
def test_a_user_changes_no_size_and_everything_else(slurm: SlurmLab, state: str) -> None:
    """The release's truth table: what a change does not name is nil, NO_VAL, NO_VAL16 or 0 by its field."""
    if state != "waits":
        beat(slurm.root / "run/beat", 3600.0)
    job = slurm.submit(
        "-N2", "-t", "10", *(["--begin=now+1hour"] if state == "waits, no controller" else []), seconds=600
    )
    if state == "runs":
        slurm.wait_states([job], ["RUNNING"])
    before = {name: slurm.field(job, name) for name in ("NumNodes", "NumCPUs", "NumTasks", "Licenses", "Partition")}
    passed = [
        one for one in SIZES if slurm.run(["scontrol", "update", f"JobId={job}", one], user=USER, check=False).code == 0
    ]
    if state == "runs":
        refused(slurm, "scontrol", "update", f"JobId={job}", "NodeList=n1")
    after = {name: slurm.field(job, name) for name in before}
    assert (passed, after) == ([], before)
    for one in NO_BUDGET:
        slurm.run(["scontrol", "update", f"JobId={job}", one], user=USER)


def expanded(slurm: SlurmLab) -> tuple[str, str]:
    """Start a job and an allocation that may give its node to the job, with no controller at work.

    Without a step: Slurm itself refuses to take nodes from a job whose steps run.
    """
    beat(slurm.root / "run/beat", 3600.0)
    wide = slurm.submit("-N1", "-t", "10", "-p", "p1", seconds=600)
    slurm.wait_states([wide], ["RUNNING"])
    gives = slurm.allocate("-N1", "-t", "10", "-p", "p1", f"--dependency=expand:{wide}")
    if not gives:
        pytest.skip("this release expands no job")
    assert licences_used(slurm) == 600
    return wide, gives


@real
def test_an_expanded_job_cannot_give_its_nodes_away(slurm: SlurmLab) -> None:
    """Its licences would be returned while both jobs run, and no controller looks."""
    wide, gives = expanded(slurm)
    refused(slurm, "scontrol", "update", f"JobId={gives}", "NumNodes=0")
    refused(slurm, "scontrol", "update", f"JobId={wide}", "NumNodes=ALL")
    assert [slurm.field(job, "NumNodes") for job in (wide, gives)] == ["1", "1"]
    assert licences_used(slurm) == 600


@real
def test_what_an_administrator_takes_from_an_expanded_job_is_withheld(slurm: SlurmLab, slurm_release: str) -> None:
    """Slurm 22.05 returns the licences of a job with GPUs, reports an error, and lets both jobs run on.

    The last test here: the job that gave its nodes away stays completing for a while.
    """
    jobs = expanded(slurm)
    slurm.run(["scontrol", "update", f"JobId={jobs[1]}", "NumNodes=0"], check=False)
    missing = sum(slurm.states()[job] == "RUNNING" for job in jobs) * 300 - licences_used(slurm)
    if slurm_release == "22.05":
        assert missing == 300
    release_all(ReleaseSettings(slurm.root / "run", 60.0), SlurmCluster(slurm.commands))
    assert licences_used(slurm, "Reserved") == max(0, missing)
