"""What is installed against what is configured: each difference is named, and the dangerous ones end a controller."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.live.recordings import JOB_HEADER, Recorded
from wattqueue.errors import InputError, MachineError
from wattqueue.live.assemble import assemble
from wattqueue.live.config import LiveConfig, load_config
from wattqueue.live.files.reading import home_of
from wattqueue.live.guard.settings import read_settings
from wattqueue.live.partitions import inspect_partitions
from wattqueue.live.slurm.budget_checks import PARTITIONS, shared_partitions
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.commands import CommandResult
from wattqueue.live.slurm.connect import connect
from wattqueue.live.slurm.examine_live import examine_live
from wattqueue.live.slurm.guard import Guard, guard_lines, missing_watts
from wattqueue.live.slurm.install import changes, differences, install, script, uninstall
from wattqueue.live.slurm.observe import Observer
from wattqueue.live.slurm.submit_data import NodeWatts, SubmitData, body_of, findings, write_data

MACHINE = """
name = "m"
[[partitions]]
name = "p1"
nodes = 2
idle_w = 100.0
max_w = 300.0
[[partitions]]
name = "p2"
nodes = 2
idle_w = 100.0
max_w = 250.0
"""


def make_slurm(*partitions: str) -> Recorded:
    """A recorded Slurm with these lines of sinfo: partition and nodes, and a pool of 700 W."""
    slurm = Recorded()
    lines = ("p1 n[1-2]", "p2 m[1-2]", *partitions)
    slurm.texts["nodes"] = "".join("{1}|idle|{0}|16|64000|2|8|(null)\n".format(*line.split()) for line in lines)
    slurm.texts["pool"] = slurm.texts["pool"].replace("Total=1600", "Total=700")
    slurm.texts["jobs"] = JOB_HEADER
    return slurm


def set_config(slurm: Recorded, key: str, value: str) -> None:
    """Let ``scontrol show config`` print another value."""
    slurm.texts["config"] = re.sub(rf"^{key} .*$", f"{key:<24}= {value}", slurm.texts["config"], flags=re.MULTILINE)


def make_config(folder: Path, text: str = "") -> LiveConfig:
    (folder / "m.toml").write_text(MACHINE)
    (folder / "live.toml").write_text(f'machine = "m.toml"\ncap = "1000W"\n{text}')
    return load_config(folder / "live.toml")


def installed(folder: Path, slurm: Recorded, guard: Guard) -> None:
    """Install, and let slurm.conf lie there."""
    install(folder, guard.settings, None)
    set_config(slurm, "SLURM_CONF", str(folder / "slurm.conf"))


def test_partitions_that_the_machine_file_does_not_name(tmp_path: Path) -> None:
    slurm = make_slurm("debug n1,m1", "login l1")
    guard = Guard.of(make_config(tmp_path), slurm)
    nodes = guard.settings.data.nodes
    assert {name: (node.watts, node.held) for name, node in nodes.items()} == {
        "p1": (200, True),
        "p2": (150, True),
        "debug": (200, False),
    }
    assert list(guard.settings.data.free) == ["login"]
    found = inspect_partitions(guard.layout, Observer(slurm, lambda: 1e6).snapshot().nodes)
    assert len(found) == 1
    assert "debug" in found[0]


def test_the_configuration_of_a_guard_is_written_once_beside_the_controllers(tmp_path: Path) -> None:
    section = f'[guard]\nsocket = "{tmp_path}/socket"\nrun_dir = "{tmp_path}"\nplanner = "nobody"\n'
    config, file = make_config(tmp_path, section), tmp_path / "live.toml"
    guard = Guard.of(config, make_slurm("debug n1,m1", "login l1"))
    shown = guard_lines(guard, config, file, write=False)
    assert "without_jobs_w = 400" in shown
    assert not (tmp_path / "guard.toml").exists()
    assert "wrote" in guard_lines(guard, config, file, write=True)[0]
    found = read_settings(tmp_path / "guard.toml")
    assert (found.cap, found.node_w) == ("1000W", {"p1": 200, "p2": 150, "debug": 200})
    assert found.free == {"login"}
    # of a job in several partitions the dearest counts; nothing of one whose jobs carry no watts
    assert [found.most_w(names, 2) for names in ("p2", "p1,p2", "login", "another")] == [300, 400, 0, 400]
    assert "as it should be" in guard_lines(guard, config, file, write=True)[0]
    (tmp_path / "guard.toml").write_text("edited")
    assert "differs" in guard_lines(guard, config, file, write=True)[0]
    assert (tmp_path / "guard.toml").read_text() == "edited"
    assert guard_lines(guard, make_config(tmp_path), file, write=True) == []


def test_a_guard_counts_shared_nodes_at_their_maximum_whatever_their_states(tmp_path: Path) -> None:
    """Nodes that are drained at the installation come back, and nobody writes the guard's file again."""
    section = f'[guard]\nsocket = "{tmp_path}/socket"\nrun_dir = "{tmp_path}"\nplanner = "nobody"\n'
    config, slurm = make_config(tmp_path, SHARED + section), make_slurm()
    slurm.texts["nodes"] = slurm.texts["nodes"].replace("m[1-2]|idle", "m[1-2]|drained")
    guard = Guard.of(config, slurm)
    assert guard.shared_count.watts < 500.0
    # idle watts of two managed nodes, and two shared ones at their maximum
    assert "without_jobs_w = 700" in guard_lines(guard, config, tmp_path / "live.toml", write=False)


