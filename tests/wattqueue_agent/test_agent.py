"""The agent of a node: what it sets, what it refuses, what it restores. No broker: messages are handed over."""

from __future__ import annotations

import json
import math
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live.slurmlab import wait_for
from tests.wattqueue_agent.powercap_tree import RANGE_UJ, PowercapTree
from wattqueue.errors import InputError
from wattqueue.live.agents import AgentLink, AgentState, BrokerSection, Desired
from wattqueue.live.limits_guard.messages import MOST_BYTES, Arrived
from wattqueue_agent.agent import Agent, within
from wattqueue_agent.config import load_agent_config
from wattqueue_agent.hardware import GpuLimit, find_limits, gpu_limits
from wattqueue_agent.keeper import Keeper, start_keeper
from wattqueue_agent.limits import Bounds, LimitError
from wattqueue_agent.originals import FILE, Originals, restore_from
from wattqueue_agent.run import follow, only_agent, report

NOW_S = 1_000_000.0
ALLOWED = Bounds(60.0, 140.0)


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    return PowercapTree(tmp_path / "powercap", [120.0, 100.0])


def agent_of(tree: PowercapTree, folder: Path, only: str = "package") -> Agent:
    state = folder / "state"
    state.mkdir(exist_ok=True)
    limits = find_limits(tree.root, folder / "cpufreq", gpus=False)
    originals = Originals(state, tree.root, folder / "cpufreq", gpus=False)
    return Agent("n1", "one", limits, lambda name: ALLOWED if name.startswith(only) else None, originals)


@pytest.fixture
def agent(tree: PowercapTree, tmp_path: Path) -> Agent:
    return agent_of(tree, tmp_path)


def desired(number: int = 1, *, node: str = "n1", hold_s: float = 30.0, **limits: float) -> bytes:
    named = {name.replace("_", "-"): value for name, value in limits.items()}
    return Desired(node=node, number=number, expires_s=NOW_S + hold_s, limits=named).text()


def test_limits_are_set_read_back_and_stated(agent: Agent, tree: PowercapTree) -> None:
    agent.receive(desired(package_0=80.0, package_1=100.0), NOW_S)
    state = agent.step(NOW_S, 0.0)
    assert tree.limits_w() == [80.0, 100.0]
    assert state.limits == {"package-0": 80.0, "package-1": 100.0}
    assert (state.low["package-0"], state.high["package-0"]) == ALLOWED
    assert (state.number, state.counts, state.problems) == (1, {}, ())
    assert AgentState.parse(state.text()) == state


def test_a_limit_that_is_not_named_any_more_gets_back_what_it_was(agent: Agent, tree: PowercapTree) -> None:
    agent.receive(desired(1, package_0=80.0, package_1=90.0), NOW_S)
    agent.receive(desired(2, package_0=80.0), NOW_S)
    assert tree.limits_w() == [80.0, 150.0]


@pytest.mark.parametrize("low_first", [True, False])
def test_what_is_lowered_is_lowered_before_anything_is_raised(
    agent: Agent, tree: PowercapTree, monkeypatch: pytest.MonkeyPatch, low_first: bool
) -> None:
    first, second = (70.0, 130.0) if low_first else (130.0, 70.0)
    agent.receive(desired(1, package_0=first, package_1=second), NOW_S)
    sums = []
    write = Path.write_text

    def watched(path: Path, text: str, *arguments: Any, **options: Any) -> int:
        written = write(path, text, *arguments, **options)
        if path.name == "constraint_0_power_limit_uw":
            sums.append(sum(tree.limits_w()))
        return written

    monkeypatch.setattr(Path, "write_text", watched)
    agent.receive(desired(2, package_0=second, package_1=first), NOW_S)
    assert len(sums) == 2
    assert max(sums) <= 200.0
    assert tree.limits_w() == [second, first]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"{", "unreadable message"),
        (b"\xff\xfe", "unreadable message"),
        (b"[]", "unreadable message"),
        (b" " * (MOST_BYTES + 1), "unreadable message"),
        (desired(5, package_0=80.0).replace(b"80.0", b"NaN"), "unreadable message"),
        (desired(5, package_0=80.0).replace(b"80.0", b"1e999"), "unreadable message"),
        (desired(5, package_0=80.0).replace(b'"version":1', b'"version":2'), "unreadable message"),
        (desired(5, package_0=80.0).replace(b'"number":5', b'"number":-5'), "unreadable message"),
        (desired(5, node="n2", package_0=80.0), "message for another node"),
        (desired(1, package_0=80.0), "message older than the one before"),
        (desired(5, hold_s=0.0, package_0=80.0), "message expired"),
        (desired(5, hold_s=1e6, package_0=80.0), "message that holds for more than 3600 s"),
    ],
)
def test_a_message_that_cannot_be_trusted_changes_nothing_and_is_counted(
    agent: Agent, tree: PowercapTree, text: bytes, kind: str
) -> None:
    agent.receive(desired(2, package_0=100.0, package_1=100.0), NOW_S)
    agent.receive(text, NOW_S)
    state = agent.step(NOW_S, 0.0)
    assert state.counts == {kind: 1}
    assert any(kind in problem for problem in state.problems)
    assert (tree.limits_w(), state.number) == ([100.0, 100.0], 2)


