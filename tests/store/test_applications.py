"""The application database on SQLite, a real PostgreSQL and a real MariaDB: one suite for all."""

import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import inspect

from wattqueue.errors import InputError
from wattqueue.model.ear import Coefficients, Signatures, at_frequency
from wattqueue.store.applications import ApplicationDatabase, AppRun, Misfit
from wattqueue.store.database import open_database
from wattqueue.store.migrations import VERSION_TABLE, downgrade, upgrade
from wattqueue.store.tables import METADATA

GHZ = 1e9


@pytest.fixture
def database(url: str) -> Iterator[ApplicationDatabase]:
    found = ApplicationDatabase.open(url)
    yield found
    found.engine.dispose()


def hardware(scale: float = 1.0) -> Coefficients:
    """2 GHz and 1 GHz reach one another; 1.5 GHz has no coefficients."""
    down = [0.6 * scale, 0.0, 5.0, 0.9, 0.0, 0.0]
    up = [1 / (0.6 * scale), 0.0, -5.0 / (0.6 * scale), 1 / 0.9, 0.0, 0.0]
    one, none = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0], [0.0] * 6
    ref = np.array([2, 2, 1, 1, 1.5]) * GHZ
    target = np.array([2, 1, 2, 1, 1.5]) * GHZ
    return Coefficients.of_pairs(ref, target, [1, 1, 1, 1, 0], [one, down, up, one, none])


def run(app: str = "lu", hw: str = "a", hz: float = 2 * GHZ, **more: float) -> AppRun:
    return AppRun(app, hw, hz, **{"time_s": 100.0, "power_w": 300.0, "cpi": 0.5, "tpi": 20.0, **more})


def test_an_entry_is_the_mean_of_its_runs(database: ApplicationDatabase) -> None:
    assert database.entry("lu", "a") is None
    assert database.learn([run(), run(power_w=330.0), run(power_w=360.0, cpi=0.8)]) == 3
    entry = database.entry("lu", "a")
    assert entry is not None
    assert (entry.runs, entry.time_s) == (3, 100.0)
    assert entry.power_w == pytest.approx(330.0)
    assert entry.cpi == pytest.approx(0.6)
    assert database.forget("lu", "a")
    assert not database.forget("lu", "a")
    assert database.entries() == []


def test_a_run_at_another_frequency_is_projected_to_the_nominal_one(database: ApplicationDatabase) -> None:
    table = hardware()
    slow = at_frequency(table, Signatures.of(100.0, 300.0, 0.5, 20.0), 2 * GHZ, 1 * GHZ)
    at_1_ghz = run(hz=0.98 * GHZ, time_s=slow.time_s[0], power_w=slow.power_w[0], cpi=slow.cpi[0])
    assert database.learn([run(), at_1_ghz], {"a": table}) == 2
    entry = database.entry("lu", "a")
    assert entry is not None
    assert (entry.runs, entry.frequency_hz) == (2, 2 * GHZ)
    assert [entry.time_s, entry.power_w, entry.cpi] == pytest.approx([100.0, 300.0, 0.5])


def test_runs_that_cannot_be_compared_are_left_out(database: ApplicationDatabase) -> None:
    table = {"a": hardware()}
    assert database.learn([run(hz=1.5 * GHZ), run(hz=1.25 * GHZ)], table) == 0
    assert database.learn([run(), run(hz=1 * GHZ)]) == 1  # no coefficients at all: the first run's frequency holds
    assert database.entries()[0].runs == 1
    with pytest.raises(InputError) as caught:
        database.learn([run(power_w=np.nan)])
    assert "power_w" in str(caught.value)


def test_first_run_on_new_hardware(database: ApplicationDatabase) -> None:
    both = {"a": hardware(), "b": hardware(0.9)}
    database.learn([run("lu"), run("ep", time_s=50.0), run("lu", "b", time_s=120.0, power_w=270.0)], both)
    guess = database.profiles(both)
    ep = guess.apps.index("ep")
    assert guess.on("b").time_s[ep, 0] == pytest.approx(60.0)
    assert guess.on("b").power_w[ep, 0] == pytest.approx(270.0)
    assert guess.on("b").power_w[ep, 1] == pytest.approx(0.6 * 0.9 * 270 + 5)
    trial = database.profiles(both, first_run="trial")
    assert np.isnan(trial.on("b").time_s[ep]).all()
    assert trial.on("a").frequency_hz.tolist() == [2 * GHZ, 1 * GHZ]
    with pytest.raises(InputError) as caught:
        database.profiles(both, first_run="guess")
    assert "guess" in str(caught.value)


