"""Controllers behind a guard: the tests of other modules as they stand, with every row that live carries out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.live import (
    test_conformance,
    test_in_flight_live,
    test_ledger_meter,
    test_measured_ledger_live,
    test_node_limits,
    test_parking,
    test_replay,
    test_shared_nodes,
    test_telemetry_cap,
)
from tests.live.drive import lab_machine
from tests.live.fakeslurm import FakeSlurm
from tests.live.guard.behind import Behind
from tests.live.python_policies import POLICIES
from tests.live.test_controller import Meter
from wattqueue.live.apply import LEFT_OUT
from wattqueue.live.controller import Controller
from wattqueue.live.guard.checks import LOW, NO_CONSENT
from wattqueue.live.planner import Rules
from wattqueue.model.signals import Cap

MODULES = (
    test_conformance, test_in_flight_live, test_ledger_meter, test_measured_ledger_live, test_node_limits, test_parking,
    test_replay, test_shared_nodes, test_telemetry_cap,
)  # fmt: skip
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
@pytest.mark.parametrize("feature", test_conformance.FEATURES)
def test_every_feature(feature: str, behind: Behind, tmp_path: Path) -> None:
    test_conformance.test_a_round_over_the_fake_is_decided_alike_on_its_snapshot(feature, tmp_path)


@pytest.mark.parametrize("behind", [{"accepted": ALL}], indirect=True)
@pytest.mark.parametrize("feature", ["plain", "looking ahead", "controls", "margin", "run times"])
def test_shared_nodes_that_are_drained_and_come_back(feature: str, behind: Behind, tmp_path: Path) -> None:
    test_conformance.test_a_round_beside_shared_nodes_is_decided_alike_on_its_snapshot(feature, tmp_path)


@pytest.mark.parametrize("name", ["right", "frozen", "missing", "too high", "too low"])
@pytest.mark.parametrize("overshoot_w", [0.0, 500.0])
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


@pytest.mark.parametrize("behind", [{"accepted": LIMITS}], indirect=True)
def test_limits_of_agents(behind: Behind, tmp_path: Path) -> None:
    test_node_limits.test_watts_follow_the_load_and_the_budget_holds(tmp_path)


def test_shared_nodes_and_a_cap_that_falls(behind: Behind, tmp_path: Path) -> None:
    test_shared_nodes.test_eleven_jobs_on_two_shared_nodes_count_two_nodes(tmp_path)


def worked(behind: Behind, folder: Path, policy: str) -> tuple[FakeSlurm, Controller]:
    """Twenty jobs of one to three nodes under a cap for four, until all are done or 120 s have passed."""
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)
    rules = Rules("control", write_priority=False, power_nodes=True)
    controller = behind(
        slurm, folder, lambda: slurm.now_s, cap=Cap.constant(1700.0), policy=POLICIES[policy](), rules=rules,
        machine=lab_machine(8, (2e9, 1e9)), sources=(Meter(slurm),),
    )  # fmt: skip
    for k in range(120):
        if k < 20:
            slurm.submit(1 + k % 3, 4.0 + k % 5, watts=200 * (1 + k % 3), partition="p1,p2")
        assert controller.round() is not None
        slurm.step()
    return slurm, controller


@pytest.mark.parametrize("behind", [{}, {"accepted": frozenset({"frequencies"})}], indirect=True)
def test_jobs_at_lower_frequencies_start_where_the_guard_accepts_them(behind: Behind, tmp_path: Path) -> None:
    """Nothing starts on fewer watts than its nodes draw before; why stands in the status. Others go on."""
    slurm, controller = worked(behind, tmp_path, "frequency choice")
    slower = [job for job in slurm.jobs.values() if job.starts and job.licences["watts"] < 200 * job.nodes]
    states = {job.state for job in slurm.jobs.values()}
    if behind.accepts:
        assert slower
        assert states == {"COMPLETED"}
        nothing_refused(behind)
        return
    assert slower == []
    assert "COMPLETED" in states
    refused = {error for one in behind.made for error in one.refused}
    assert refused == {f"{LEFT_OUT}: {LOW}"}
    waiting = [job for job in slurm.jobs.values() if job.state == "PENDING"]
    assert controller.last is not None
    errors = {one.write.key.name for one in controller.last.outcomes if one.error and one.write.key is not None}
    assert not waiting or errors & {job.name for job in waiting}


@pytest.mark.parametrize("behind", [{}, {"last_resort": frozenset({"requeue"})}], indirect=True)
def test_jobs_are_requeued_without_consent_only_as_a_last_resort(behind: Behind, tmp_path: Path) -> None:
    slurm, _ = worked(behind, tmp_path, "controls")
    assert {job.state for job in slurm.jobs.values()} == {"COMPLETED"}
    assert (sum(job.restarts for job in slurm.jobs.values()) > 0) == bool(behind.accepts)
    assert any(NO_CONSENT in error for one in behind.made for error in one.refused) != bool(behind.accepts)


@pytest.mark.parametrize("behind", [{}, {"accepted": frozenset({"estimates"})}], indirect=True)
def test_what_a_learning_row_does_below_the_maximum(behind: Behind, tmp_path: Path) -> None:
    """Its work gets done in either case: without estimates at the maximum of its nodes."""
    slurm, _ = worked(behind, tmp_path, "learning estimator")
    low = [job for job in slurm.jobs.values() if job.starts and job.licences["watts"] < 200 * job.nodes]
    assert {job.state for job in slurm.jobs.values()} == {"COMPLETED"}
    assert behind.accepts or low == []
