"""The table that parts receive: requests without a copy, outcomes only where they have been observed."""

from __future__ import annotations

import pickle
from dataclasses import fields

import numpy as np
import pytest

from wattqueue.errors import InputError, PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import OUTCOMES, KnownJobs, Observed
from wattqueue.model.profiles import PowerProfiles

ENERGY = np.array([1.0, 2.0, 3.0])


def three_jobs() -> Jobs:
    profiles = PowerProfiles.from_samples([[100.0, 200.0], [150.0], [120.0]])
    return Jobs.build(
        [0.0, 5.0, 9.0], [1, 2, 3], [60.0, 30.0, 20.0], walltime_s=[100.0] * 3, user=["ada", "bob", "ada"],
        mean_power_w=[150.0, 150.0, 120.0], max_power_w=[200.0, 150.0, 120.0], start_s=[0.0, 6.0, 9.0],
        profiles=profiles, extra={"energy_j": ENERGY, "memory_gb": np.array([1.0, 4.0, 2.0])},
    )  # fmt: skip


def test_every_column_of_a_job_table_is_known_or_an_outcome() -> None:
    """A new column of ``Jobs`` must be one or the other; ``origin`` says where rows come from, not what jobs did."""
    known = {f.name.strip("_") for f in fields(KnownJobs)}
    assert {f.name for f in fields(Jobs)} - known - OUTCOMES == {"origin"}
    assert not known & OUTCOMES


def test_requests_are_shared_and_not_copied() -> None:
    jobs = three_jobs()
    known = KnownJobs.of(jobs)
    for name in ("job_id", "submit_s", "nodes", "walltime_s", "user", "app", "partition"):
        assert getattr(known, name) is getattr(jobs, name)
    assert known.extra["memory_gb"] is jobs.extra["memory_gb"]
    assert len(known) == 3
    assert known.observed.end_s.strides == (0,)


@pytest.mark.parametrize("name", sorted(OUTCOMES))
def test_an_outcome_is_refused_with_a_reason(name: str) -> None:
    with pytest.raises(PolicyError) as caught:
        getattr(KnownJobs.of(three_jobs(), reader="MyPart"), name)
    assert caught.value.where == "MyPart"
    assert name in caught.value.what
    assert "knows_future = True" in (caught.value.hint or "")


def test_an_outcome_among_further_columns_is_refused() -> None:
    known = KnownJobs.of(three_jobs())
    assert list(known.extra) == ["memory_gb"]
    with pytest.raises(PolicyError):
        known.extra["energy_j"]
    with pytest.raises(KeyError):
        known.extra["colour"]
    with pytest.raises(AttributeError):
        known.colour  # type: ignore[attr-defined]  # noqa: B018 - the access is the test


def test_only_an_oracle_has_the_truth() -> None:
    jobs = three_jobs()
    assert KnownJobs.of(jobs, oracle=True).truth is jobs
    with pytest.raises(PolicyError) as caught:
        KnownJobs.of(jobs, reader="MyPart").truth  # noqa: B018 - the access is the test
    assert caught.value.where == "MyPart"


def test_rows_are_taken_from_every_column() -> None:
    nan = np.nan
    seen = Observed(np.array([0.0, 7.0, nan]), np.array([60.0, nan, nan]), np.array([150.0, nan, nan]), np.full(3, nan))
    part = KnownJobs.of(three_jobs(), seen, oracle=True).take(np.array([1, 0]))
    assert part.nodes.tolist() == [2, 1]
    assert part.user.values().tolist() == ["bob", "ada"]
    assert part.extra["memory_gb"].tolist() == [4.0, 1.0]
    assert part.truth.runtime_s.tolist() == [30.0, 60.0]
    assert part.observed.ended.tolist() == [False, True]
    np.testing.assert_array_equal(part.observed.runtime_s, [nan, 60.0])


def test_a_pickled_table_keeps_its_columns_and_its_refusals() -> None:
    copy = pickle.loads(pickle.dumps(KnownJobs.of(three_jobs(), reader="MyPart")))  # noqa: S301 - bytes of our own
    assert copy.nodes.tolist() == [1, 2, 3]
    with pytest.raises(PolicyError):
        copy.runtime_s  # noqa: B018 - the access is the test
    with pytest.raises(PolicyError):
        copy.extra["energy_j"]


def test_a_table_without_a_trace_is_checked() -> None:
    known = KnownJobs.build([0, 5], [1, 2], [60, 60], user=["ada", "bob"])
    assert known.job_id.tolist() == [1, 2]
    assert known.app.values().tolist() == ["", ""]
    assert np.isnan(known.observed.start_s).all()
    for column in ([[0], [0], [60]], [[np.nan], [1], [60]], [[0], [1], [-1]]):
        with pytest.raises(InputError):
            KnownJobs.build(*column)
