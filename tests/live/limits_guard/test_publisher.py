"""The process that alone publishes limits: honest requests are carried out, a planner that lies raises nothing."""

from __future__ import annotations

import json
import math
import os
import pwd
import random
from pathlib import Path
from typing import Any

import pytest

from tests.live.limits_guard.world import LEAST_NODE_W, MOST_SET_W, RULES, LimitsWorld, settings
from tests.live.test_node_limits import FAST_HZ, MOST_W, NODES, OTHER_W, SLOW_HZ
from wattqueue.live.guard.wire import Packet
from wattqueue.live.limits_guard import publisher
from wattqueue.live.limits_guard.messages import Arrived
from wattqueue.live.limits_guard.publisher import STEP_S
from wattqueue.live.watts.node_records import LimitRules

EVEN = dict.fromkeys(NODES, 260.0)
CAP = "1040W"
"""Four nodes at 260 W; at their maximum they are 1,440 W."""


def limited(tmp_path: Path, cap: str = CAP) -> LimitsWorld:
    """A site whose nodes have 260 W each, confirmed."""
    world = LimitsWorld(settings(tmp_path, cap))
    world.step()
    assert world.ask(**EVEN) == 0
    for _ in range(4):
        world.step()
    assert world.sum_w == 4 * 260.0
    assert world.publisher.in_force() == {"below_w": dict.fromkeys(NODES, MOST_W - 260.0), "holds": True}
    return world


def test_nothing_is_limited_before_somebody_asks(tmp_path: Path) -> None:
    world = LimitsWorld(settings(tmp_path, CAP))
    for _ in range(5):
        world.step()
    assert world.wire.sent == []
    assert world.publisher.in_force() == {"below_w": {}, "holds": False}
    assert world.publisher.possible_w == 4 * MOST_W


def test_a_raise_waits_until_what_pays_for_it_was_read_back(tmp_path: Path) -> None:
    world = limited(tmp_path)
    world.wire.late_s = 100.0
    sent = len(world.wire.sent)
    world.ask(n1=200.0, n2=320.0)
    world.step()
    asked = {one.node: OTHER_W + sum(one.limits.values()) for one in world.wire.sent[sent:]}
    assert asked["n1"] == 200.0
    assert asked["n2"] == 260.0, "the lowering was not confirmed"
    world.wire.on_the_way = [(world.now_s, message) for _, message in world.wire.on_the_way]
    world.wire.late_s = 0.0
    for _ in range(3):
        world.step()
    assert [world.force_w(name) for name in NODES] == [200.0, 320.0, 260.0, 260.0]


def test_requests_beyond_the_cap_raise_nothing_and_lower_what_they_lower(tmp_path: Path) -> None:
    world = limited(tmp_path)
    world.ask(n1=MOST_SET_W, n2=MOST_SET_W, n3=200.0)
    for _ in range(20):
        world.step()
        assert world.sum_w <= 1040.0 + 1e-6
    assert world.force_w("n3") <= 200.0
    world.ask(**dict.fromkeys(NODES, LEAST_NODE_W))
    world.step()
    world.step()
    assert world.sum_w == 4 * LEAST_NODE_W


@pytest.mark.parametrize(
    "asked",
    [
        {}, {"package-0": -1.0}, {"package-0": math.nan}, {"package-0": True}, {"package-0": "60"}, {"": 60.0},
        {"package-0": 1e12}, dict.fromkeys(map(str, range(300)), 60.0),
    ],
)  # fmt: skip
def test_what_is_no_request_changes_nothing(tmp_path: Path, asked: dict[str, float]) -> None:
    world = limited(tmp_path)
    assert world.request(n1=asked, n9={"package-0": 60.0}) == 2
    assert json.dumps(world.publisher.answer(Packet({"do": "status"})).header["counts"])
    nothing: tuple[object, ...] = (None, [], "n1")
    for limits in nothing:
        world.publisher.answer(Packet({"do": "ask", "limits": limits}))
    for _ in range(3):
        world.step()
    assert world.sum_w == 4 * 260.0


def test_a_request_without_watts_lifts_no_limit(tmp_path: Path) -> None:
    """An agent gives limits that a message does not name back what it found."""
    world = limited(tmp_path)
    world.request(n1={"policy0": SLOW_HZ}, n2={"package-0": 60.0}, n3={"unknown": 1.0})
    for _ in range(5):
        world.step()
        assert world.sum_w <= 1040.0 + 1e-6
    assert world.nodes["n1"].hertz == SLOW_HZ


