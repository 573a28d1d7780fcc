"""What a guard has to accept for a row is asked at the start, with a remedy, and not found in each round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.live.drive import lab_machine
from tests.live.fakeslurm import FakeSlurm
from tests.live.guard.test_checks import guard_of
from tests.live.guard.test_process import Served
from tests.live.guard.world import NaiveSlurm
from tests.live.test_guard import make_config, make_slurm
from wattqueue.errors import InputError
from wattqueue.live.assemble import assemble
from wattqueue.live.config import LiveConfig, load_config
from wattqueue.live.features.agent_controls import load_live_policy
from wattqueue.live.features.node_limits import measured_by_agents
from wattqueue.live.guard.client import connection_to
from wattqueue.live.guard.required import lacking
from wattqueue.live.guard.settings import read_settings
from wattqueue.live.slurm.commands import SlurmError
from wattqueue.live.slurm.examine_guard import guard_warnings
from wattqueue.live.slurm.guard import Guard, guard_lines
from wattqueue.parts.controls.rapl_redistribution import RaplRedistribution
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy

BROKER = {"host": "127.0.0.1"}
METERS = {"pm_counters": {"n1": "/nowhere"}}
FOLLOWS: dict[str, Any] = {"track_running": True, **METERS}
CONSENT = {"others": False, "users": {"ada": True}, "accounts": {}}
FOLDER = {"frequency_dir": "/f"}
LIMITS = {"accepted": ["limits"]}
NONE: dict[str, Any] = {}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "limits, and frequencies": ("e-pas-intel", {"telemetry": {**FOLLOWS, "broker": BROKER}}, LIMITS, "frequencies"),
    "the default row": ("easy", NONE, NONE, ""),
    "estimates": ("easy+pc-mean", NONE, NONE, "estimates"),
    "estimates, and others are accepted": ("easy+pc-mean", NONE, {"accepted": ["frequencies", "limits"]}, "estimates"),
    "accepted estimates": ("easy+pc-mean", NONE, {"accepted": ["estimates"]}, ""),
    "frequencies": ("easy at least energy", NONE, NONE, "frequencies"),
    "accepted frequencies": ("easy at least energy", NONE, {"accepted": ["frequencies"]}, ""),
    "a folder for frequencies": ("easy", FOLDER, {"accepted": ["frequencies"], **FOLDER}, "last_resort"),
    "a folder, as a last resort": ("easy", FOLDER, {"last_resort": ["frequency"], **FOLDER}, ""),
    "another folder": ("easy", FOLDER, {"last_resort": ["frequency"]}, "frequency_dir"),
    "another last resort": ("easy", FOLDER, {"last_resort": ["stop", "requeue"], **FOLDER}, "last_resort"),
    "licences by limits": ("easy that limits", {"telemetry": {**FOLLOWS, "broker": BROKER}}, NONE, "limits"),
    "accepted limits": ("easy that limits", {"telemetry": {**FOLLOWS, "broker": BROKER}}, LIMITS, ""),
    "limits, and nothing lowered": ("easy that limits", {"telemetry": {"broker": BROKER}}, NONE, ""),
    "an overshoot": ("easy", {"telemetry": {**FOLLOWS, "accepted_overshoot": "5%"}}, NONE, "overshoot"),
    "the same overshoot": (
        "easy", {"telemetry": {**FOLLOWS, "accepted_overshoot": "5%"}}, {"overshoot": [0.0, 0.05]}, "",
    ),
    "a smaller one": (
        "easy", {"telemetry": {**FOLLOWS, "accepted_overshoot": "2kW"}}, {"overshoot": [1999.0, 0.5]}, "overshoot",
    ),
    "an overshoot, and accepted limits": (
        "easy", {"telemetry": {**FOLLOWS, "accepted_overshoot": "5%"}}, {"accepted": ["limits"]}, "",
    ),
    "an overshoot that nothing uses": ("easy", {"telemetry": {**METERS, "accepted_overshoot": "5%"}}, NONE, ""),
    "consent by default": ("easy that parks", {"consent": {"users": {"ada": True}}}, NONE, "[consent]"),
    "the same consent": ("easy that parks", {"consent": {"users": {"ada": True}}}, {"consent": CONSENT}, ""),
    "consent that nobody has by default": ("easy that parks", {"consent": {"users": {"ada": False}}}, NONE, ""),
    "consent, and no control": ("easy", {"consent": {"users": {"ada": True}}}, NONE, ""),
}  # fmt: skip
"""Row, configuration, what the guard says of itself, and the key that the remedy names; empty for no refusal."""


ROWS: dict[str, Callable[[], Policy]] = {
    "easy at least energy": lambda: load_policy("easy", frequency="least-energy"),
    "easy that parks": lambda: load_policy("easy", controls=["park-consenting"]),
    "easy that limits": lambda: load_policy("easy", controls=[RaplRedistribution(measure=measured_by_agents)]),
}


def row_of(name: str) -> Policy:
    return ROWS[name]() if name in ROWS else load_live_policy(name)[0]


def config_of(**given: Any) -> LiveConfig:
    return LiveConfig.model_validate({"machine": "m", "mode": "control", **given})


@pytest.mark.parametrize(("policy", "given", "told", "key"), CASES.values(), ids=CASES)
def test_what_a_row_needs(policy: str, given: dict[str, Any], told: dict[str, Any], key: str) -> None:
    row = row_of(policy)
    found = list(lacking(config_of(**given), row, lab_machine(8, (2e9, 1e9)), told))
    assert [key in lack.remedy for lack in found] == ([True] if key else [])
    assert all("systemctl restart wattqueue-guard.service" in lack.remedy for lack in found)


def test_frequencies_of_a_machine_that_has_one_need_nothing() -> None:
    row = row_of("easy at least energy")
    assert list(lacking(config_of(frequency_dir="/f"), row, lab_machine(), {})) == []


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = Served(guard_of(NaiveSlurm(), tmp_path))
    yield found
    found.end()


MACHINE = """name = "lab"
[[partitions]]
name = "p1"
nodes = 4
idle_w = 100.0
max_w = 300.0
"""


def assembled(folder: Path, socket: Path, policy: str, mode: str = "control") -> None:
    """Assemble a controller, and let it go again."""
    (folder / "m.toml").write_text(MACHINE)
    (folder / "live.toml").write_text(
        f'machine = "m.toml"\ncap = "1kW"\npolicy = "{policy}"\nmode = "{mode}"\nrun_dir = "run"\n'
        f'[guard]\nsocket = "{socket}"\nrun_dir = "{folder}"\n'
    )
    config = load_config(folder / "live.toml")
    try:
        slurm = FakeSlurm({"p1": ["n1", "n2", "n3", "n4"]}, 800)
        controller = assemble(config, slurm, lambda: 1e6)
        controller.run_dir.release()
        controller.at_end()
    finally:
        connection_to(config.guard.socket).close() if config.guard is not None else None


def test_a_row_that_the_guard_does_not_accept_ends_the_start_before_anything_is_claimed(
    served: Served, tmp_path: Path
) -> None:
    socket = served.guard.settings.socket
    with pytest.raises(InputError, match="estimator history-mean starts jobs below the maximum") as refused:
        assembled(tmp_path, socket, "easy+pc-mean")
    assert refused.value.where == "guard.toml"
    assert 'accepted = ["estimates"]' in str(refused.value.hint)
    assert not (tmp_path / "run").exists()
    assembled(tmp_path, socket, "easy+pc-mean", "observe")  # it writes nothing
    assembled(tmp_path, socket, "easy")
    served.guard.settings = replace(served.guard.settings, accepted=frozenset({"estimates"}))
    assembled(tmp_path, socket, "easy+pc-mean")


def test_a_guard_that_gives_no_answer_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(SlurmError, match="no answer"):
        assembled(tmp_path, tmp_path / "nobody", "easy")


def test_consent_of_the_guard_is_read_as_its_file_states_it(tmp_path: Path) -> None:
    path = tmp_path / "guard.toml"
    plain = 'socket = "s"\nrun_dir = "."\ncap = "1kW"\nwithout_jobs_w = 0\n[node_w]\n[consent]\n'
    path.write_text(f"{plain}users = {{ ada = true }}\n")
    assert read_settings(path).told()["consent"] == CONSENT
    for wrong in ("others = 1", "users = true", "users = { ada = 1 }", "every_s = 5"):
        path.write_text(f"{plain}{wrong}\n")
        with pytest.raises(InputError, match="consent"):
            read_settings(path)


@pytest.mark.parametrize(("policy", "lacks"), [("easy", 0), ("easy+pc-mean", 1)])
def test_an_installation_names_what_the_guard_will_refuse(policy: str, lacks: int, tmp_path: Path) -> None:
    """By the file that it would write, and by one that is there."""
    section = f'[guard]\nsocket = "{tmp_path}/socket"\nrun_dir = "{tmp_path}"\nplanner = "nobody"\n'
    config = make_config(tmp_path, f'mode = "control"\npolicy = "{policy}"\n{section}')
    guard, file = Guard.of(config, make_slurm()), tmp_path / "live.toml"
    found = guard_warnings(guard, config, file)
    assert [text.startswith("warning: estimator history-mean") for text in found] == [True] * lacks
    guard_lines(guard, config, file, write=True)
    assert guard_warnings(guard, config, file) == found
    path = tmp_path / "guard.toml"
    path.write_text('accepted = ["estimates"]\n' + path.read_text())
    assert guard_warnings(guard, config, file) == []
    path.write_text("no TOML")
    assert guard_warnings(guard, config, file)[0].startswith("warning: ")
    assert guard_warnings(guard, make_config(tmp_path, f'policy = "{policy}"\n{section}'), file) == []