def test_a_node_that_moved_is_reported_in_the_next_round(tmp_path: Path) -> None:
    slurm = make_slurm()
    guard = Guard.of(make_config(tmp_path), slurm)
    observer = Observer(slurm, lambda: 1e6)
    assert inspect_partitions(guard.layout, observer.snapshot().nodes) == []
    slurm.texts["nodes"] = slurm.texts["nodes"].replace("n[1-2]", "n[1-3]")
    assert ["p1" in text for text in inspect_partitions(guard.layout, observer.snapshot().nodes)] == [True]


def test_what_was_just_installed_fits(tmp_path: Path) -> None:
    slurm = make_slurm()
    guard = Guard.of(make_config(tmp_path), slurm)
    installed(tmp_path, slurm, guard)
    assert [one for one in guard.check(slurm) if one.fatal] == []
    assert guard.check_data(slurm, time.time()) == []


@pytest.mark.parametrize(
    ("change", "dangerous"),
    [
        ({"operators": [12345]}, [True]),
        ({"beat": Path("/elsewhere/beat")}, [True, True]),
        ({"data": SubmitData({"p1": NodeWatts(199, 199, 16), "p2": NodeWatts(150, 150, 16)})}, [True]),
        ({"data": SubmitData({"p1": NodeWatts(201, 199, 16)})}, []),
        ({"whole_pool_w": 1}, [False]),
        ({"away_s": 7}, [False]),
    ],
)
def test_each_difference_is_found(tmp_path: Path, change: dict[str, object], dangerous: list[bool]) -> None:
    settings = Guard.of(make_config(tmp_path), make_slurm()).settings._replace(operators=[54321])
    assert differences(script(settings), settings) == []
    other = settings._replace(**change)  # type: ignore[arg-type]
    assert [one.fatal for one in differences(script(other), settings)] == dangerous


def test_a_script_that_holds_the_nodes_itself_is_found(tmp_path: Path) -> None:
    """An earlier version wrote them into it; nothing would follow the cluster."""
    settings = Guard.of(make_config(tmp_path), make_slurm()).settings
    nodes = 'local NODE = {\n  ["p1"] = { watts = 200, least = 200, size = 2, held = true, shapes = {} },\n}\n'
    earlier = re.sub(r"local DATA = .*\n", nodes, script(settings))
    assert [(one.fatal, "install again" in one.what) for one in differences(earlier, settings)] == [(True, True)]


