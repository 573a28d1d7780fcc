"""Consent of jobs: its columns, its defaults, and the tables that keep it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue.formats.columns import open_jobs, put_jobs
from wattqueue.formats.consent import read_consent_defaults, with_defaults
from wattqueue.formats.table.job_table import read_table, write_table
from wattqueue.model.consent import COLUMNS, Consent, ConsentDefaults
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs

HEADER = "submit_s,nodes,runtime_s,user,allowed,greatest_slowdown,latest_end_s,price_per_added_hour\n"


def three_jobs() -> Jobs:
    consent = Consent.build(3, allowed=[1, np.nan, 0], greatest_slowdown=[1.5, np.nan, np.nan])
    return Jobs.build([0, 1, 2], [1, 1, 1], [10, 10, 10], user=["ada", "bob", None], consent=consent)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("allowed", 0.5),
        ("allowed", 2),
        ("greatest_slowdown", 0.9),
        ("latest_end_s", 1e12),
        ("price_per_added_hour", -1),
        ("checkpoint_s", 0),
    ],
)
def test_a_figure_outside_its_range_is_refused_with_column_and_row(column: str, value: float) -> None:
    with pytest.raises(InputError) as refused:
        Consent.build(2, **{column: [np.nan, value]})
    assert refused.value.where == f"column {column}, row 2"


def test_a_job_that_states_nothing_takes_the_default_of_its_user() -> None:
    jobs = with_defaults(three_jobs(), ConsentDefaults({"bob": True, "ada": False}))
    assert jobs.consent is not None
    assert jobs.consent.allowed.tolist() == [1, 1, 0]
    others = with_defaults(Jobs.build([0, 1], [1, 1], [9, 9]), ConsentDefaults(others=True))
    assert others.consent is not None
    assert others.consent.given.tolist() == [True, True]


def test_without_a_default_a_job_that_states_nothing_is_not_allowed() -> None:
    consent = three_jobs().consent
    assert consent is not None
    assert consent.given.tolist() == [True, False, False]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_a_job_table_keeps_consent(tmp_path: Path, ending: str) -> None:
    write_table(tmp_path / f"jobs.{ending}", three_jobs())
    found, wanted = read_table(tmp_path / f"jobs.{ending}").consent, three_jobs().consent
    assert found is not None
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def test_a_table_without_consent_has_none(tmp_path: Path) -> None:
    write_table(tmp_path / "jobs.csv", Jobs.build([0], [1], [9]))
    assert read_table(tmp_path / "jobs.csv").consent is None


@pytest.mark.parametrize("fields", ["0.5,,,", "2,,,", "yes,,,", ",0.5,,", ",,,-3"])
def test_a_wrong_figure_in_a_file_is_refused_with_its_line(tmp_path: Path, fields: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(f"{HEADER}0,1,9,ada,1,2,100,0.5\n1,1,9,bob,{fields}\n", encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read_table(path)
    assert str(refused.value.where).startswith(f"{path}:3")


def test_what_is_shared_or_handed_to_parts_keeps_consent(tmp_path: Path) -> None:
    jobs = three_jobs()
    shared = open_jobs(tmp_path, put_jobs(tmp_path, jobs)).consent
    known = KnownJobs.of(jobs).take(np.array([2, 0])).consent
    taken = jobs.take(np.array([0])).consent
    assert shared is not None
    assert known is not None
    assert taken is not None
    np.testing.assert_array_equal(shared.allowed, [1, np.nan, 0])
    np.testing.assert_array_equal(known.allowed, [0, 1])
    np.testing.assert_array_equal(taken.greatest_slowdown, [1.5])


@pytest.mark.parametrize("text", ["other = true", "others = 1", "users = 3", "[users]\nada = 'yes'", "others = "])
def test_defaults_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "consent.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read_consent_defaults(path)
    assert str(path) in str(refused.value.where)


def test_defaults_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "consent.toml"
    path.write_text("others = false\n[users]\nada = true\n", encoding="utf-8")
    assert read_consent_defaults(path) == ConsentDefaults({"ada": True}, others=False)