def test_other_binaries_for_one_application(database: ApplicationDatabase) -> None:
    both = {"a": hardware(), "b": hardware()}
    database.learn([run("lu"), run("lu", "b"), run("ep"), run("ep", "b")], both)
    database.set_binary("ep", "a", "/old/ep")
    database.set_binary("ep", "a", "/opt/a/ep")
    assert database.binaries("ep") == {"a": "/opt/a/ep"}
    assert database.binaries("lu") == {}
    found = database.profiles(both)
    ep, lu = found.apps.index("ep"), found.apps.index("lu")
    assert np.isnan(found.on("b").time_s[ep]).all()
    assert np.isfinite(found.on("b").time_s[lu]).all()
    assert np.isfinite(found.on("a").time_s[ep]).all()


def test_a_users_record(database: ApplicationDatabase) -> None:
    first = Misfit("17", "eve", 100.0, "ep", "lu", 2.5)
    assert database.record_misfit(first)
    assert not database.record_misfit(first)
    database.record_misfit(Misfit("18", "eve", 200.0, "ep", "", 9.0))
    database.record_misfit(Misfit("19", "bob", 150.0, "lu", "ep", 1.5))
    assert [m.job_id for m in database.misfits("eve")] == ["17", "18"]
    assert database.misfits("eve", since_s=150.0) == [Misfit("18", "eve", 200.0, "ep", "", 9.0)]


def _write(url: str, worker: int, count: int) -> None:
    database = ApplicationDatabase.open(url)
    for i in range(count):
        database.learn([run(power_w=200.0 + worker), run("ep", time_s=float(i + 1))])
        database.record_misfit(Misfit(f"{worker}-{i}", "eve", float(i), "lu", "", 2.0))
    database.engine.dispose()


def test_concurrent_writers_lose_nothing(url: str) -> None:
    """Four processes, which also race to make the schema."""
    workers, count = 4, 25
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_write, args=(url, worker, count)) for worker in range(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    database = ApplicationDatabase.open(url)
    lu, ep = database.entry("lu", "a"), database.entry("ep", "a")
    assert lu is not None
    assert ep is not None
    assert (lu.runs, ep.runs) == (workers * count, workers * count)
    assert lu.power_w == pytest.approx(201.5)
    assert ep.time_s == pytest.approx(13.0)
    assert len(database.misfits("eve")) == workers * count
    database.engine.dispose()


def test_migrations_make_the_schema_that_the_code_expects_and_take_it_back(database: ApplicationDatabase) -> None:
    seen = inspect(database.engine)
    for table in METADATA.tables.values():
        columns = {c["name"]: c["nullable"] for c in seen.get_columns(table.name)}
        assert columns == {c.name: bool(c.nullable) for c in table.columns}
        assert seen.get_pk_constraint(table.name)["constrained_columns"] == [c.name for c in table.primary_key]
    database.learn([run()])
    upgrade(database.engine)
    assert len(database.entries()) == 1
    downgrade(database.engine, "base")
    assert set(inspect(database.engine).get_table_names()) == {VERSION_TABLE}
    upgrade(database.engine)
    assert database.entries() == []


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    opened: Callable[[str], ApplicationDatabase] = ApplicationDatabase.open
    for refused in ("mysql://host/name", "mysql+pymysql://host/name", "oracle://host/name"):
        with pytest.raises(InputError) as caught:
            opened(refused)
        assert caught.value.hint
    with pytest.raises(InputError) as caught:
        open_database("mariadb://host/name")  # as the controller does for its own state
    assert "cannot be used here" in str(caught.value)
    (tmp_path / "text.db").write_text("no database, " * 500)
    with pytest.raises(InputError):
        opened(str(tmp_path / "text.db"))
