"""Files that a policy's row names: profiles and tables are read, wrong ones are refused in one line, all are hashed."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattqueue.errors import InputError, PolicyError
from wattqueue.formats.ear.files import read_coefficients_csv, write_coefficients_csv
from wattqueue.formats.source import sha256_of
from wattqueue.model.ear import Coefficients
from wattqueue.parts.estimator.ear import Ear
from wattqueue.policy.policy import load_policy
from wattqueue.policy.row_files import files_in, with_absolute_paths
from wattqueue.runs.task import Task, policy_row, task_files, with_hashes
from wattqueue.store.applications import ApplicationDatabase, AppRun


@pytest.fixture
def profiles(tmp_path: Path) -> dict[str, str]:
    """Coefficients of one partition with two frequencies, and the metrics of one application, as files."""
    reference, target = [2.0e9, 2.0e9, 1.0e9, 1.0e9], [2.0e9, 1.0e9, 1.0e9, 2.0e9]
    values = [(watts, 0, 0, 1, 0, 0) for watts in (1, 0.5, 1, 2)]
    table = Coefficients.of_pairs(reference, target, [1] * 4, values)
    write_coefficients_csv(tmp_path / "c.csv", {"p": table})
    (tmp_path / "a.csv").write_text("app_id,module_index,time_s,power_w,cpi,tpi\nlu,0,100,300,1,1\n")
    return {"coefficients": str(tmp_path / "c.csv"), "apps": str(tmp_path / "a.csv")}


def test_profiles_of_a_site_are_read(profiles: dict[str, str]) -> None:
    estimator = load_policy("eamc-priority-inc", estimator={"part": "ear", "profiles": profiles}).estimator
    assert isinstance(estimator, Ear)
    assert estimator.profiles.apps == ("lu",)
    assert estimator.profiles.on("p").power_w.tolist() == [[300.0, 150.0]]


def test_profiles_of_the_application_database_are_read(profiles: dict[str, str], tmp_path: Path) -> None:
    """What jobs taught the database, and no longer Table 1: the same as the table of these metrics."""
    database = ApplicationDatabase.open(tmp_path / "apps.db")
    named = {"coefficients": profiles["coefficients"], "database": str(tmp_path / "apps.db")}
    part = {"part": "ear", "profiles": named}
    with pytest.raises(InputError, match="no application has coefficients"):
        load_policy("eamc-priority-inc", estimator=part)
    database.learn(
        [AppRun("lu", "p", 2.0e9, 100.0, watts, 1.0, 1.0) for watts in (290.0, 310.0)],
        read_coefficients_csv(tmp_path / "c.csv"),
    )
    database.engine.dispose()
    before = sha256_of(tmp_path / "apps.db")
    estimator = load_policy("eamc-priority-inc", estimator=part).estimator
    assert isinstance(estimator, Ear)
    assert estimator.profiles.apps == ("lu",)
    assert estimator.profiles.on("p").power_w.tolist() == [[300.0, 150.0]]
    assert sha256_of(tmp_path / "apps.db") == before, "reading it changes nothing, or no run could be repeated"
    assert tmp_path / "apps.db" in files_in({"estimator": part})
    with pytest.raises(InputError):
        load_policy("eamc-priority-inc", estimator={"part": "ear", "profiles": {**named, "database": "no.db"}})


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("c.csv", "one file"),
        ({"coefficients": "c.csv"}, "two files"),
        ({"coefficients": "c.csv", "apps": 3}, "two files"),
        ({"coefficients": "c.csv", "apps": "a.csv", "first": "trial"}, "two files"),
    ],
)
def test_wrong_profiles_are_refused(value: object, error: str) -> None:
    with pytest.raises(PolicyError, match=error) as raised:
        load_policy("eamc-priority-inc", estimator={"part": "ear", "profiles": value})
    assert raised.value.where == "eamc-priority-inc"


def test_a_missing_file_is_named(profiles: dict[str, str]) -> None:
    missing = {**profiles, "apps": "missing.csv"}
    with pytest.raises(InputError) as raised:
        load_policy("eamc-priority-inc", estimator={"part": "ear", "profiles": missing})
    assert "missing.csv" in str(raised.value)


def policy_file(folder: Path, profiles: dict[str, str]) -> Path:
    path = folder / "site.toml"
    path.write_text(
        '[site]\nsource = "a site"\norder = "priority-inc"\nfrequency = "least-distance"\n'
        f'estimator = {{ part = "ear", profiles = {{ coefficients = "{profiles["coefficients"]}", '
        f'apps = "{profiles["apps"]}" }} }}\n'
    )
    return path


def test_a_changed_table_is_another_run(tmp_path: Path, profiles: dict[str, str]) -> None:
    task = Task("marconi:days=1", machine="marconi100", policy=str(policy_file(tmp_path, profiles)))
    row = policy_row(task)
    assert {Path(profiles["apps"]), Path(profiles["coefficients"])} < set(task_files(task, row).values())
    recorded = with_hashes(task, row)
    Path(profiles["apps"]).write_text("app_id,module_index,time_s,power_w,cpi,tpi\nlu,0,100,301,1,1\n")
    with pytest.raises(InputError, match="differs from the recorded one") as raised:
        with_hashes(recorded, row)
    assert raised.value.where == profiles["apps"]


def test_paths_are_made_absolute_and_other_texts_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("")
    Path("p.py").write_text("")
    row = {"source": "of 1.5", "estimator": {"part": "unit-watts", "table": "t.csv"}, "controls": ["p.py:Own", "a.py"]}
    assert files_in(row) == [Path("t.csv"), Path("p.py")]
    found = with_absolute_paths(row)
    assert found["estimator"] == {"part": "unit-watts", "table": str(tmp_path / "t.csv")}
    assert found["controls"] == [f"{tmp_path / 'p.py'}:Own", "a.py"]
    assert found["source"] == "of 1.5"