def test_a_script_of_another_release_or_of_the_site_is_found(tmp_path: Path) -> None:
    settings = Guard.of(make_config(tmp_path), make_slurm()).settings
    older = script(settings).replace('local VERSION = "', 'local VERSION = "0')
    assert [one.fatal for one in differences(older, settings)] == [False]
    assert [one.fatal for one in differences("return slurm.SUCCESS\n", settings)] == [True]


def test_control_does_not_start_where_the_script_would_refuse_it(tmp_path: Path) -> None:
    slurm = make_slurm()
    config = make_config(tmp_path, 'mode = "control"\n')
    guard = Guard.of(config, slurm)
    installed(tmp_path, slurm, Guard(guard.settings._replace(beat=Path("/elsewhere/beat")), guard.layout))
    with pytest.raises(InputError) as caught:
        assemble(config, connect(config, slurm))
    assert caught.value.where == "job_submit.lua"
    assert "install" in str(caught.value.hint)
    assert not config.run_dir.exists(), "nothing was claimed"


@pytest.mark.parametrize(("requeue", "named"), [("1", True), ("0", False)])
def test_a_release_that_loses_licences_is_named(tmp_path: Path, requeue: str, named: bool) -> None:
    slurm = make_slurm()
    set_config(slurm, "SLURM_VERSION", "25.05.8")
    set_config(slurm, "JobRequeue", requeue)
    found = Guard.of(make_config(tmp_path), slurm).check(slurm, tmp_path)
    assert any("25.05.8" in one.what for one in found) == named


@pytest.mark.parametrize(
    ("version", "refuses"),
    [("22.05.8", True), ("24.11.5", True), ("25.11.7", False), ("26.05.5", False), ("N/A", False)],
)
def test_too_few_nodes_for_gpus_are_refused_where_slurm_does_so(tmp_path: Path, version: str, refuses: bool) -> None:
    slurm = make_slurm()
    old = Guard.of(make_config(tmp_path), slurm).settings
    set_config(slurm, "SLURM_VERSION", version)
    settings = Guard.of(make_config(tmp_path), slurm).settings
    assert settings.data.gres_bound is refuses
    assert f"gres-bound {'yes' if refuses else 'no'}\n" in body_of(settings.data)
    assert settings.data_file is not None
    settings.data_file.parent.mkdir()
    write_data(settings.data_file, old.data, 1e6)
    changed = [one.what for one in findings(settings.data_file, settings.data, 1e6)]
    assert len(changed) == (not refuses), "the recorded Slurm is 22.05.8"
    assert all(one.startswith("gres-bound") for one in changed)


def test_jobs_from_before_the_installation_get_watts(tmp_path: Path) -> None:
    slurm = make_slurm()
    guard = Guard.of(make_config(tmp_path), slurm)
    slurm.texts["jobs"] = (
        f"{JOB_HEADER}1|1|100|RUNNING|None|p2|2|32|30:00|(null)|9|1000|150|m[1-2]||(null)|2\n"
        "2|2|100|PENDING|Resources|p2|1|16|30:00|(null)|9|1000|N/A|||(null)|2\n"
    )
    cluster = SlurmCluster(slurm, clock=lambda: 200.0)
    writes = missing_watts(cluster.observe(), guard.layout, guard.settings)
    for write in writes:
        cluster.apply(write)
    assert [argv[2:] for argv in slurm.writes] == [
        ("JobId=1", "Licenses=watts:300"),
        ("JobId=2", "NumNodes=2-2", "Licenses=watts:300"),
    ]
    slurm.texts["jobs"] = slurm.texts["jobs"].replace("(null)|9", "watts:300|9")
    assert missing_watts(cluster.observe(), guard.layout, guard.settings) == []


def test_a_service_keeps_its_files_where_its_unit_may_write(tmp_path: Path) -> None:
    assert home_of(Path("/etc/wattqueue")) == Path("/var/lib/wattqueue")
    assert home_of(tmp_path) == tmp_path


def with_partitions(slurm: Recorded, text: str) -> Recorded:
    """Let ``scontrol show partition`` print a text."""

    class Known(Recorded):
        def run(self, argv: Sequence[str]) -> CommandResult:
            return CommandResult(0, text, "", 0.0) if tuple(argv) == PARTITIONS else super().run(argv)

    return Known(slurm.texts)