def test_a_single_part_of_a_node_that_is_not_limited_as_a_whole_is_passed_on(tmp_path: Path) -> None:
    """As the limit of a GPU at which a job was started; no cap counts on it."""
    world = LimitsWorld(settings(tmp_path, CAP))
    world.step()
    world.request(n1={"package-1": 70.0})
    for _ in range(3):
        world.step()
    assert world.nodes["n1"].limits["package-1"] == 70.0
    assert world.publisher.in_force()["below_w"] == {}


def test_frequencies_alone_are_passed_on_within_what_the_agent_allows(tmp_path: Path) -> None:
    world = LimitsWorld(settings(tmp_path, CAP))
    world.step()
    world.request(n1={"policy0": SLOW_HZ}, n2={"policy0": 1.0}, n3={"policy0": 1e11})
    world.step()
    assert [one.limits for one in world.wire.sent] == [{"policy0": SLOW_HZ}, {"policy0": 1e9}, {"policy0": FAST_HZ}]


def test_frequencies_expire_without_a_planner(tmp_path: Path) -> None:
    world = LimitsWorld(settings(tmp_path, "none", away_s=20.0))
    world.step()
    world.request(n1={"policy0": SLOW_HZ}, n2={"policy0": SLOW_HZ, "package-0": 70.0, "package-1": 70.0})
    for _ in range(15):
        world.step()
    assert [world.nodes[name].hertz for name in NODES[:2]] == [SLOW_HZ, SLOW_HZ]
    for _ in range(45):
        world.step()
    assert [world.nodes[name].hertz for name in NODES[:2]] == [FAST_HZ, FAST_HZ]
    assert [world.force_w(name) for name in NODES[:2]] == [MOST_W, MOST_SET_W]


def test_limits_stay_between_those_of_the_settings_and_of_the_agent(tmp_path: Path) -> None:
    world = LimitsWorld(settings(tmp_path, "none", least_w={"n1": 250.0}))
    world.step()
    world.ask(n1=OTHER_W, n2=OTHER_W, n3=1e9)
    world.step()
    world.step()
    assert [world.force_w(name) for name in NODES[:3]] == [250.0, LEAST_NODE_W, MOST_SET_W]


def test_a_cap_that_falls_lowers_limits_without_a_planner(tmp_path: Path) -> None:
    path = tmp_path / "cap.csv"
    path.write_text("time_s,cap_w\n0,1040\n20,840\n")
    world = limited(tmp_path, str(path))
    while world.now_s < 24.0:
        world.step()
    assert world.sum_w == pytest.approx(840.0)
    world.ask(**dict.fromkeys(NODES, 300.0))
    for _ in range(5):
        world.step()
    assert world.sum_w == pytest.approx(840.0)


def test_without_a_planner_every_node_gets_the_same_share(tmp_path: Path) -> None:
    """Limits stay for ``away_s``; then idle nodes that were lowered are not held back any more."""
    world = limited(tmp_path)
    world.ask(n1=LEAST_NODE_W, n2=LEAST_NODE_W, n3=MOST_SET_W, n4=MOST_SET_W)
    for _ in range(110):
        world.step()
        assert world.sum_w <= 1040.0 + 1e-6
    assert [world.force_w(name) for name in NODES] == pytest.approx([LEAST_NODE_W, LEAST_NODE_W, 340.0, 340.0])
    for _ in range(200):
        world.step()
        assert world.sum_w <= 1040.0 + 1e-6
    assert [world.force_w(name) for name in NODES] == pytest.approx([260.0] * 4)
    world.ask(n1=200.0, n2=200.0, n3=200.0, n4=300.0)
    for _ in range(5):
        world.step()
    assert [world.force_w(name) for name in NODES] == [200.0, 200.0, 200.0, 300.0]


def test_limits_expire_without_the_process_and_its_successor_goes_on(tmp_path: Path) -> None:
    world = limited(tmp_path)
    world.start()
    world.nodes["n4"].alive = False
    world.step(1.0)
    world.nodes["n4"].alive = True
    assert world.sum_w == 4 * 260.0, "nothing is lowered before each agent had time to be heard"
    world.step(1.0)
    assert world.publisher.in_force()["holds"] is False, "a message of the one before may be on its way"
    world.step(1.0)
    world.step(1.0)
    assert world.publisher.in_force()["holds"] is True
    assert world.sum_w == 4 * 260.0
    for _ in range(60):
        world.step(publishes=False)
    assert world.sum_w == 4 * MOST_W
    world.step()
    assert world.publisher.in_force() == {"below_w": {}, "holds": False}


