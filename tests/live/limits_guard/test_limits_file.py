"""``live install`` writes limits.toml once, and ``doctor --live`` says whether what publishes limits fits it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.live.limits_guard.world import LimitsWorld
from tests.live.test_guard import make_config, make_slurm
from wattqueue.errors import InputError
from wattqueue.live.config import LiveConfig
from wattqueue.live.doctor import Check
from wattqueue.live.guard.sockets import listen, serve
from wattqueue.live.limits_guard.client import UNIT
from wattqueue.live.limits_guard.settings import LimitsSettings, read_limits_settings
from wattqueue.live.slurm.guard import Guard
from wattqueue.live.slurm.limits_file import examine_limits, limits_lines

BROKER = '[telemetry]\nother_w = 60\n[telemetry.broker]\nhost = "localhost"\ncluster = "c"\n'


def configured(folder: Path, *, broker: str = BROKER, policy: str = "easy") -> LiveConfig:
    """A controller whose limits a process of its own publishes."""
    section = f'[guard]\nsocket = "{folder}/guard"\nrun_dir = "{folder}"\nplanner = "nobody"\n'
    limits = f'limits_socket = "{folder}/limits"\n'
    return make_config(folder, f'mode = "control"\nuser = "daemon"\npolicy = "{policy}"\n{section}{limits}{broker}')


def test_the_file_is_written_once_beside_the_controllers(tmp_path: Path) -> None:
    config, file = configured(tmp_path), tmp_path / "live.toml"
    guard = Guard.of(config, make_slurm())
    assert "keeps_cap = false" in limits_lines(guard, config, file, write=False)
    assert not (tmp_path / "limits.toml").exists()
    assert "wrote" in limits_lines(guard, config, file, write=True)[0]
    found = read_limits_settings(tmp_path / "limits.toml")
    assert found.node_w == {"n1": 300.0, "n2": 300.0, "m1": 250.0, "m2": 250.0}
    assert (found.cap, found.planner, found.guard, found.without_nodes_w) == ("1000W", "nobody", "daemon", 0.0)
    assert (found.rules.other_w, found.broker.cluster, found.broker.user) == (60.0, "c", "limits")
    assert found.broker.password_file == tmp_path / "limits.password"
    assert "as it should be" in limits_lines(guard, config, file, write=True)[0]
    assert limits_lines(guard, make_config(tmp_path), file, write=True) == []


@pytest.mark.parametrize("policy", ["e-pas-intel", "combined"])
def test_a_row_that_keeps_the_cap_by_limits_is_said_to(policy: str, tmp_path: Path) -> None:
    """Also one that follows from the machine: with agents that are followed it redistributes."""
    broker = BROKER.replace("[telemetry]\n", "[telemetry]\ntrack_running = true\n", 1)
    config = configured(tmp_path, broker=broker, policy=policy)
    assert "keeps_cap = true" in limits_lines(Guard.of(config, make_slurm()), config, tmp_path / "a", write=False)


def test_a_socket_without_a_broker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="limits_socket"):
        configured(tmp_path, broker="")


@contextmanager
def serving(own: LimitsSettings, **more: Any) -> Iterator[LimitsWorld]:
    """What publishes limits, at its socket."""
    world = LimitsWorld(replace(own, **more))
    stopped = threading.Event()
    with listen(own.socket) as listener:
        thread = threading.Thread(target=serve, args=(world.publisher, listener, str, stopped.is_set))
        thread.start()
        try:
            yield world
        finally:
            stopped.set()
            thread.join(30.0)
            assert not thread.is_alive()


def examined(config: LiveConfig, folder: Path) -> list[Check]:
    return list(examine_limits(config, Guard.of(config, make_slurm()), folder / "live.toml"))


def test_what_publishes_limits_is_examined(tmp_path: Path) -> None:
    config = configured(tmp_path)
    limits_lines(Guard.of(config, make_slurm()), config, tmp_path / "live.toml", write=True)
    own = read_limits_settings(tmp_path / "limits.toml")
    with serving(own):
        checks = examined(config, tmp_path)
    assert [one.state for one in checks] == ["yes", "part", "part", "part", "yes"]
    assert "0 nodes can be limited" in checks[0].found
    assert checks[1].found == "m1: no agent was heard of"
    assert "as it would be written now" in checks[-1].found
    text = (tmp_path / "limits.toml").read_text()
    (tmp_path / "limits.toml").write_text(text.replace("other_w = 60.0", "other_w = 50").replace("250.0", "240.0"))
    with serving(own):
        found = [one.found for one in examined(config, tmp_path)[4:]]
    assert [text.partition(": ")[2].partition(" is")[0] for text in found[:3]] == [
        "other_w", "node_w of m1", "node_w of m2",
    ]  # fmt: skip
    assert "was changed since it was read" in found[3]
    (tmp_path / "limits.toml").write_text("[")
    with serving(own):
        assert "does not start" in examined(config, tmp_path)[-1].cost
    (gone,) = examined(config, tmp_path)
    assert gone.state == "no"
    assert UNIT in gone.cost


def test_a_planner_that_has_the_brokers_rights_itself_is_named(tmp_path: Path) -> None:
    config = configured(tmp_path)
    assert config.guard is not None
    alone = config.model_copy(update={"guard": config.guard.model_copy(update={"limits_socket": None})})
    (check,) = examined(alone, tmp_path)
    assert (check.state, "broker's right" in check.found) == ("part", True)
    assert examined(make_config(tmp_path), tmp_path) == []