@pytest.mark.parametrize(
    ("value", "kind", "found_w"),
    [
        (166.0, "limit not set", 150.0),
        (0.5, "limit not set", 150.0),
        (-5.0, "limit not set", 150.0),
        (160.0, "limit outside the site's range", 140.0),
        (20.0, "limit outside the site's range", 60.0),
    ],
)
def test_a_value_outside_a_range(agent: Agent, tree: PowercapTree, value: float, kind: str, found_w: float) -> None:
    """The hardware's range refuses one limit, the site's range corrects it; the other limit is set."""
    agent.receive(desired(package_0=value, package_1=90.0), NOW_S)
    assert agent.step(NOW_S, 0.0).counts == {kind: 1}
    assert tree.limits_w() == [found_w, 90.0]


def test_limits_that_are_unknown_or_not_allowed_are_left_alone(tree: PowercapTree, tmp_path: Path) -> None:
    agent = agent_of(tree, tmp_path, only="package-0")
    agent.receive(desired(package_0=90.0, package_1=90.0, package_7=90.0), NOW_S)
    assert agent.step(NOW_S, 0.0).counts == {"limit not allowed": 1, "unknown limit": 1}
    assert tree.limits_w() == [90.0, 150.0]


@given(st.lists(st.floats(-50.0, 400.0), min_size=1, max_size=20))
def test_no_message_brings_a_limit_out_of_its_range(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    folder = tmp_path_factory.mktemp("agent")
    tree = PowercapTree(folder / "powercap", [120.0, 100.0])
    agent = agent_of(tree, folder)
    for number, value in enumerate(values, 1):
        agent.receive(desired(number, package_0=value, package_1=values[0]), NOW_S)
        assert all(limit == 150.0 or ALLOWED.low <= limit <= ALLOWED.high for limit in tree.limits_w())


def test_limits_expire(agent: Agent, tree: PowercapTree) -> None:
    agent.receive(desired(1, hold_s=10.0, package_0=80.0), NOW_S)
    assert agent.step(NOW_S + 9.9, 0.0).number == 1
    state = agent.step(NOW_S + 10.0, 1.0)
    assert (state.number, state.counts) == (0, {"expired limits": 1})
    assert tree.limits_w() == [150.0, 150.0]
    agent.receive(desired(1, hold_s=10.0, package_0=80.0), NOW_S + 10.0)  # the broker's copy comes once more
    assert tree.limits_w() == [150.0, 150.0]


def test_what_another_program_changes_is_set_again(agent: Agent, tree: PowercapTree) -> None:
    agent.receive(desired(package_0=80.0), NOW_S)
    (tree.zone(0) / "constraint_0_power_limit_uw").write_text("165000000")
    assert agent.step(NOW_S, 0.0).counts == {"limit changed by another program": 1}
    assert tree.limits_w()[0] == 80.0


@pytest.mark.parametrize(
    ("found_w", "kind"),
    [
        (80.0, None), (80.79, None), (79.21, None),
        (80.81, "limit changed by another program"), (79.19, "limit changed by another program"),
    ],
)  # fmt: skip
def test_a_limit_is_in_force_within_a_hundredth(
    agent: Agent, tree: PowercapTree, found_w: float, kind: str | None
) -> None:
    """Hardware rounds."""
    agent.receive(desired(package_0=80.0), NOW_S)
    (tree.zone(0) / "constraint_0_power_limit_uw").write_text(f"{round(found_w * 1e6)}")
    assert agent.step(NOW_S, 0.0).counts == ({kind: 1} if kind else {})
    assert tree.limits_w()[0] == (80.0 if kind else found_w)


@pytest.mark.parametrize(("factor", "taken"), [(1.009, True), (0.991, True), (1.011, False), (0.989, False)])
def test_a_limit_that_hardware_rounds_is_taken(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, factor: float, taken: bool
) -> None:
    monkeypatch.setattr(
        "wattqueue_agent.hardware.write_number", lambda path, value: path.write_text(f"{round(factor * value)}")
    )
    agent.receive(desired(package_0=80.0), NOW_S)
    assert agent.counts == ({} if taken else {"limit not taken": 1})


@pytest.mark.parametrize(("hold_s", "taken"), [(0.0, False), (0.001, True), (3600.0, True), (3600.001, False)])
def test_a_message_holds_for_an_hour_at_most(agent: Agent, tree: PowercapTree, hold_s: float, taken: bool) -> None:
    agent.receive(desired(hold_s=hold_s, package_0=80.0), NOW_S)
    assert tree.limits_w()[0] == (80.0 if taken else 150.0)


@pytest.mark.parametrize(
    ("hardware", "allowed", "both"),
    [((60, 140), (80, 100), (80, 100)), ((60, 140), (50, 150), (60, 140)), ((60, 140), (60, 140), (60, 140)),
     ((60, 140), (150, 160), (140, 140)), ((60, 140), (10, 20), (60, 60))],
)  # fmt: skip
def test_the_range_that_hardware_and_site_allow(
    hardware: tuple[int, int], allowed: tuple[int, int], both: tuple[int, int]
) -> None:
    assert within(Bounds(*hardware), Bounds(*allowed)) == both


def test_a_limit_that_the_hardware_does_not_take_is_reported(
    agent: Agent, tree: PowercapTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package whose limit is locked by the firmware takes the write and stays as it is."""
    monkeypatch.setattr("wattqueue_agent.hardware.write_number", lambda *_: None)
    agent.receive(desired(package_0=80.0), NOW_S)
    state = agent.state(NOW_S, 0.0)
    assert state.counts == {"limit not taken": 1}
    assert state.limits["package-0"] == tree.limits_w()[0] == 150.0


def test_an_agent_after_one_that_was_killed_keeps_its_lease(agent: Agent, tree: PowercapTree, tmp_path: Path) -> None:
    agent.receive(desired(7, package_0=80.0, package_1=70.0), NOW_S)
    later = agent_of(tree, tmp_path)
    later.resume(NOW_S + 29.0)
    assert tree.limits_w() == [80.0, 70.0]
    later.receive(desired(6, package_0=140.0, package_1=140.0), NOW_S + 29.0)  # a late one of before
    state = later.step(NOW_S + 29.0, 0.0)
    assert (state.number, state.counts) == (7, {"resumed at start": 1, "message older than the one before": 1})
    assert later.step(NOW_S + 30.0, 1.0).number == 0
    assert tree.limits_w() == [150.0, 150.0]


def test_nobody_else_may_read_or_write_what_is_to_be_restored(agent: Agent, tmp_path: Path) -> None:
    agent.receive(desired(package_0=80.0), NOW_S)
    assert (tmp_path / "state" / FILE).stat().st_mode & 0o777 == 0o600


def test_an_agent_that_may_not_set_a_limit_any_more_restores_it(
    agent: Agent, tree: PowercapTree, tmp_path: Path
) -> None:
    agent.receive(desired(package_0=80.0, package_1=70.0), NOW_S)
    later = agent_of(tree, tmp_path, only="package-1")
    later.resume(NOW_S + 1.0)
    assert tree.limits_w() == [150.0, 70.0]


def test_an_agent_after_a_lease_restores_what_the_one_before_found(
    agent: Agent, tree: PowercapTree, tmp_path: Path
) -> None:
    agent.receive(desired(package_0=80.0, package_1=70.0), NOW_S)
    later = agent_of(tree, tmp_path)
    later.resume(NOW_S + 30.0)
    assert tree.limits_w() == [150.0, 150.0]
    assert later.counts == {"restored at start": 1}
    assert not (tmp_path / "state" / FILE).exists()


def test_what_an_earlier_boot_left_is_ignored(agent: Agent, tree: PowercapTree, tmp_path: Path) -> None:
    agent.receive(desired(package_0=80.0), NOW_S)
    path = tmp_path / "state" / FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "another"}))
    assert restore_from(tmp_path / "state") == []
    assert tree.limits_w()[0] == 80.0


def test_restoring_without_an_agent(agent: Agent, tree: PowercapTree, tmp_path: Path) -> None:
    agent.receive(desired(package_0=80.0, package_1=70.0), NOW_S)
    argv = [sys.executable, "-c", "from wattqueue.cli import main; main()", "agent", "restore", "--state-dir"]
    done = subprocess.run([*argv, tmp_path / "state"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert tree.limits_w() == [150.0, 150.0]


@pytest.mark.parametrize(
    "change",
    [
        b"\xff", b"{", b"[]", b'{"lease": true}', b'{"values": {"package-0": "x"}}', b'{"powercap": 5}',
        b'{"values": {"package-0": 80}}', b'{"lease": {"number": 1}}', b'{"values": {"package-0": 1e999}}',
    ],
)  # fmt: skip
def test_a_file_of_limits_that_cannot_be_read_is_said(tmp_path: Path, change: bytes) -> None:
    assert restore_from(tmp_path) == []
    if change.startswith(b'{"'):
        whole = {"boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(), **json.loads(change)}
        change = json.dumps(whole).encode()
    (tmp_path / FILE).write_bytes(change)
    (problem,) = restore_from(tmp_path)
    assert problem.startswith(str(tmp_path / FILE))


def test_a_file_without_limits_has_nothing_to_restore(tmp_path: Path) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (tmp_path / FILE).write_text(json.dumps({"boot": boot, "owner": "one"}))
    assert restore_from(tmp_path) == []


def test_what_cannot_be_restored_is_said(agent: Agent, tree: PowercapTree, tmp_path: Path) -> None:
    agent.receive(desired(package_0=80.0, package_1=70.0), NOW_S)
    for path in tree.zone(1).iterdir():
        path.unlink()
    problems = restore_from(tmp_path / "state")
    assert len(problems) == 1
    assert "package-1" in problems[0]
    assert tree.root.joinpath("intel-rapl:0/constraint_0_power_limit_uw").read_text() == "150000000"
    assert (tmp_path / "state" / FILE).exists(), "what is left can be tried once more"


def put(tree: PowercapTree, text: str) -> None:
    (tree.zone(0) / "energy_uj").write_text(text)


def test_watts_of_packages(agent: Agent, tree: PowercapTree) -> None:
    assert agent.step(NOW_S, 0.0).power_w == {}
    tree.run(2.0)
    assert agent.step(NOW_S, 2.0).power_w == pytest.approx({"package-0": 120.0, "package-1": 100.0})
    agent.receive(desired(package_0=80.0), NOW_S)
    tree.run(1.0)
    assert agent.step(NOW_S, 3.0).power_w == pytest.approx({"package-0": 80.0, "package-1": 100.0})


def test_two_reads_at_one_instant_give_no_second_reading(agent: Agent, tree: PowercapTree) -> None:
    """Time that does not pass makes no watts; the reading after counts from the first of them."""
    agent.step(NOW_S, 0.0)
    tree.run(1.0)
    assert agent.step(NOW_S, 0.0).power_w == {}
    tree.run(1.0)
    state = agent.step(NOW_S, 2.0)
    assert state.power_w == pytest.approx({"package-0": 120.0, "package-1": 100.0})
    assert state.problems == ()


def test_a_counter_that_wraps(agent: Agent, tree: PowercapTree) -> None:
    tree.energy_j[0] = (RANGE_UJ - 10_000_000) / 1e6
    tree.run(0.0)
    agent.step(NOW_S, 0.0)
    tree.run(1.0)
    assert agent.step(NOW_S, 1.0).power_w["package-0"] == pytest.approx(120.0, abs=0.01)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("200000000", 1.0), ("nan", 1.0), ("", 1.0), ("-", 1.0), ("300000000", 1e6), ("-5000000", 1.0), ("0", 1.0)],
    ids=["stands still", "not a number", "empty", "a sign", "may have wrapped twice", "negative", "set back"],
)
def test_a_reading_in_doubt_is_none(agent: Agent, tree: PowercapTree, text: str, seconds: float) -> None:
    agent.step(NOW_S, 0.0)
    tree.run(1.0)
    put(tree, text)
    state = agent.step(NOW_S, seconds)
    assert "package-0" not in state.power_w
    assert any("package-0" in problem for problem in state.problems)
    assert state.metered == ("package-0", "package-1")


def test_a_zone_that_is_disabled_is_refused(tree: PowercapTree, tmp_path: Path) -> None:
    (tree.zone(0) / "enabled").write_text("0")
    with pytest.raises(LimitError, match="disabled"):
        find_limits(tree.root, tmp_path, gpus=False)


def test_only_packages_with_a_long_term_limit_are_found(tree: PowercapTree, tmp_path: Path) -> None:
    (tree.zone(0) / "constraint_0_name").write_text("peak_power")
    for name, title in (("intel-rapl:1:0", "package-1-core"), ("intel-rapl:2", "psys"), ("intel-rapl", "package-9")):
        shutil.copytree(tree.zone(1), tree.root / name)
        (tree.root / name / "name").write_text(title)
    assert list(find_limits(tree.root, tmp_path, gpus=False)) == ["package-1"]


def test_the_range_that_the_kernel_states(tree: PowercapTree, tmp_path: Path) -> None:
    (tree.zone(0) / "constraint_0_min_power_uw").write_text("55000000")
    limits = find_limits(tree.root, tmp_path, gpus=False)
    assert [limit.range() for limit in limits.values()] == [Bounds(55.0, 165.0), Bounds(1.0, 165.0)]


def test_without_a_largest_value_the_one_found_is_the_largest(tree: PowercapTree, tmp_path: Path) -> None:
    (tree.zone(0) / "constraint_0_max_power_uw").write_text("0")
    (tree.zone(1) / "constraint_0_max_power_uw").unlink()
    limits = find_limits(tree.root, tmp_path, gpus=False)
    assert [limit.range() for limit in limits.values()] == [Bounds(1.0, 150.0)] * 2


def test_frequencies(tree: PowercapTree, tmp_path: Path) -> None:
    policy = tmp_path / "cpufreq" / "policy0"
    policy.mkdir(parents=True)
    for name, khz in (
        ("scaling_max_freq", 2_800_000),
        ("cpuinfo_min_freq", 1_000_000),
        ("cpuinfo_max_freq", 2_800_000),
    ):
        (policy / name).write_text(f"{khz}\n")
    limits = find_limits(tree.root, tmp_path / "cpufreq", gpus=False)
    originals = Originals(tmp_path, tree.root, tmp_path / "cpufreq", gpus=False)
    agent = Agent("n1", "one", limits, lambda _: Bounds(1.2e9, 2.8e9), originals)
    agent.receive(desired(policy0=2.2e9), NOW_S)
    assert (policy / "scaling_max_freq").read_text() == "2200000"
    agent.receive(desired(2, policy0=1.0e9), NOW_S)
    assert (policy / "scaling_max_freq").read_text() == "1200000"
    agent.restore()
    assert (policy / "scaling_max_freq").read_text() == "2800000"


class Library:
    """What is used of NVML, for one GPU that is in memory; ``fails`` makes each call fail."""

    class NVMLError(Exception):
        """An error of NVML."""

    def __init__(self) -> None:
        self.limit_mw, self.usage_mw, self.fails = 300_000, 250_000.0, False
        self.energy_mj: int | None = None

    def nvmlDeviceGetPowerManagementLimitConstraints(self, _handle: object) -> tuple[int, int]:  # noqa: N802
        return 100_000, 300_000

    def nvmlDeviceGetPowerManagementLimit(self, _handle: object) -> int:  # noqa: N802
        if self.fails:
            raise self.NVMLError("GPU is lost")
        return self.limit_mw

    def nvmlDeviceSetPowerManagementLimit(self, _handle: object, value: int) -> None:  # noqa: N802
        self.limit_mw = value

    def nvmlDeviceGetPowerUsage(self, _handle: object) -> float:  # noqa: N802
        return self.usage_mw

    def nvmlDeviceGetTotalEnergyConsumption(self, _handle: object) -> int:  # noqa: N802
        if self.energy_mj is None:
            raise self.NVMLError("Not Supported")
        return self.energy_mj


def agent_of_gpu(library: Any, folder: Path) -> Agent:
    gpu = GpuLimit("gpu-1", library, object())
    return Agent("n1", "one", {"gpu-1": gpu}, lambda _: Bounds(100.0, 300.0), Originals(folder, folder, folder, True))


def test_a_gpu(tmp_path: Path) -> None:
    """There is no GPU where this runs: the calls are those of nvidia-ml-py, and their units are milliwatts."""
    library: Any = Library()
    agent = agent_of_gpu(library, tmp_path)
    agent.receive(desired(gpu_1=150.0), NOW_S)
    assert library.limit_mw == 150_000
    assert agent.step(NOW_S, 0.0).power_w == {"gpu-1": 250.0}
    library.fails = True
    state = agent.step(NOW_S, 1.0)
    assert state.counts == {"limit not readable": 1}
    assert any("GPU is lost" in text for text in state.problems)


@pytest.mark.parametrize("usage_mw", [math.nan, math.inf, 0.0, -5e3])
def test_a_gpu_that_reads_no_watts_has_no_reading(tmp_path: Path, usage_mw: float) -> None:
    library = Library()
    library.usage_mw = usage_mw
    state = agent_of_gpu(library, tmp_path).step(NOW_S, 0.0)
    assert state.power_w == {}
    assert state.problems == (f"gpu-1: reads {usage_mw / 1e3} W",)
    assert state.metered == ("gpu-1",)


def test_a_gpu_that_sleeps_reads_less_than_a_watt(tmp_path: Path) -> None:
    library = Library()
    library.usage_mw = 400.0
    assert agent_of_gpu(library, tmp_path).step(NOW_S, 0.0).power_w == {"gpu-1": 0.4}


@pytest.mark.parametrize(
    ("later_s", "later_mj", "watts"),
    [
        (10.0, 1_000_000 + 1_800_000, 180.0),  # on average, whatever the last second was like
        (1.0, 1_000_000 + 180_000, 250.0),  # a counter with steps of 0.1 s says too little of a second
        (10.0, 5_000, 250.0),  # the driver was loaded again
        (10.0, 1_000_000, 250.0),  # it stands still
        (10.0, None, 250.0),
        (-1.0, 2_000_000, 250.0),
    ],
)
def test_a_gpu_that_is_read_seldom_draws_what_its_energy_says(
    tmp_path: Path, later_s: float, later_mj: int | None, watts: float
) -> None:
    library = Library()
    agent, library.energy_mj = agent_of_gpu(library, tmp_path), 1_000_000
    assert agent.step(NOW_S, 0.0).power_w == {"gpu-1": 250.0}
    library.energy_mj = later_mj
    assert agent.step(NOW_S, later_s).power_w == {"gpu-1": watts}


def test_no_driver_means_no_gpu() -> None:
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("there is an NVIDIA driver here")
    assert gpu_limits() == []


HANGS = """
import sys, time
from pathlib import Path
from wattqueue_agent.keeper import Keeper, start_keeper
keeper = Keeper(Path(sys.argv[1]), 1.0, "one")
keeper.beat()
print(flush=True)
while True:
    keeper.beat()
    time.sleep(0.1)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_the_keeper_restores_when_the_agent_is_killed_or_stopped(
    agent: Agent, tree: PowercapTree, tmp_path: Path, number: signal.Signals
) -> None:
    agent.receive(desired(package_0=80.0, package_1=70.0), NOW_S)
    with subprocess.Popen([sys.executable, "-c", HANGS, str(tmp_path / "state")], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(1.5)
            assert tree.limits_w() == [80.0, 70.0], "as long as the agent works nothing is restored"
            process.send_signal(number)
            wait_for("limits restored", lambda: tree.limits_w() == [150.0, 150.0])
        finally:
            process.kill()


def lease(agent: Agent, seconds: float) -> None:
    """Have an agent hold limits for so long from now on, by the real clock."""
    limits = {"package-0": 80.0, "package-1": 70.0}
    message = Desired(node="n1", number=1, expires_s=time.time() + seconds, limits=limits)
    agent.receive(message.text(), time.time())


@pytest.mark.parametrize("by_hand", [False, True], ids=["keeper", "ExecStopPost"])
def test_the_lease_of_an_agent_that_was_killed_is_kept_to_its_end(
    agent: Agent, tree: PowercapTree, tmp_path: Path, by_hand: bool
) -> None:
    """By the keeper; where that one was killed, too, by the command of the unit."""
    begin = time.monotonic()
    lease(agent, 3.0)
    if by_hand:
        argv = [sys.executable, "-c", "from wattqueue.cli import main; main()", "agent", "restore", "--when-expired"]
        subprocess.run([*argv, "--state-dir", tmp_path / "state"], check=True, timeout=180)
    else:
        keeper = start_keeper(tmp_path / "state", 30.0, "one", subprocess.PIPE)
        assert keeper.stdin is not None
        keeper.stdin.close()
    if time.monotonic() - begin < 2.0:
        assert tree.limits_w() == [80.0, 70.0]
    wait_for("limits restored", lambda: tree.limits_w() == [150.0, 150.0])
    assert time.monotonic() - begin > 2.5
    if not by_hand:
        keeper.wait(180)


def test_the_keeper_of_an_agent_that_was_killed_leaves_the_next_one_alone(
    agent: Agent, tree: PowercapTree, tmp_path: Path
) -> None:
    lease(agent, 60.0)
    first = start_keeper(tmp_path / "state", 30.0, "one", subprocess.PIPE)
    later = replace(agent_of(tree, tmp_path), instance="two")
    later.resume(time.time())
    assert first.stdin is not None
    first.stdin.close()
    assert first.wait(180) == 0
    assert tree.limits_w() == [80.0, 70.0]


def test_a_keeper_that_is_killed_is_replaced(agent: Agent, tree: PowercapTree, tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "state", 30.0, "one")
    agent.receive(desired(package_0=80.0), NOW_S)
    assert not keeper.beat()
    assert keeper.beat()
    first = keeper._process
    assert first is not None
    first.kill()
    first.wait()
    assert not keeper.beat()
    agent.set_again(NOW_S)
    assert tree.limits_w() == [80.0, 150.0]
    assert keeper.restarts == 1
    keeper.end()
    assert tree.limits_w() == [80.0, 150.0], "an agent that ends in order restores by itself"
    agent.restore()
    assert tree.limits_w() == [150.0, 150.0]


def test_a_keeper_survives_the_signals_that_end_its_group(agent: Agent, tree: PowercapTree, tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "state", 30.0, "one")
    agent.receive(desired(package_0=80.0), NOW_S)
    keeper.beat()
    process = keeper._process
    assert process is not None
    assert process.stdin is not None
    wait_for("signals ignored", lambda: bool(int(signal_mask(process.pid), 16) & (1 << (signal.SIGTERM - 1))))
    os.kill(process.pid, signal.SIGTERM)
    process.stdin.close()
    assert process.wait(180) == 0
    assert tree.limits_w() == [150.0, 150.0]


def signal_mask(pid: int) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("SigIgn"))


class Flooded:
    """A connection on which more messages wait than can be read between two steps."""

    problem = ""

    def __init__(self) -> None:
        self.arrived: queue.SimpleQueue[Arrived] = queue.SimpleQueue()
        self.sent: list[bytes] = []
        for _ in range(200_000):
            self.arrived.put(Arrived("n1", b"{"))

    def send(self, _topic: str, text: bytes) -> None:
        self.sent.append(text)


def test_a_flood_of_messages_puts_off_no_reading(agent: Agent, tmp_path: Path) -> None:
    flooded: Any = Flooded()
    keeper = Keeper(tmp_path / "state", 30.0, "one")
    follow(agent, keeper, flooded, 0.05, 3)
    keeper.end()
    assert len(flooded.sent) == 3
    assert not flooded.arrived.empty()


class Beats:
    """A keeper that has died before some of the agent's words; its end restores the limits."""

    def __init__(self, agent: Agent, *died_before: int) -> None:
        self.agent, self.died_before, self.words = agent, died_before, 0

    def beat(self) -> bool:
        self.words += 1
        if self.words not in self.died_before:
            return True
        assert restore_from(self.agent.originals.folder) == []
        return False


class OneMessage:
    """A connection that brings one message, before the step that is due next."""

    problem = ""

    def __init__(self, text: bytes) -> None:
        self.arrived: queue.SimpleQueue[Arrived] = queue.SimpleQueue()
        self.arrived.put(Arrived("n1", text))
        self.sent: list[AgentState] = []

    def send(self, topic: str, text: bytes) -> None:
        assert topic == "state/n1"
        self.sent.append(AgentState.parse(text))


@pytest.mark.parametrize("died_before", [(), (1,), (2,), (3,), (1, 2, 3)])
def test_limits_are_set_again_after_the_keeper_died_at_a_step_or_a_message(
    tree: PowercapTree, tmp_path: Path, died_before: tuple[int, ...]
) -> None:
    """Words are step, message, step. It was the keeper that restored, so no other program is blamed."""
    agent = agent_of(tree, tmp_path)
    now_s = time.time()
    text = Desired(node="n1", number=1, expires_s=now_s + 600.0, limits={"package-0": 80.0}).text()
    agent.receive(text, now_s)
    connection: Any = OneMessage(text)
    keeper: Any = Beats(agent, *died_before)
    follow(agent, keeper, connection, 0.05, 2)
    assert keeper.words == 3
    assert [(state.limits["package-0"], state.counts) for state in connection.sent] == [(80.0, {})] * 2
    assert tree.limits_w() == [80.0, 150.0]
    assert (tmp_path / "state" / FILE).exists() or not died_before, "what was found can be restored once more"


class Clock:
    """Time that passes where an agent waits for messages, and by ``takes_s`` in each step."""

    def __init__(self, takes_s: Sequence[float]) -> None:
        self.now_s, self.takes_s, self.steps = 100.0, iter(takes_s), list[float]()

    def get(self, timeout: float) -> Arrived:
        self.now_s += timeout
        raise queue.Empty

    def step(self, _now_s: float, clock_s: float) -> Any:
        self.steps.append(clock_s - 100.0)
        self.now_s += next(self.takes_s)
        return SimpleNamespace(problems=(), text=lambda: b"")


@pytest.mark.parametrize(
    ("takes_s", "steps"),
    [
        ([0.0, 0.0, 0.0], [0.0, 2.0, 4.0]),
        ([0.5, 0.5, 0.5], [0.0, 2.0, 4.0]),
        ([1.5, 0.0, 0.0], [0.0, 2.5, 4.5]),
        ([9.0, 0.0, 0.0], [0.0, 10.0, 12.0]),
    ],
    ids=["at once", "short", "more than half a period", "longer than periods"],
)
def test_half_a_period_at_least_is_left_to_messages(
    monkeypatch: pytest.MonkeyPatch, takes_s: list[float], steps: list[float]
) -> None:
    clock = Clock(takes_s)
    monkeypatch.setattr("wattqueue_agent.run.time", SimpleNamespace(monotonic=lambda: clock.now_s, time=lambda: NOW_S))
    agent: Any = SimpleNamespace(node="n1", step=clock.step)
    keeper: Any = SimpleNamespace(beat=lambda: True)
    connection: Any = SimpleNamespace(arrived=clock, send=lambda *_: None, problem="")
    follow(agent, keeper, connection, 2.0, 3)
    assert clock.steps == steps


def test_a_problem_is_written_once_as_long_as_it_stays(capsys: pytest.CaptureFixture[str]) -> None:
    stated = frozenset[str]()
    for problems, written in ((["a", "b"], ["a", "b"]), (["b"], []), ([], []), (["b", "c"], ["b", "c"])):
        stated = report(problems, stated)
        assert stated == frozenset(problems)
        assert capsys.readouterr().err == "".join(f"wattqueue agent: {text}\n" for text in written)


def test_two_agents_on_one_node(tmp_path: Path) -> None:
    with only_agent(tmp_path), pytest.raises(InputError, match="another agent"), only_agent(tmp_path):
        pass
    with only_agent(tmp_path):
        pass


def test_no_other_user_can_keep_the_agent_from_starting(tmp_path: Path) -> None:
    """The name of an abstract socket belongs to whoever binds it first; a file in the agent's folder is its own."""
    folder = tmp_path / "state"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(f"\0wattqueue-agent:{folder.resolve()}"[:100])
        with only_agent(folder):
            assert folder.stat().st_mode & 0o077 == 0
            assert (folder / "lock").stat().st_mode & 0o077 == 0, "who could open it could lock it"
    (folder / "lock").unlink()
    (folder / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError), only_agent(folder):
        pass
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("ahead_s", [60.0, 3000.0, 1e9])
def test_a_message_numbered_in_the_future_keeps_no_later_one_out(
    agent: Agent, tree: PowercapTree, ahead_s: float
) -> None:
    number = round(NOW_S * 1e9)
    agent.receive(desired(round((NOW_S + ahead_s) * 1e9), hold_s=min(ahead_s + 30.0, 3600.0), package_0=80.0), NOW_S)
    agent.receive(desired(number, package_0=90.0), NOW_S)
    assert tree.limits_w()[0] == 90.0
    state = agent.step(NOW_S, 0.0)
    assert (state.number, state.counts) == (number, {"message from the future": 1})


def test_a_message_keeps_others_out_for_no_longer_than_it_holds(agent: Agent, tree: PowercapTree) -> None:
    """Its number is 8 s ahead, within what clocks may differ, but its lease ends after 5 s."""
    agent.receive(desired(round((NOW_S + 8.0) * 1e9), hold_s=5.0, package_0=80.0), NOW_S)
    agent.receive(desired(round((NOW_S + 1.0) * 1e9), package_0=90.0), NOW_S + 1.0)
    assert (tree.limits_w()[0], agent.counts) == (90.0, {"message from the future": 1})
    agent.receive(desired(round((NOW_S + 4.0) * 1e9), hold_s=5.0, package_0=85.0), NOW_S)
    assert tree.limits_w()[0] == 85.0, "clocks differ by a few seconds"


def test_numbers_of_a_controller_whose_clock_was_set_back_are_taken(agent: Agent, tree: PowercapTree) -> None:
    link, sent = AgentLink(cast("Any", None)), list[bytes]()
    link.connection = cast("Any", SimpleNamespace(send=lambda _topic, text, **_: sent.append(text)))
    for now_s, watts in ((NOW_S + 1800.0, 70.0), (NOW_S, 90.0), (NOW_S - 5.0, 85.0)):
        link.ask({"n1": {"package-0": watts}}, now_s, 30.0)
        agent.receive(sent[-1], NOW_S)
    assert tree.limits_w()[0] == 85.0
    assert agent.counts == {"message from the future": 1}


@pytest.mark.parametrize("host", ["broker.example", "10.0.0.7", "127.0.0.1.example", "localhost.example"])
def test_a_broker_elsewhere_needs_encryption(host: str) -> None:
    with pytest.raises(ValueError, match="ca_file"):
        BrokerSection(host=host)
    assert BrokerSection(host=host, ca_file=Path("ca.crt")).host == host


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]"])
def test_a_broker_on_this_host_needs_none(host: str) -> None:
    assert BrokerSection(host=host).ca_file is None


CONFIG = """
node = "n1"
state_dir = "state"
powercap = "powercap"
[[allow]]
limit = "package-*"
low = 60.0
high = 140.0
[broker]
host = "localhost"
"""


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (("low = 60.0", "low = 150.0"), None),
        (("low = 60.0", "low = nan"), None),
        (("limit =", "limits ="), "did you mean limit?"),
        (("host =", "hosts ="), "did you mean host?"),
        (('node = "n1"', 'node = "n+"'), None),
        (('node = "n1"', 'node = "a/b"'), None),
        (("[broker]", "[broker]\nport = 0"), None),
        (('node = "n1"', "period_s = 5.0"), "at least 15"),
        (('node = "n1"', "period_s = 1.0\ntimeout_s = 2.999"), "at least 3"),
        (('node = "n1"', "period_s = 0"), None),
        (('node = "n1"', "period_s = 60.001\ntimeout_s = 200.0"), None),
        (('node = "n1"', "timeout_s = 3600.001"), None),
        (("low = 60.0", "low = 0"), None),
        (("low = 60.0", "low = 140.001"), None),
        (("[broker]", "[counters]\nmemory = []\n[broker]"), None),
    ],
)
def test_a_configuration_that_is_wrong(tmp_path: Path, change: tuple[str, str], hint: str | None) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(CONFIG.replace(*change))
    with pytest.raises(InputError) as caught:
        load_agent_config(path)
    assert caught.value.where == path
    assert hint is None or caught.value.hint == hint