def test_an_agent_that_dies_counts_at_the_maximum_and_the_others_are_lowered(tmp_path: Path) -> None:
    world = limited(tmp_path)
    world.nodes["n4"].alive = False
    for _ in range(12):
        world.step()
    told = world.publisher.in_force()
    assert "n4" not in told["below_w"]
    assert told["holds"] is True
    assert world.publisher.possible_w == pytest.approx(1040.0)
    assert [world.force_w(name) for name in NODES[:3]] == pytest.approx([(1040.0 - MOST_W) / 3] * 3)


def test_states_that_lie_about_their_node_are_not_taken(tmp_path: Path) -> None:
    world = limited(tmp_path)
    state = world.nodes["n1"].state(world.now_s + 1.0)
    low = state.model_copy(update={"limits": {"package-0": 0.0, "package-1": 0.0}})
    for node, text in (
        ("n2", low.text()),
        ("n1", b"{"),
        ("n1", b"[" * 60_000),
        ("n1", b'{"node": "n1"}'),
        ("n9", low.model_copy(update={"node": "n9"}).text()),
        ("n1", low.model_copy(update={"time_s": world.now_s + 100.0}).text()),
        ("n1", low.model_copy(update={"time_s": 0.0}).text()),
        ("n1", low.text().replace(b'"number":', b'"number":-')),
    ):
        world.publisher.connection.arrived.put(Arrived(node, text))
    before = world.publisher.possible_w
    world.publisher.step(world.now_s)
    assert world.publisher.possible_w == before
    assert sum(world.publisher.counts.values()) == 8


def test_a_planner_knows_its_request_by_the_number_of_the_message(tmp_path: Path) -> None:
    """It numbers requests by the time, which is not after that of whatever is sent on them."""
    world = limited(tmp_path)
    asked = round(world.now_s * 1e9)
    world.ask(n1=200.0)
    world.publisher.step(world.now_s)
    world.step()
    assert world.nodes["n1"].number >= asked
    assert world.force_w("n1") == 200.0


def test_rows_that_do_not_keep_the_cap_are_limited_by_their_nodes_alone(tmp_path: Path) -> None:
    world = LimitsWorld(settings(tmp_path, "100W", keeps_cap=False))
    world.step()
    world.ask(n1=200.0)
    world.step()
    world.step()
    assert world.force_w("n1") == 200.0
    assert world.publisher.in_force() == {"below_w": {}, "holds": False}, "it may be lifted at any time"
    world.ask(n1=320.0)
    world.step()
    world.step()
    assert world.force_w("n1") == 320.0


def random_request(draw: random.Random, world: LimitsWorld) -> None:
    """What a planner that lies may ask for: any node, any limit, any figure."""
    names = draw.sample([*NODES, "n9"], draw.randint(1, 3))
    figures = (0.0, 60.0, 70.0, 100.0, 140.0, 150.0, 1e6, -5.0)
    request = {
        name: {
            limit: draw.choice(figures)
            for limit in draw.sample(("package-0", "package-1", "policy0", "other"), draw.randint(0, 4))
        }
        for name in names
    }
    world.publisher.answer(Packet({"do": "ask", "limits": request}))


def lie(folder: Path, seed: int, requests: int) -> None:
    """Send requests; the sum of limits in force stays within what the cap leaves, or does not rise.

    Messages are late, lost, doubled and out of order, agents die, the cap changes and the process is started again. A
    limit rises beyond the cap by nobody's word but that of an agent that was cut off until its limit expired.
    """
    draw = random.Random(seed)
    caps = [1040, draw.choice((800, 1040, 1200)), draw.choice((700, 1040, 1440))]
    path = folder / "cap.csv"
    path.write_text("time_s,cap_w\n" + "".join(f"{100 * k},{watts}\n" for k, watts in enumerate(caps)))
    world = LimitsWorld(settings(folder, str(path)), seed)
    world.step()
    world.ask(**EVEN)
    for _ in range(4):
        world.step()
    world.wire.late_s, world.wire.lost = draw.choice((0.0, 1.5, 3.0)), draw.choice((0.0, 0.2))
    before_w = world.sum_w
    for _ in range(requests):
        random_request(draw, world)
        if draw.random() < 0.02:
            world.start()
        expired = {name for name, node in world.nodes.items() if node.expires_s <= world.now_s + 1.0}
        world.step(draw.choice((0.2, 1.0)))
        # a process that was just started asks for what it reads back, for ``silence_s``; a message takes 3 s at most
        cap_w = max(world.publisher.cap.in_force_w(world.now_s - ago_s) for ago_s in (0.0, RULES.silence_s + 3.0))
        freed_w = sum(MOST_W for name in expired)
        assert world.sum_w <= max(cap_w, before_w) + freed_w + 1e-6
        before_w = world.sum_w


