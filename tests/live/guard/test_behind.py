"""Controllers behind a guard: the tests of other modules as they stand, with every row that live carries out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.live import (
    test_conformance,
    test_corrected_live,
    test_in_flight_live,
    test_job_energy,
    test_ledger_meter,
    test_live_budgets,
    test_measured_ledger_live,
    test_node_limits,
    test_parking,
    test_placement,
    test_replay,
    test_shared_nodes,
    test_telemetry_cap,
)
from tests.live.drive import lab_machine
from tests.live.fakeslurm import FakeSlurm
from tests.live.guard.behind import Behind
from tests.live.python_policies import POLICIES
from tests.live.test_controller import Meter
from tests.live.test_energy_afterwards import Accounting
from tests.profiles import sampled
from wattqueue.live.apply import LEFT_OUT
from wattqueue.live.config import LiveConfig
from wattqueue.live.controller import Controller
from wattqueue.live.guard.checks import LOW, NO_CONSENT
from wattqueue.live.guard.required import lacking
from wattqueue.live.planner import Rules
from wattqueue.live.watts.bound import ABOVE
from wattqueue.model.signals import Cap

MODULES = (
    test_conformance, test_in_flight_live, test_job_energy, test_ledger_meter, test_measured_ledger_live,
    test_node_limits, test_parking, test_placement, test_replay, test_shared_nodes, test_telemetry_cap,
)  # fmt: skip
SLOWER = lab_machine(8, (2e9, 1e9))
ALL = frozenset({"estimates", "limits", "frequencies"})
LIMITS = frozenset({"limits"})


@pytest.fixture
def behind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Behind:
    """Put the controllers of the test modules behind a guard; the parameter is what it accepts."""
    found = Behind(getattr(request, "param", {}))
    for module in MODULES:
        monkeypatch.setattr(module, "make_controller", found)
    return found


def nothing_refused(behind: Behind) -> None:
    assert behind.made
    assert [error for one in behind.made for error in one.refused] == []


@pytest.mark.parametrize("policy", ["fcfs", "first-fit", "easy", "conservative"])
def test_the_simulator_and_a_guarded_slurm_agree(policy: str, behind: Behind, tmp_path: Path) -> None:
    test_conformance.test_the_simulator_and_the_fake_slurm_agree(policy, tmp_path)
    nothing_refused(behind)


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_shared_nodes_change_nothing(policy: str, behind: Behind, tmp_path: Path) -> None:
    test_conformance.test_shared_nodes_change_no_decision_about_the_others(policy, tmp_path)
    nothing_refused(behind)


@pytest.mark.parametrize("behind", [{"accepted": ALL}], indirect=True)
@pytest.mark.parametrize("margin", [0.9, 1.2])
def test_corrections_behind_a_base(margin: float, behind: Behind, tmp_path: Path) -> None:
    """Factors of nodes and a margin: jobs count, and are licensed, what the corrected estimator predicts."""
    chosen = test_corrected_live.policy("history-mean", {"part": "margin", "factor": margin}, placement="least-watts")
    slurm = test_placement.cluster()
    controller = test_placement.controller_of(slurm, tmp_path, policy=chosen)
    jobs = [test_placement.submit(slurm, seconds=8.0) for _ in range(4)]
    test_placement.run(controller, slurm, 20)
    nothing_refused(behind)
    assert {job.state for job in jobs} == {"COMPLETED"}
    assert controller.troubles == {}


@pytest.mark.parametrize("behind", [{"accepted": ALL}], indirect=True)
@pytest.mark.parametrize("feature", sampled(test_conformance.FEATURES, {"plain", "moving cap", "all"}))
def test_every_feature(feature: str, behind: Behind, tmp_path: Path) -> None:
    test_conformance.test_a_round_over_the_fake_is_decided_alike_on_its_snapshot(feature, tmp_path)


@pytest.mark.parametrize("behind", [{"accepted": ALL}], indirect=True)
@pytest.mark.parametrize("feature", ["plain", "looking ahead", "controls", "margin", "run times"])
def test_shared_nodes_that_are_drained_and_come_back(feature: str, behind: Behind, tmp_path: Path) -> None:
    caps = test_conformance.caps_beside_shared_nodes(feature, tmp_path)
    assert {1400.0, 1000.0, 1700.0} <= caps
    assert max(caps) == 1700.0, "the guard leaves no more while a shared node is drained"


@pytest.mark.parametrize("name", sampled(["right", "frozen", "missing", "too high", "too low"], {"frozen", "too low"}))
@pytest.mark.parametrize(
    ("behind", "overshoot_w"),
    [({}, 500.0), ({"accepted": LIMITS}, 0.0), ({"accepted": LIMITS}, 500.0), ({"accepted": ALL}, 500.0)],
    indirect=["behind"],
)
def test_whatever_a_meter_shows(name: str, overshoot_w: float, behind: Behind, tmp_path: Path) -> None:
    """Licences that follow a meter need no more than the overshoot that the site accepts."""
    test_telemetry_cap.test_whatever_a_meter_shows_power_exceeds_the_cap_by_no_more_than_the_site_accepts(
        tmp_path, name, overshoot_w
    )


def test_an_accepted_overshoot_is_used(behind: Behind, tmp_path: Path) -> None:
    test_telemetry_cap.test_what_the_site_accepts_is_used(tmp_path)


@pytest.mark.parametrize("behind", [{"accepted": LIMITS}], indirect=True)
def test_ledgers_that_follow_measurements(behind: Behind, tmp_path: Path) -> None:
    for number, module in enumerate((test_in_flight_live, test_measured_ledger_live)):
        folder = tmp_path / str(number)
        folder.mkdir()
        module.test_jobs_that_draw_less_than_predicted_make_room(folder)
    test_ledger_meter.test_a_margin_grows_where_jobs_draw_more_than_was_admitted(tmp_path)
    nothing_refused(behind)


PARKED = {
    "parked": test_parking.test_consenting_jobs_are_parked_and_continue_and_others_are_not_touched,
    "limits move": test_parking.test_the_limit_of_a_parked_job_is_ahead_of_the_clock_and_moves_by_the_pause,
    "withdrawn": test_parking.test_withdrawn_consent_is_honoured_as_soon_as_the_limit_allows,
    "given later": test_parking.test_consent_that_is_given_during_a_target_is_taken,
    "requeued": test_parking.test_a_job_with_checkpoints_is_requeued_and_starts_again_after_the_target,
    "continued by somebody": test_parking.test_a_parked_job_that_somebody_continues_is_parked_again_or_gets_its_watts,
    "requeued by somebody": test_parking.test_a_parked_job_that_ends_or_is_requeued_is_forgotten,
}


@pytest.mark.parametrize("test", PARKED.values(), ids=PARKED)
def test_parking_with_consent(test: Any, behind: Behind, tmp_path: Path) -> None:
    test(test_parking.Place(tmp_path))
    assert behind.made


LIMITED = {
    "none before limits hold": test_node_limits.test_nothing_starts_before_the_limits_that_hold_the_budget_are_in_force,
    "watts follow the load": test_node_limits.test_watts_follow_the_load_and_the_budget_holds,
    "licences follow": test_node_limits.test_licences_follow_what_is_measured_where_limits_keep_the_cap,
    "decided again": test_node_limits.test_a_recorded_round_with_limits_is_decided_again,
    "without agents": test_node_limits.test_without_agents_limits_are_refused_and_reported,
    "slowed down": test_node_limits.test_a_running_job_is_slowed_down_and_its_limit_stretches,
    "no agent": test_node_limits.test_a_frequency_that_no_agent_sets_is_refused,
    "faster": test_node_limits.test_a_job_goes_faster_only_when_there_is_room_and_its_licence_is_raised,
}
"""Every test of limits that makes a controller."""


@pytest.mark.parametrize("behind", [{"accepted": LIMITS}], indirect=True)
@pytest.mark.parametrize("test", LIMITED.values(), ids=LIMITED)
def test_limits_of_agents(test: Any, behind: Behind, tmp_path: Path) -> None:
    behind.cap = Cap.constant(4 * test_node_limits.MOST_W)  # that of the controller rises in one test
    test(tmp_path)
    nothing_refused(behind)


def test_every_test_of_limits_that_makes_a_controller_runs_behind_a_guard() -> None:
    made = {"Live", "turning", "measured", "make_controller"}
    tests = (value for name, value in vars(test_node_limits).items() if name.startswith("test_"))
    assert {one for one in tests if made & {*one.__code__.co_names}} == set(LIMITED.values())


def test_shared_nodes_and_a_cap_that_falls(behind: Behind, tmp_path: Path) -> None:
    test_shared_nodes.test_eleven_jobs_on_two_shared_nodes_count_two_nodes(tmp_path)


def test_no_more_is_asked_for_than_the_guard_leaves_beside_nodes_out_of_service(behind: Behind, tmp_path: Path) -> None:
    """It counts shared nodes that are drained, and managed ones that are off, as if they were in service.

    The planner asked for their watts in every round, and planned on them: the policy released what could not start.
    """
    slurm = test_shared_nodes.make_slurm()
    slurm.drained |= {"s1": "the site's own", "s2": "the site's own"}
    controller = behind(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1600.0), shared_nodes=test_shared_nodes.SHARED
    )
    for _ in range(4):
        slurm.submit(1, 4.0, watts=200, partition="p1")
    open_w = []
    for _ in range(20):
        assert controller.round() is not None
        open_w.append(slurm.total_w - slurm.reserved_w)
        slurm.step()
    nothing_refused(behind)
    assert set(open_w) == {1600 - 800 - 300}, "the shared nodes' maximum, drained or not"
    assert not slurm.running(), "all were started and ended"


def worked(behind: Behind, folder: Path, policy: str) -> tuple[FakeSlurm, Controller]:
    """Twenty jobs of one to three nodes under a cap for four, and three when 180 W a node were accounted for them."""
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)
    rules = Rules("control", write_priority=False, power_nodes=True)
    controller = behind(
        slurm, folder, lambda: slurm.now_s, cap=Cap.constant(1700.0), policy=POLICIES[policy](), rules=rules,
        machine=SLOWER, sources=(Meter(slurm),), accounting=Accounting(slurm),
    )  # fmt: skip
    for k in range(150):
        if k < 20 or k in (70, 80, 90):
            slurm.submit(1 + k % 3, 4.0 + k % 5, watts=200 * (1 + k % 3), partition="p1,p2")
        assert controller.round() is not None
        slurm.step()
    return slurm, controller


WORKED = {"plain", "learning estimator", "frequency choice", "all"}
"""Rows that need nothing, and one of each kind that a guard has to accept."""


def needed(policy: str, **told: Any) -> list[str]:
    """What a guard that says this of itself would refuse of a policy."""
    config = LiveConfig(machine="lab", mode="control")
    return [lack.what for lack in lacking(config, POLICIES[policy](), SLOWER, told)]


@pytest.mark.parametrize("policy", sampled(POLICIES, WORKED))
@pytest.mark.parametrize("behind", [{"last_resort": frozenset({"requeue"})}], indirect=True)
def test_what_is_said_at_the_start_is_what_the_guard_refuses_later(policy: str, behind: Behind, tmp_path: Path) -> None:
    """A row that needs nothing more is refused no write; of any other each start below the maximum is refused."""
    slurm, controller = worked(behind, tmp_path, policy)
    low = [job for job in slurm.jobs.values() if job.starts and job.licences["watts"] < 200 * job.nodes]
    assert low == []
    refused = {error for one in behind.made for error in one.refused}
    if not needed(policy):
        assert refused == set()
        return
    assert refused == {f"{LEFT_OUT}: {LOW}"}
    assert "COMPLETED" in {job.state for job in slurm.jobs.values()}, "others go on"
    waiting = {job.name for job in slurm.jobs.values() if job.state == "PENDING"}
    assert controller.last is not None
    errors = {one.write.key.name for one in controller.last.outcomes if one.error and one.write.key is not None}
    assert not waiting or errors & waiting, "why stands in the status"


ACCEPTED_OF = {
    "learning estimator": {"estimates"},
    "frequency choice": {"frequencies"},
    "run times and frequencies": {"frequencies"},
    "all": {"estimates"},
}


@pytest.mark.parametrize("policy", sampled(POLICIES, WORKED))
def test_a_guard_that_accepts_what_is_needed_refuses_nothing(policy: str, behind: Behind, tmp_path: Path) -> None:
    accepted = frozenset(ACCEPTED_OF.get(policy, ()))
    assert len(needed(policy)) == len(accepted)
    assert needed(policy, accepted=accepted) == []
    behind.accepts = {"accepted": accepted, "last_resort": frozenset({"requeue"})}
    slurm, _ = worked(behind, tmp_path, policy)
    # a control of this row switches a node off, and the guard counts it as idle
    allowed = {f"{LEFT_OUT}: {ABOVE}"} if policy == "all" else set()
    assert {error for one in behind.made for error in one.refused} <= allowed
    low = [job for job in slurm.jobs.values() if job.starts and job.licences["watts"] < 200 * job.nodes]
    assert bool(low) == bool(accepted)


@pytest.mark.parametrize("behind", [{}, {"last_resort": frozenset({"requeue"})}], indirect=True)
def test_jobs_are_requeued_without_consent_only_as_a_last_resort(behind: Behind, tmp_path: Path) -> None:
    slurm, _ = worked(behind, tmp_path, "controls")
    assert {job.state for job in slurm.jobs.values()} == {"COMPLETED"}
    assert (sum(job.restarts for job in slurm.jobs.values()) > 0) == bool(behind.accepts)
    assert any(NO_CONSENT in error for one in behind.made for error in one.refused) != bool(behind.accepts)


@pytest.mark.parametrize("behind", [{"accepted": ALL}], indirect=True)
@pytest.mark.parametrize("case", ["meters", "in-flight", "requeued", "no telemetry"])
def test_budgets(case: str, behind: Behind, tmp_path: Path) -> None:
    test_live_budgets.test_a_budget_beside_its_neighbours(tmp_path, case)
    nothing_refused(behind)


def test_what_the_guard_refuses_is_not_set_aside_and_starts_when_it_may(behind: Behind, tmp_path: Path) -> None:
    """The guard's cap has room for one job until it rises, the controller's for all: it releases what is refused."""
    slurm = test_job_energy.lab()
    behind.cap = Cap(np.array([-np.inf, slurm.now_s + 600.0]), np.array([1_000.0, 2_400.0]))
    test_live_budgets.file(tmp_path, 2.5 * test_live_budgets.most_kwh(1, 600.0), period="month")
    controller = test_live_budgets.start(slurm, tmp_path, sources=(test_job_energy.Meters(slurm, lambda _: 150.0),))
    jobs = [slurm.submit(1, 100.0, watts=200, limit_s=600.0, partition="p1") for _ in range(6)]
    books = test_live_budgets.of(controller)
    for _ in range(200):
        test_job_energy.rounds(controller, slurm, 20.0, 10.0)
        test_live_budgets.conserved(books)
        if slurm.now_s < behind.cap.time_s[1]:
            assert len(slurm.running()) <= 1
            running = {f"{job.name}@{job.submit_s:.0f}" for job in slurm.running()}
            assert len(books.held.keys() - running) <= 2, "released, or about to be settled"
        if all(job.state == "COMPLETED" for job in jobs) and not books.held:
            break
    assert {job.state for job in jobs} == {"COMPLETED"}
    assert any(one.refused for one in behind.made)
    energy_j = sum(one.energy_j for one in test_job_energy.recorded(tmp_path))
    assert sum(books.books.books[0].used.values()) == pytest.approx(1e3 * energy_j, abs=10)