@pytest.mark.parametrize(
    "change",
    [
        ('node = "n1"', "period_s = 1.0\ntimeout_s = 3.0"),
        ('node = "n1"', "period_s = 60.0\ntimeout_s = 3600.0"),
        ("low = 60.0", "low = 140.0"),
        ("[broker]", '[counters]\nmemory = ["a"]\n[broker]'),
    ],
)
def test_a_configuration_at_its_limits(tmp_path: Path, change: tuple[str, str]) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(CONFIG.replace(*change))
    assert load_agent_config(path).allowed("package-0") is not None


def test_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(CONFIG)
    config = load_agent_config(path)
    assert config.powercap == tmp_path / "powercap"
    assert config.allowed("package-3") == ALLOWED
    assert config.allowed("policy0") is None
    assert not math.isnan(config.timeout_s)


@pytest.mark.parametrize("name", ["name", "constraint_0_name", "constraint_0_power_limit_uw", "enabled"])
def test_a_powercap_file_that_is_not_text_is_an_error_with_its_path(
    tree: PowercapTree, tmp_path: Path, name: str
) -> None:
    (tree.zone(0) / name).write_bytes(b"\xff\xfe\x00\xb2")
    with pytest.raises(LimitError) as error:
        agent_of(tree, tmp_path)
    assert error.value.where == tree.zone(0) / name


def test_an_agent_goes_on_without_a_reader_of_its_messages() -> None:
    code = (
        "from wattqueue_agent.run import report\n"
        "for number in range(3): report([f'problem {number}'], frozenset())\n"
        "raise SystemExit(7)"
    )
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", code], stdout=writer, stderr=writer, check=False)
    os.close(writer)
    assert done.returncode == 7


def test_the_next_keeper_starts_when_the_one_before_has_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keeper that no longer listens may be restoring: what is set meanwhile would be undone."""
    restores = subprocess.Popen(["sh", "-c", "exec <&-; sleep 0.5"], stdin=subprocess.PIPE, bufsize=0)
    keeper = Keeper(tmp_path / "state", 30.0, "one")
    keeper._process = restores
    ended: list[int | None] = []
    monkeypatch.setattr(Keeper, "_start", lambda _: ended.append(restores.poll()))
    time.sleep(0.2)
    assert not keeper.beat()
    assert ended == [0]