def test_a_planner_that_lies(tmp_path: Path) -> None:
    for seed in range(10):
        lie(tmp_path, seed, 60)


@pytest.mark.slow
def test_a_planner_that_lies_with_100000_requests(tmp_path: Path) -> None:
    for seed in range(500):
        lie(tmp_path, 1_000 + seed, 200)


@pytest.mark.parametrize("seed", range(8))
def test_an_honest_request_is_carried_out_within_five_rounds(tmp_path: Path, seed: int) -> None:
    """The twin of the lies: whatever was asked for before, limits that the cap has room for are in force soon."""
    draw = random.Random(seed)
    world = limited(tmp_path)
    for _ in range(30):
        random_request(draw, world)
        world.step()
    parts = [draw.random() for _ in NODES]
    watts = {n: LEAST_NODE_W + (1040.0 - 4 * LEAST_NODE_W) * p / sum(parts) for n, p in zip(NODES, parts, strict=True)}
    wanted = {name: min(w, MOST_SET_W) for name, w in watts.items()}
    world.ask(**wanted)
    for _ in range(5):
        world.step()
    assert {name: world.force_w(name) for name in NODES} == pytest.approx(wanted)


def test_the_time_for_which_a_limit_holds_is_its_own(tmp_path: Path) -> None:
    world = LimitsWorld(settings(tmp_path, CAP, rules=LimitRules(OTHER_W, 20.0, 5.0)))
    world.step()
    world.ask(n1=200.0)
    for _ in range(12):
        world.step()
    expiries = [round(one.expires_s - one.number / 1e9, 3) for one in world.wire.sent]
    assert set(expiries) == {20.0}
    assert len(expiries) == 3, "it is renewed four times within that"
    assert RULES.hold_s == 30.0


def test_who_may_request_and_who_may_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner's account alone requests, on one connection at a time; root, the guard and the process itself ask."""
    own = settings(tmp_path, CAP, planner="games", guard="daemon")
    world, uid = LimitsWorld(own), pwd.getpwnam("games").pw_uid
    assert set(world.publisher.allowed) == {0, os.getuid(), uid, pwd.getpwnam("daemon").pw_uid}
    request, asker, other = Packet({"do": "ask", "limits": {}}), object(), object()
    caller = [uid]
    monkeypatch.setattr(publisher, "peer_uid", lambda _: caller[0])

    def answer(who: object, request: Packet) -> dict[str, Any]:
        return world.publisher.answer_to(who, request).header  # type: ignore[arg-type]

    assert answer(asker, request) == {"refused": 0}
    assert "another planner is at work" in answer(other, request)["error"]
    for caller[0] in (pwd.getpwnam("daemon").pw_uid, 0):
        assert answer(other, request) == {"error": "this account may not ask for limits"}
        assert answer(other, Packet({"do": "limits"})) == {"below_w": {}, "holds": False}
        assert answer(other, Packet({"do": "status"}))["possible_w"] == 4 * MOST_W
        assert answer(other, Packet({"do": "stop"})) == {"error": "unknown request"}


def test_steps_follow_each_other_in_time(tmp_path: Path) -> None:
    world = LimitsWorld(settings(tmp_path, CAP))
    world.step(publishes=False)
    world.ask(n1=200.0)
    assert world.publisher.due(quiet=True) == STEP_S
    sent = len(world.wire.sent)
    assert sent == 1
    world.ask(n1=190.0)
    world.publisher.due(quiet=False)
    assert len(world.wire.sent) == sent, "not before the next step"
    world.now_s += 1.5 * STEP_S
    world.publisher.due(quiet=False)
    assert len(world.wire.sent) == sent + 1