def test_shared_nodes_and_a_backfill_without_licences_are_found(tmp_path: Path) -> None:
    shown = {"p1": "NO", "p2": "EXCLUSIVE", "x": "NO"}
    lines = (f"PartitionName={name} OverSubscribe={how}\n" for name, how in shown.items())
    slurm = with_partitions(make_slurm(), "".join(lines))
    guard = Guard.of(make_config(tmp_path), slurm)
    installed(tmp_path, slurm, guard)
    set_config(slurm, "SchedulerParameters", "bf_interval=1")
    found = [one.what for one in guard.check(slurm)]
    assert [text.split()[1] for text in found if "shares nodes" in text] == ["p1"]
    assert any("bf_licenses" in text for text in found)
    set_config(slurm, "SelectType", "select/linear")
    set_config(slurm, "SchedulerParameters", "bf_interval=1,bf_licenses")
    found = [one.what for one in guard.check(slurm)]
    assert not any("shares nodes" in text or "bf_licenses" in text for text in found)
    assert any("bf_one_resv_per_job" in text for text in found)
    set_config(slurm, "SchedulerParameters", "bf_interval=1,bf_licenses,bf_one_resv_per_job")
    assert not any("SchedulerParameters" in one.what for one in guard.check(slurm))


def test_the_option_by_which_jobs_take_over_nodes_is_named(tmp_path: Path) -> None:
    slurm = make_slurm()
    config = make_config(tmp_path, 'mode = "control"\n')
    guard = Guard.of(config, slurm)
    installed(tmp_path, slurm, guard)
    for parameters, named in (("bf_licenses,permit_job_expansion", True), ("bf_licenses", False)):
        set_config(slurm, "SchedulerParameters", parameters)
        found = [one for one in guard.check(slurm) if "permit_job_expansion" in one.what]
        assert [one.fatal for one in found] == [False] * named
        checks = [one for one in examine_live(config, slurm, lambda: 1e6) if "permit_job_expansion" in one.found]
        assert [one.state for one in checks] == ["part"] * named


def test_nodes_that_were_changed_since_the_installation_are_named(tmp_path: Path) -> None:
    """The script refuses jobs that no node could serve, by the nodes as they were."""
    slurm = make_slurm()
    guard = Guard.of(make_config(tmp_path), slurm)
    installed(tmp_path, slurm, guard)
    assert guard.settings.data.nodes["p1"].counts == (2,)
    slurm.texts["nodes"] = slurm.texts["nodes"].replace("64000", "128000", 1)
    found = Guard.of(make_config(tmp_path), slurm).check_data(slurm, time.time())
    assert [(one.what.split(":")[0], one.fatal) for one in found] == [("partition p1", False)]


def test_whole_nodes_are_known_in_the_words_of_each_release() -> None:
    """26.05 prints whole nodes as Exclusive=NODE, and OverSubscribe=NO for whole and for shared nodes."""
    lines = {
        "whole22": "ExclusiveUser=NO OverSubscribe=EXCLUSIVE", "shared22": "ExclusiveUser=YES OverSubscribe=NO",
        "whole26": "Exclusive=NODE OverSubscribe=NO", "shared26": "Exclusive=NO OverSubscribe=NO",
        "user26": "Exclusive=USER OverSubscribe=NO", "force26": "Exclusive=NO OverSubscribe=FORCE:2",
    }  # fmt: skip
    text = "".join(f"PartitionName={name} {fields} State=UP\n" for name, fields in lines.items())
    assert shared_partitions(with_partitions(make_slurm(), text), {}) == {
        "shared22": "OverSubscribe=NO",
        "shared26": "Exclusive=NO OverSubscribe=NO",
        "user26": "Exclusive=USER OverSubscribe=NO",
        "force26": "Exclusive=NO OverSubscribe=FORCE:2",
    }


