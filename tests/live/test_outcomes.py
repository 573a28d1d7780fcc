"""What an adversarial run counts as durable, and that a run in which nothing was durable fails."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from tests.live.outcomes import Crash, End, Outcomes, forgotten
from tests.live.site import Site
from tests.live.slurmlab import SlurmLab

LOG = """\
[2026-11-23T17:00:00.100] _slurm_rpc_submit_batch_job: JobId=1 InitPrio=0 usec=569
[2026-11-23T17:00:10.200] _slurm_rpc_submit_batch_job: JobId=2 InitPrio=0 usec=418
[2026-11-23T17:00:12.000] slurmctld version 26.05.5 started on cluster lab(35)
[2026-11-23T17:00:12.100] Recovered JobId=1 Assoc=5
[2026-11-23T17:00:12.100] Recovered JobId=3_1(4) Assoc=5
[2026-11-23T17:00:12.100] Recovered JobId=1 StepId=batch
[2026-11-23T17:00:12.400] Requeuing JobId=3_1(4)
[2026-11-23T17:00:12.900] _slurm_rpc_submit_batch_job: JobId=2 InitPrio=0 usec=447
"""


def at(second: float) -> float:
    """An instant of the log."""
    return datetime.fromisoformat("2026-11-23T17:00:00").timestamp() + second


def test_what_was_restored_between_two_crashes_is_durable() -> None:
    """No store lies between the second crash and the first, so the second one's span holds the restart's list."""
    crashes = [Crash(at(5.0), at(11.0)), Crash(at(5.0), at(13.0))]
    assert forgotten(LOG, crashes[:1]) == {2}
    assert forgotten(LOG, crashes) == {2, 3, 4}
    assert forgotten(LOG, [Crash(at(0.5), at(11.0))]) == {1, 2}, "what is logged just before the store may be missing"


def outcomes(folder: Path) -> Outcomes:
    """The first job ended once, the second twice."""
    ends = {"a1.": {End(1, 0, "CANCELLED")}, "a2.": {End(2, 0, "CANCELLED"), End(2, 0, "FAILED")}}
    return Outcomes(Site(SlurmLab(folder)), ends)


def test_a_run_without_a_durable_job_has_tested_nothing(lab_folder: Path) -> None:
    found = outcomes(lab_folder)
    accepted = {"a1": (1, ("",)), "a2": (2, ("",))}
    (twice,) = found.violations(accepted, set())
    assert twice.startswith("a2.")
    assert found.violations(accepted, {2}) == []
    assert found.violations(accepted, {1, 2}) == ["no job was durable: nothing was checked"]
    assert found.violations({}, set()) != []


def test_a_task_that_is_requeued_after_its_array_was_cancelled_is_one_job(lab_folder: Path) -> None:
    """While it waits it is shown with the array's id (26.05: an administrator's ``requeue`` of a cancelled array)."""
    ends = {"a1.0": {End(1, 0, "CANCELLED"), End(4, 1, "CANCELLED")}}
    found = Outcomes(Site(SlurmLab(lab_folder)), ends)
    assert found.violations({"a1": (1, ("0",))}, set()) == []
    found.ends["a1.0"].add(End(5, 2, "CANCELLED"))
    assert "two jobs" in found.violations({"a1": (1, ("0",))}, set())[0]
    found.ends = {"a1.": {End(1, 0, "CANCELLED"), End(4, 1, "CANCELLED")}}
    assert "two jobs" in found.violations({"a1": (1, ("",))}, set())[0]
