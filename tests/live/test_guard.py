"""What is installed against what is configured: each difference is named, and the dangerous ones end a controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.fakeslurm import FakeSlurm
from wattqueue.errors import InputError
from wattqueue.live.assemble import assemble
from wattqueue.live.config import LiveConfig, load_config
from wattqueue.live.guard import Guard, fatal, missing_watts
from wattqueue.live.home import home_of
from wattqueue.live.slurm.install import NodeWatts, differences, install, script
from wattqueue.live.slurm.observe import Observer

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


def make_slurm(**more: list[str]) -> FakeSlurm:
    return FakeSlurm({"p1": ["n1", "n2"], "p2": ["m1", "m2"], **more}, 700)


def make_config(folder: Path, text: str = "") -> LiveConfig:
    (folder / "m.toml").write_text(MACHINE)
    (folder / "live.toml").write_text(f'machine = "m.toml"\ncap = "1000W"\n{text}')
    return load_config(folder / "live.toml")


def installed(folder: Path, slurm: FakeSlurm, guard: Guard) -> None:
    """Install, and let the fake's slurm.conf lie there."""
    install(folder, guard.settings, None)
    slurm.config["SLURM_CONF"] = str(folder / "slurm.conf")


def test_partitions_that_the_machine_file_does_not_name(tmp_path: Path) -> None:
    slurm = make_slurm(debug=["n1", "m1"], login=["l1"])
    guard = Guard.of(make_config(tmp_path), slurm)
    nodes = guard.settings.nodes
    assert {name: (node.watts, node.held) for name, node in nodes.items()} == {
        "p1": (200, True),
        "p2": (150, True),
        "debug": (200, False),
    }
    assert list(guard.settings.free) == ["login"]
    found = guard.inspect(Observer(slurm, lambda: 1e6).snapshot().nodes)
    assert len(found) == 1
    assert "debug" in found[0]


def test_a_node_that_moved_is_reported_in_the_next_round(tmp_path: Path) -> None:
    slurm = make_slurm()
    guard = Guard.of(make_config(tmp_path), slurm)
    observer = Observer(slurm, lambda: 1e6)
    assert guard.inspect(observer.snapshot().nodes) == []
    slurm.partitions["p1"].append("n3")
    assert ["p1" in text for text in guard.inspect(observer.snapshot().nodes)] == [True]


def test_what_was_just_installed_fits(tmp_path: Path) -> None:
    slurm = make_slurm()
    guard = Guard.of(make_config(tmp_path), slurm)
    installed(tmp_path, slurm, guard)
    assert fatal(guard.check(slurm)) == []


@pytest.mark.parametrize(
    ("change", "dangerous"),
    [
        ({"operators": [12345]}, True),
        ({"beat": Path("/elsewhere/beat")}, True),
        ({"nodes": {"p1": NodeWatts(199, 199, 16), "p2": NodeWatts(150, 150, 16)}}, True),
        ({"nodes": {"p1": NodeWatts(200, 200, 16)}}, True),
        ({"whole_pool_w": 1}, False),
        ({"away_s": 7}, False),
    ],
)
def test_each_difference_is_found(tmp_path: Path, change: dict[str, object], dangerous: bool) -> None:
    settings = Guard.of(make_config(tmp_path), make_slurm()).settings._replace(operators=[54321])
    assert differences(script(settings), settings) == []
    other = settings._replace(**change)  # type: ignore[arg-type]
    found = differences(script(other), settings)
    assert [one.fatal for one in found] == [dangerous]


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
        assemble(config, slurm)
    assert caught.value.where == "job_submit.lua"
    assert "install" in str(caught.value.hint)
    assert not config.run_dir.exists(), "nothing was claimed"


@pytest.mark.parametrize(("requeue", "named"), [("1", True), ("0", False)])
def test_a_release_that_loses_licences_is_named(tmp_path: Path, requeue: str, named: bool) -> None:
    slurm = make_slurm()
    slurm.version, slurm.config["JobRequeue"] = "25.05.8", requeue
    found = Guard.of(make_config(tmp_path), slurm).check(slurm, tmp_path)
    assert any("25.05.8" in one.what for one in found) == named


def test_jobs_from_before_the_installation_get_watts(tmp_path: Path) -> None:
    slurm = make_slurm()
    slurm.hold_new = False
    guard = Guard.of(make_config(tmp_path), slurm)
    slurm.submit(2, 50.0, watts=0, licences={}, partition="p2")
    slurm.step()
    slurm.submit(1, 50.0, watts=0, licences={}, partition="p2", most_nodes=2)
    writes = missing_watts(Observer(slurm, lambda: slurm.now_s).snapshot(), guard.layout, guard.settings)
    assert [write.argv[2:] for write in writes] == [
        ("JobId=1", "Licenses=watts:300"),
        ("JobId=2", "NumNodes=2-2", "Licenses=watts:300"),
    ]
    for write in writes:
        assert slurm.run(write.argv).code == 0
    assert missing_watts(Observer(slurm, lambda: slurm.now_s).snapshot(), guard.layout, guard.settings) == []


def test_a_service_keeps_its_files_where_its_unit_may_write(tmp_path: Path) -> None:
    assert home_of(Path("/etc/wattqueue")) == Path("/var/lib/wattqueue")
    assert home_of(tmp_path) == tmp_path