def test_a_dry_run_shows_the_difference_and_writes_nothing(tmp_path: Path) -> None:
    settings = Guard.of(make_config(tmp_path), make_slurm()).settings
    folder = tmp_path / "etc"
    folder.mkdir()
    shown = changes(folder, settings, None)
    assert any(line.startswith("+local WHOLE_POOL_W") for line in shown)
    assert "+partition p1 200 200 2 yes" in shown
    assert settings.data_file is not None
    assert [*folder.iterdir(), *settings.data_file.parent.glob("*")] == []
    install(folder, settings, None)
    assert changes(folder, settings, None) == []
    difference = changes(folder, settings._replace(away_s=7), None)
    assert [line for line in difference if line[:1] in "+-" and line[:3] not in ("+++", "---")] == [
        f"-local AWAY_S = {settings.away_s}",
        "+local AWAY_S = 7",
    ]


@pytest.mark.parametrize("own", ["", "function slurm_job_submit() return 0 end\n"])
def test_what_was_installed_is_taken_out_again(tmp_path: Path, own: str) -> None:
    settings = Guard.of(make_config(tmp_path), make_slurm()).settings
    folder = tmp_path / "etc"
    folder.mkdir()
    if own:
        (folder / "job_submit.lua").write_text(own)
        assert changes(folder, settings, None)[0].startswith("rename ")
    install(folder, settings, tmp_path / "frequencies")
    assert settings.data_file is not None
    assert settings.data_file.exists()
    uninstall(folder, settings.data_file)
    assert not settings.data_file.exists()
    assert {path.name: path.read_text() for path in folder.iterdir()} == ({"job_submit.lua": own} if own else {})
    assert uninstall(folder, settings.data_file) == []


def test_doctor_examines_an_installation(tmp_path: Path) -> None:
    slurm = make_slurm()
    slurm.texts["pool"] = re.sub(r"Used=\d+", "Used=0", slurm.texts["pool"])
    config = make_config(tmp_path, 'mode = "control"\n')
    installed(tmp_path, slurm, Guard.of(config, slurm))
    found = {check.name: check for check in examine_live(config, slurm, lambda: 1e6)}
    assert found["heartbeat"].state == "no"
    assert found["pool"].state == "yes"
    assert found["partitions"].state == "yes"
    (config.run_dir / "beat").write_text("control 999990\n")
    slurm.texts["nodes"] = slurm.texts["nodes"].replace("n[1-2]", "n[1-3]")
    found = {check.name: check for check in examine_live(config, slurm, lambda: 1e6)}
    assert found["heartbeat"].state == "yes"
    assert found["partitions"].state == "part"
    (tmp_path / "job_submit.lua").write_text("return slurm.SUCCESS\n")
    found = {check.name: check for check in examine_live(config, slurm, lambda: 1e6) if check.state == "no"}
    assert "not WattQueue's" in found["installation"].found


def test_doctor_examines_the_data_file(tmp_path: Path) -> None:
    slurm = make_slurm()
    config = make_config(tmp_path, 'mode = "control"\n')
    settings = Guard.of(config, slurm).settings
    path = settings.data_file
    assert path is not None

    def found() -> list[tuple[str, str]]:
        checks = examine_live(config, slurm, lambda: 1e6 + 90.0)
        return [(one.state, one.found) for one in checks if one.name == "submit data"]

    assert [(state, "cannot be read" in text) for state, text in found()] == [("part", True)]
    path.parent.mkdir(mode=0o711)
    write_data(path, settings.data, 1e6)
    assert found() == [("yes", "version 1, 90 s old, as it would be written now")]
    path.write_text(path.read_text().replace("wattqueue-submit 1", "wattqueue-submit 2"))
    assert [(state, "version 2" in text) for state, text in found()] == [("part", True)]
    low = {**settings.data.nodes, "p1": settings.data.nodes["p1"]._replace(watts=199)}
    write_data(path, settings.data._replace(nodes=low), 1e6)
    assert [state for state, _ in found()] == ["no", "part"]
    write_data(path, settings.data, 1e6)
    path.chmod(0o600)
    set_config(slurm, "SlurmUser", "slurm(64030)")
    assert [state for state, _ in found()] == ["part"]


