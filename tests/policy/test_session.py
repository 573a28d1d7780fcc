"""One session for every driver: a round on a snapshot answers as the simulator does, and names mean the same job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.workloads import World, random_world
from wattqueue.errors import PolicyError
from wattqueue.kernels import codes
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action, Requeue, SetFrequency, StartJob, StopNode, WakeNode
from wattqueue.parts.contracts import Entries, Prediction, Start
from wattqueue.parts.ledger.chance import Chance
from wattqueue.parts.ledger.measured import Measured
from wattqueue.parts.ledger.predicted import Predicted
from wattqueue.policy.actions import KINDS
from wattqueue.policy.capabilities import EVENT_BITS, DriverAbilities, require_carried_out, resolve
from wattqueue.policy.consent_windows import Window
from wattqueue.policy.decide import PolicySnapshot, RunningJobs, decide, snapshot_of
from wattqueue.policy.events import EventWatch
from wattqueue.policy.identity import JobNames
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.round import NO_AGENT, ROUND, Round, round_abilities
from wattqueue.policy.session import InstantResult, Session, replay_instant, set_margin
from wattqueue.policy.view import View
from wattqueue.sim.engine import Simulation, simulate
from wattqueue.sim.world import ABILITIES, SimulatedWorld

SEEDS = st.integers(0, 2**32 - 1)
NO_RUNNING = RunningJobs(*(np.zeros(0, kind) for kind in "ihdqqiii"))


# -- the same answers from a snapshot and from a view that was kept up to date -------------------------


class Scripted:
    """A control that does what a function of its tick and its view says."""

    events: frozenset[str] = frozenset()

    def __init__(self, script: Callable[[int, View], Sequence[Action]], period_s: float = 7.0) -> None:
        self.script, self.period_s, self.ticks = script, period_s, 0

    def act(self, view: View) -> Sequence[Action]:
        self.ticks += 1
        return self.script(self.ticks - 1, view)


class KeepsFree(Predicted):
    """A ledger with a margin of its own, although its base has none."""

    def margin_w(self, view: View) -> float:
        return 20.0 * (len(view.running) % 3)


class LastFirst:
    """Ranks at each pass: the last entry of the queue goes first."""

    def __init__(self, entries: Any) -> None:
        self.entries = entries

    def rerank(self, view: View) -> Any:
        return np.arange(len(view.queue), dtype=np.float64)


class EveryOther:
    """A pass in Python: each second entry that fits, and one start that never fits."""

    def schedule(self, view: View) -> Sequence[Start]:
        wanted = [Start(int(entry), view.entry_options(int(entry))[-1]) for entry in view.queue[::2]]
        return [*wanted, Start(10**6, 0)]


PARTS: dict[str, Callable[[World], dict[str, Any]]] = {
    "margin": lambda _: {"ledger": KeepsFree()},
    "rank": lambda world: {"order": LastFirst(world.ready.entries)},
    "pass": lambda _: {"backfill": EveryOther()},
    "rank with chance": lambda world: {"order": LastFirst(world.ready.entries), "ledger": Chance(own=0.04)},
}


class Shadowed(Session):
    """A session that has every instant decided a second time, on a snapshot of it, by a second session."""

    def __init__(self, policy: Policy, script: Callable[[int, View], Sequence[Action]]) -> None:
        super().__init__(policy, resolve(policy), begin_s=0.0)
        self.other = Session(twin := replace(policy, controls=(Scripted(script),)), resolve(twin), begin_s=0.0)
        self.round: Round | None = None
        self.actions: tuple[Action, ...] = ()
        self.compared = 0

    def control(self, driver: Any, now_s: float, happened: int, count: Any = None) -> list[Action]:
        self.round = copied(driver, self)
        done = super().control(driver, now_s, happened, count)
        assert self.other.control(self.round, now_s, happened) == done
        assert self.other.refused == self.refused
        self.compared += 1
        self.actions = tuple(done)
        return done

    def schedule(self, driver: Any) -> Any:
        if self.round is None or self.round.kernel.now.time_s != driver.kernel.now.time_s:
            self.round, self.actions = copied(driver, self), ()
        answers, theirs = super().schedule(driver), self.other.schedule(self.round)
        assert answers.margin_w == theirs.margin_w
        count = int(driver.kernel.now.starts)
        jobs = [driver.names.name(int(job)) for job in driver.kernel.entries.job[driver.kernel.start_entry[:count]]]
        starts = self.round.starts()
        assert [start.job for start in starts] == jobs
        assert [start.option for start in starts] == driver.kernel.start_option[:count].tolist()
        again = copied_of(self.round)
        assert replay_instant(again, self.needs, InstantResult(self.actions, theirs)) == (not theirs.starts)
        assert again.starts() == starts
        assert again.kernel.now.margin_uw == self.round.kernel.now.margin_uw
        self.compared += 1
        return answers


def copied(driver: SimulatedWorld, session: Session) -> Round:
    """A round on a snapshot of the simulated present: another job table, and rows of its own."""
    settings = session.needs.pass_settings(driver.machine.cap_scope)
    snapshot, _ = snapshot_of(driver.view(()), settings)
    # The margin of the last pass is the session's to set again.
    return Round(replace(snapshot, margin_w=0.0), ROUND, driver.truth.unit_state)


def copied_of(now: Round) -> Round:
    return now.wider(now.snapshot)


def taking(seed: int, world: World) -> Callable[[int, View], Sequence[Action]]:
    """Actions that take units and watts: what they free is the same in both drivers, which is nothing."""
    options, units = len(world.machine.option_partition), world.machine.units

    def script(tick: int, view: View) -> Sequence[Action]:
        rng = np.random.default_rng((seed, tick))
        queued = view.job_ids(view.kernel.entries.job[view.queue])
        found: list[Action] = []
        for kind in rng.integers(3, size=int(rng.integers(0, 4))).tolist():
            if kind == 0 and queued:
                job = queued[int(rng.integers(len(queued)))]
                p, option = int(rng.integers(len(world.machine.partitions))), int(rng.integers(options))
                found.append(StartJob(job, p, (), option))
            elif kind == 1 and tick < 40:
                found.append(StopNode(int(rng.integers(units))))
            else:
                found.append(WakeNode(int(rng.integers(units))))
        return [*found, *(WakeNode(u) for u in range(units) if tick > 40)]

    return script


def stops_free_nothing(world: World) -> World:
    """The same world, where shutting down draws as much as idling."""
    parts = tuple(replace(p, shutdown_w=max(p.shutdown_w, p.idle_w)) for p in world.machine.partitions)
    return replace(world, machine=Machine("random", parts, world.machine.cap_scope))


LONG = "rank with chance"
"""Two seconds a world: two of them here, eight among the slow tests."""


@pytest.mark.parametrize("parts", [pytest.param(n, marks=pytest.mark.slow if n == LONG else ()) for n in PARTS])
@settings(max_examples=8)
@given(SEEDS)
def test_a_round_on_a_snapshot_answers_as_the_simulator_does(parts: str, seed: int) -> None:
    answers_as_the_simulator(parts, seed)


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(2))
def test_a_round_with_a_margin_of_chance_answers_as_the_simulator_does(seed: int) -> None:
    answers_as_the_simulator(LONG, seed)


def answers_as_the_simulator(parts: str, seed: int) -> None:
    """Decide every instant of a random world a second time, on a snapshot of it."""
    world = stops_free_nothing(random_world(seed, failures=seed % 3 == 0))
    if parts == LONG and world.code == codes.CONSERVATIVE:
        world = replace(world, code=codes.EASY)
    chosen = PARTS[parts](world)
    custom = chosen.get("backfill")
    if custom is not None:
        custom.pass_interval_s = world.interval_s
    script = taking(seed, world)
    policy = replace(world.policy(), **chosen, controls=(Scripted(script),))
    simulation = Simulation(world.jobs, world.machine, policy, world.cap, world.actual, world.events)
    simulation.session = shadow = Shadowed(simulation.policy, script)
    simulation.session.due = [float(world.jobs.submit_s.min())]
    shadow.other.due = list(simulation.session.due)
    simulation.go()
    assert shadow.compared > 0


def known(*columns: Any, **more: Any) -> KnownJobs:
    return KnownJobs.of(Jobs.build(*columns, **more))


# -- what a round frees, and what it does not ---------------------------------------------------------


def busy_round(cap_w: float = np.inf, states: Sequence[int] = (0, 0, 0, 2)) -> Round:
    """Four nodes of 100 to 300 W: job a runs on 0 and 1, b waits for two, c for one; node 2 is free, node 3 is off."""
    machine = replace(plain_machine(4, 100.0, 300.0))
    part = replace(machine.partitions[0], boot_w=150.0, shutdown_w=250.0, boot_s=10.0, shutdown_s=10.0, off_w=5.0)
    machine = Machine("four", (part,))
    jobs = known([0.0, 1.0, 2.0], [2, 2, 1], [50.0] * 3, job_id=np.array(["a", "b", "c"], object))
    one = np.zeros(1, np.int32)
    running = RunningJobs(
        one,
        one.astype(np.int16),
        np.array([50.0]),
        np.array([400_000_000]),
        one.astype(np.int64),
        one + 1,
        one,
        one + 1,
    )
    waiting = np.array([1, 2], np.int32)
    entries = Entries(waiting, np.zeros(2, np.int32), np.zeros(2))
    window = Window(np.zeros(2, np.int16), np.zeros(2, np.int16))
    settings = resolve(load_policy("easy")).pass_settings("machine")
    off = np.flatnonzero(np.array(states) == codes.UNIT_OFF).astype(np.int32)
    base = 300_000_000 + 5_000_000
    prediction = Prediction(np.full((1, 1), 300.0), np.ones((1, 1)))
    snapshot = PolicySnapshot(
        10.0,
        jobs,
        machine,
        prediction,
        entries,
        window,
        settings,
        running,
        cap_w,
        base_uw=base,
        unusable=off,
    )
    return Round(snapshot, ROUND, np.array(states, np.int8))


def session_with(*controls: Any, **parts: Any) -> Session:
    policy = replace(load_policy("easy"), controls=controls, **parts)
    return Session(policy, resolve(policy))


def with_ledger(ledger: Any) -> Policy:
    return replace(load_policy("easy"), ledger=ledger)


def act_once(now: Round, *actions: Action) -> tuple[Session, list[Action]]:
    session = session_with(Scripted(lambda _tick, _view: list(actions)))
    return session, session.control(now, 10.0, 0)


def test_a_requeue_frees_nothing_in_its_round() -> None:
    now = busy_round()
    session, done = act_once(now, Requeue("a"), Requeue("a"), Requeue("b"), Requeue("nobody"))
    assert done == [Requeue("a")]
    assert session.refused == {"wrong state": 3}
    session.schedule(now)
    assert [start.job for start in now.starts()] == ["c"]  # b still waits for the units of a
    assert now.requeued == ["a"]


def test_a_job_under_way_is_not_requeued() -> None:
    now = busy_round()
    now.under_way = frozenset({"a"})
    assert act_once(now, Requeue("a"))[1] == []


def test_a_stopped_unit_takes_no_job_and_keeps_its_idle_watts() -> None:
    now = busy_round(cap_w=1e6)
    before = now.kernel.now.available_uw
    session, done = act_once(now, StopNode(2), StopNode(2), StopNode(0), StopNode(9))
    assert done == [StopNode(2)]
    assert dict(session.refused) == {"wrong state": 1, "no free unit": 1, "no such option": 1}
    assert before - now.kernel.now.available_uw == 150_000_000  # 250 W of the shutdown, 100 W of them idle
    session.schedule(now)
    assert now.starts() == []
    assert now.powered == {2: codes.UNIT_STOPPING}


@pytest.mark.parametrize(("spare_w", "wakes"), [(145.0, True), (144.0, False)])
def test_a_unit_that_boots_counts_from_the_round_that_wakes_it(spare_w: float, wakes: bool) -> None:
    now = busy_round(cap_w=305.0 + 400.0 + spare_w)
    session, done = act_once(now, WakeNode(3), WakeNode(2))
    assert (done == [WakeNode(3)]) is wakes
    assert now.base_added_uw == (145_000_000 if wakes else 0)
    assert session.refused["wrong state"] == 1  # node 2 is on
    assert session.refused["not enough power below the cap"] == (0 if wakes else 1)


def test_what_a_control_does_is_seen_by_the_next_and_makes_none_due_again() -> None:
    seen: list[tuple[str, str]] = []

    def look(_tick: int, view: View) -> Sequence[Action]:
        seen.append((view.unit_state_of(2), ",".join(refusal.reason for refusal in view.refusals)))
        return []

    first, second = Scripted(lambda *_: [StopNode(2), WakeNode(0)]), Scripted(look)
    second.events = frozenset({"node"})
    session, now = session_with(first, second), busy_round()
    session.control(now, 10.0, 0)
    session.control(busy_round(), 11.0, 0)
    assert seen == [("stopping", "wrong state")]


def test_frequencies_and_limits_are_refused_with_a_reason() -> None:
    session, done = act_once(busy_round(), SetFrequency("a", 0))
    assert done == []
    assert session.refused == {NO_AGENT: 1}


def test_a_site_refuses_actions_of_its_own() -> None:
    now = busy_round()
    now.abilities = round_abilities({StopNode: "not here"})
    assert act_once(now, StopNode(2))[0].refused == {"not here": 1}


@pytest.mark.parametrize("abilities", [ABILITIES, ROUND], ids=lambda a: a.name)
def test_every_driver_knows_every_action(abilities: DriverAbilities) -> None:
    assert set(abilities.actions) == set(KINDS)


# -- names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        ([1, 2, 3], ["1", "2", "3"]),
        ([7, 9, 8], ["7", "9", "8"]),
        ([5, 5, 7], ["5", "5#2", "7"]),
        (["12_1", "12_2", "9"], ["12_1", "12_2", "9"]),
        (["a", "a#2", "a"], ["a", "a#2", "a#3"]),
        ([3], ["3"]),
        ([], []),
    ],
)
def test_names_are_unique_and_lead_back(ids: list[Any], names: list[str]) -> None:
    table = JobNames(np.array(ids, object if ids and isinstance(ids[0], str) else np.int64))
    assert [table.name(row) for row in range(len(ids))] == names
    assert [table.row(name) for name in names] == list(range(len(ids)))
    for stranger in ("0", "4711", "", "01", " 1", "x", "-1"):
        assert table.row(stranger) == -1 or stranger in names
    with pytest.raises(TypeError):
        table.row(1)  # type: ignore[arg-type]


class Remembers:
    """Requeues the job that it saw first, a while later: by name, whatever row it has then."""

    period_s = 5.0
    events: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.first = ""
        self.rows: list[int] = []

    def act(self, view: View) -> Sequence[Action]:
        running = view.job_ids(view.running)
        if not self.first and running:
            self.first = running[-1]
        self.rows.append(view.job_row(self.first))
        return [Requeue(self.first)] if len(self.rows) == 3 else []


def test_a_remembered_job_is_the_same_job_though_its_row_is_another() -> None:
    control = Remembers()
    session = session_with(control)
    done: list[list[Action]] = []
    for names in (["x", "y", "z"], ["z", "y"], ["y"]):
        done.append(session.control(running_round(names), 5.0 * (1 + len(done)), 0))
    assert control.first == "z"
    assert control.rows == [2, 0, -1]
    assert done == [[], [], []]
    assert session.refused == {"wrong state": 1}
    same = Remembers()
    jobs = Jobs.build([0.0, 0.0], [1, 1], [60.0, 60.0])
    run = simulate(jobs, plain_machine(2), replace(load_policy("easy"), controls=(same,)))
    assert (same.first, run.schedule.start_s.tolist()) == ("2", [0.0, 10.0])


def running_round(names: Sequence[str]) -> Round:
    """A round in which these jobs run, one node each."""
    n = len(names)
    jobs = known(np.zeros(n), np.ones(n, int), np.full(n, 100.0), job_id=np.array(names, object))
    rows, ends = np.arange(n, dtype=np.int32), np.full(n, 100.0)
    running = RunningJobs(
        rows, np.zeros(n, np.int16), ends, np.zeros(n, np.int64), rows.astype(np.int64), rows * 0 + 1, rows, rows
    )
    none = np.zeros(0, np.int32)
    settings = resolve(load_policy("easy")).pass_settings("machine")
    prediction = Prediction(np.ones((1, 1)), np.ones((1, 1)))
    return Round(
        PolicySnapshot(
            0.0,
            jobs,
            plain_machine(4),
            prediction,
            Entries(none, none, np.zeros(0)),
            Window(none, none),
            settings,
            running,
        ),
        ROUND,
    )


# -- capabilities -----------------------------------------------------------------------------------


class Ranked:
    def rank(self, apps: int, machine: Machine, prediction: Prediction) -> Any:
        return np.zeros((apps, machine.units))


WITHOUT_NAMES = replace(ROUND, ranked_placement=False)
"""A live controller that may not ask for nodes by name."""
UNMEASURED = replace(ROUND, telemetry=False)
"""A live controller without a source of power."""


@pytest.mark.parametrize(
    ("driver", "change"),
    [
        (ABILITIES, {"ledger": Measured()}),
        (UNMEASURED, {"ledger": Measured()}),
        (WITHOUT_NAMES, {"placement": Ranked()}),
    ],
)
def test_what_a_driver_does_not_carry_out_is_refused(change: dict[str, Any], driver: DriverAbilities) -> None:
    policy = replace(load_policy("easy"), **change)
    with pytest.raises(PolicyError) as caught:
        require_carried_out(
            policy, resolve(policy), driver, 1, plain_machine(1), Prediction(np.ones((1, 1)), np.ones((1, 1)))
        )
    assert caught.value.where == "easy"
    assert driver.name in caught.value.what
    assert caught.value.hint


def test_a_ledger_that_overrides_a_stock_margin_is_asked() -> None:
    assert resolve(load_policy("easy")).margin_w is None
    assert resolve(with_ledger(KeepsFree())).margin_w is not None
    machine, jobs = plain_machine(2, 0.0, 100.0), Jobs.build([0.0, 0.0], [1, 1], [10.0, 10.0])
    run = simulate(jobs, machine, with_ledger(KeepsAll()), cap=Cap.constant(200.0))
    assert run.schedule.start_s.tolist() == [0.0, 10.0]


class KeepsAll(Predicted):
    def margin_w(self, view: View) -> float:
        return 100.0


def test_a_margin_is_taken_out_of_the_budget_and_given_back_when_it_falls() -> None:
    kernel = busy_round(1_000.0).kernel
    whole = int(kernel.now.available_uw)
    for margin_w in (30.0, 70.0, 0.0):
        kernel.now.dirty = 0
        set_margin(kernel, margin_w)
        assert kernel.now.available_uw == whole - round(margin_w * 1e6)
        assert kernel.now.dirty == 1, "the next pass looks at all that did not fit"


def test_a_chance_ledger_may_be_ranked_at_each_pass() -> None:
    """Jobs of 100 and 400 W, margin 0.465 sqrt(sum of squares): 586 W for the second alone, 692 W for both."""
    machine = plain_machine(5, 0.0, 100.0)
    jobs = Jobs.build([0.0, 0.0], [1, 4], [10.0, 10.0])
    easy = load_policy("easy")
    policy = replace(with_ledger(Chance(own=0.04, common=0.0)), order=LastFirst(easy.order.entries))
    for cap_w, starts in ((690.0, [10.0, 0.0]), (695.0, [0.0, 0.0])):
        assert simulate(jobs, machine, policy, cap=Cap.constant(cap_w)).schedule.start_s.tolist() == starts


def test_a_snapshot_keeps_its_own_reserve_under_a_chance_ledger() -> None:
    jobs = known(np.zeros(4), np.ones(4, int), np.full(4, 60.0))
    none = np.zeros(4, np.int32)
    entries, window = Entries(np.arange(4, dtype=np.int32), none, np.zeros(4)), Window(none, none)
    prediction = Prediction(np.full((1, 1), 100.0), np.ones((1, 1)))
    settings = resolve(load_policy("easy", ledger={"part": "chance", "own": 0.0, "common": 0.0}))
    at = PolicySnapshot(
        0.0, jobs, plain_machine(4, 0.0, 200.0), prediction, entries, window, settings.pass_settings("machine"),
        NO_RUNNING, 400.0, 150.0,
    )  # fmt: skip
    assert len(decide(at)) == 2
    assert len(decide(replace(at, margin_w=0.0))) == 4


# -- events of a round ------------------------------------------------------------------------------


def words(bits: int) -> set[str]:
    return {name for name, bit in EVENT_BITS.items() if bits & bit}


def test_events_are_changes_between_two_observations() -> None:
    watch, on = EventWatch(), np.zeros(3, np.int8)
    assert words(watch.observe(["a"], [], 10.0, on)) == {"arrival"}
    assert words(watch.observe(["a"], [], 10.0, on)) == set()
    # a starts while b arrives: as many wait as before
    assert words(watch.observe(["b"], ["a"], 10.0, on)) == {"arrival", "start"}
    # a ends while b starts: as many run as before
    assert words(watch.observe([], ["b"], 10.0, on)) == {"completion", "start"}
    # a requeued job has neither arrived nor ended
    assert words(watch.observe(["b"], [], 10.0, on)) == set()
    assert words(watch.observe(["b"], [], 20.0, on)) == {"signal"}


def test_a_unit_that_does_as_it_was_told_is_no_event() -> None:
    watch, states = EventWatch(), np.zeros(2, np.int8)
    watch.observe([], [], 1.0, states)
    watch.ask(0, codes.UNIT_STOPPING)
    assert words(watch.observe([], [], 1.0, states)) == set()
    states[0] = codes.UNIT_STOPPING
    assert words(watch.observe([], [], 1.0, states)) == set()
    states[0] = codes.UNIT_OFF
    assert words(watch.observe([], [], 1.0, states)) == {"node"}
    states[1] = codes.UNIT_DOWN
    assert words(watch.observe([], [], 1.0, states)) == {"node"}
