"""The configuration of what publishes limits, and what it reads of agents: strict, each error with its key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live.test_node_limits import Node
from wattqueue.errors import InputError
from wattqueue.live.agents import AgentState, Desired
from wattqueue.live.limits_guard.messages import MOST_BYTES, STATED, desired, read_state
from wattqueue.live.limits_guard.settings import parse_limits_settings, read_limits_settings

TEXT = """
socket = "run/socket"
cap = "400kW"
[node_w]
"n[1-3]" = 360
m1 = 500.5
[least_w]
n2 = 180
[broker]
host = "127.0.0.1"
"""


def test_a_file_and_its_defaults(tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(TEXT)
    found = read_limits_settings(path)
    assert found.node_w == {"n1": 360.0, "n2": 360.0, "n3": 360.0, "m1": 500.5}
    assert found.least_w == {"n2": 180.0}
    assert (found.socket, found.cap, found.keeps_cap, found.away_s) == (tmp_path / "run/socket", "400kW", True, 120.0)
    assert found.rules == (0.0, 30.0, 5.0)
    assert found.broker == ("127.0.0.1", 8883, "cluster", "limits", None, None)
    assert (found.planner_uid, found.guard_uid) == (None, None)
    with pytest.raises(InputError, match="cannot be read"):
        read_limits_settings(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('socket = "run/socket"', "", "socket"),
        ('cap = "400kW"', 'cap = "5%"', "share"),
        ("m1 = 500.5", 'm1 = "500"', "node_w: m1"),
        ("m1 = 500.5", "m1 = -1", "node_w: m1"),
        ("m1 = 500.5", "m1 = true", "node_w: m1"),
        ("m1 = 500.5", '"m/#" = 1', "topic"),
        ("m1 = 500.5", '"m[1" = 1', "m\\[1"),
        ("n2 = 180", "n2 = nan", "least_w: n2"),
        ('cap = "400kW"', 'cap = "none"\nhold_s = 14', "hold_s"),
        ('cap = "400kW"', 'cap = "none"\nhold_s = 3601', "hold_s"),
        ('cap = "400kW"', 'cap = "none"\nsilence_s = 0', "silence_s"),
        ('cap = "400kW"', 'cap = "none"\nkeeps_cap = 1', "keeps_cap"),
        ('cap = "400kW"', 'cap = "none"\nwithout_nodes_w = "1"', "without_nodes_w"),
        ('cap = "400kW"', 'cap = "none"\nplanner = "no such account"', "no account"),
        ('cap = "400kW"', 'cap = "none"\nlast_resort = []', "last_resort"),
        ('host = "127.0.0.1"', 'host = "broker"', "ca_file"),
        ('host = "127.0.0.1"', "", "host"),
        ('host = "127.0.0.1"', 'host = "localhost"\nqos = 2', "qos"),
        (TEXT, 'socket = "s"\ncap = "none"\n[broker]\nhost = "localhost"', "node_w"),
        (TEXT, "[", "TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, key: str) -> None:
    assert old in TEXT
    with pytest.raises(InputError, match=key):
        parse_limits_settings(TEXT.replace(old, new).encode(), tmp_path / "limits.toml")


def test_what_agents_state_is_read_as_the_controller_reads_it() -> None:
    state = Node("n1").state(12.5)
    found = read_state(state.text())
    assert found == tuple(getattr(state, name) for name in found._fields)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=3),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), st.floats() | st.none(), max_size=2),
)  # fmt: skip


@given(st.sampled_from(sorted(STATED | {"more"})), VALUES)
def test_what_the_controller_refuses_of_an_agent_is_refused(name: str, value: Any) -> None:
    """Of what decides about limits; the rest of a state is not looked at."""
    content = json.loads(Node("n1").state(12.5).text())
    text = json.dumps({**content, name: value}).encode()
    try:
        found = read_state(text)
    except ValueError:
        return
    if name not in ("power_w", "counts"):
        state = AgentState.parse(text)
        assert found == tuple(getattr(state, field) for field in found._fields)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"\xff", b"[" * 60_000, b" " * (MOST_BYTES + 1)])
def test_what_is_no_state_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  whatever is wrong with a message is one kind of error
        read_state(text)


def test_what_nodes_are_asked_for_is_read_by_their_agents() -> None:
    found = Desired.parse(desired("n1", 7, 12.5, {"package-0": 60.0}))
    assert found == Desired(node="n1", number=7, expires_s=12.5, limits={"package-0": 60.0})