SHARED = '[slurm]\nshared = ["p2"]\n'


def test_shared_nodes_leave_the_pool_and_their_jobs_carry_no_watts(tmp_path: Path) -> None:
    """Of 1,000 W come off 200 W of p1's idle nodes and 2 x 250 W; without sharing 600 W are left, p1 draws 400 W."""
    guard = Guard.of(make_config(tmp_path, SHARED), make_slurm("debug n1,m1"))
    assert (set(guard.settings.data.nodes), guard.settings.data.free) == ({"p1", "debug"}, ["p2"])
    assert guard.settings.whole_pool_w == 300
    assert not guard.settings.data.nodes["debug"].held
    assert guard.shared_lines() == ["2 shared nodes (p2) count 500 W, whatever runs there"]
    assert Guard.of(make_config(tmp_path), make_slurm()).shared_lines() == []
    half = Guard.of(make_config(tmp_path, SHARED), make_slurm()).settings
    assert "free p2\n" in body_of(half.data)


def test_a_percentage_is_of_shared_nodes_too(tmp_path: Path) -> None:
    config = make_config(tmp_path, SHARED).model_copy(update={"cap": "90%"})
    assert Guard.of(config, make_slurm()).settings.whole_pool_w == round(0.9 * 1100 - 500 - 200)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[slurm]\nshared = ["p3"]\n', "slurm.shared"),
        ('[slurm]\nshared = ["p2"]\nonly = ["p1", "p2"]\n', "slurm.shared"),
        ('[slurm]\nshared = ["p1", "p2"]\n', "slurm.shared"),
    ],
)
def test_a_wrong_list_of_shared_partitions_is_refused(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        Guard.of(make_config(tmp_path, text), make_slurm())
    assert caught.value.where == where


def test_a_node_that_is_shared_and_managed_is_refused(tmp_path: Path) -> None:
    slurm = make_slurm()
    slurm.texts["nodes"] = slurm.texts["nodes"].replace("m[1-2]", "m[1-2],n2")
    config = make_config(tmp_path, 'mode = "control"\n' + SHARED)
    with pytest.raises(MachineError) as caught:
        Guard.of(config, slurm)
    assert caught.value.where == "slurm.shared"
    guard = Guard.of(make_config(tmp_path, SHARED), make_slurm())
    installed(tmp_path, slurm, guard)
    with pytest.raises(MachineError):
        assemble(config, SlurmCluster(slurm))


def test_a_partition_is_shared_in_data_file_and_configuration_alike(tmp_path: Path) -> None:
    """Jobs without watts on managed nodes end a controller; jobs that wait for nobody are reported."""
    plain = Guard.of(make_config(tmp_path), make_slurm()).settings
    shared = Guard.of(make_config(tmp_path, SHARED), make_slurm()).settings
    path = tmp_path / "submit.data"
    write_data(path, shared.data, 1e6)
    assert any("p2" in one.what and one.fatal for one in findings(path, plain.data, 1e6))
    assert findings(path, shared.data, 1e6) == []
    write_data(path, plain.data, 1e6)
    assert {one.fatal for one in findings(path, shared.data, 1e6) if "p2" in one.what} == {False}


def test_doctor_says_what_shared_nodes_count(tmp_path: Path) -> None:
    slurm = make_slurm()
    config = make_config(tmp_path, 'mode = "control"\n' + SHARED)
    installed(tmp_path, slurm, Guard.of(config, slurm))
    found = {check.name: check for check in examine_live(config, slurm, lambda: 1e6)}
    assert found["shared nodes"].found == "2 shared nodes (p2) count 500 W, whatever runs there"
    assert found["partitions"].state == "yes"
    slurm.texts["nodes"] = slurm.texts["nodes"].replace("m[1-2]", "m[1-3]")
    found = {check.name: check for check in examine_live(config, slurm, lambda: 1e6)}
    assert "shared partition p2 has 3 nodes, the machine file 2" in found["partitions"].found
