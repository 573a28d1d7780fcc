"""A state of any earlier version is copied, upgraded and worked on; one of a later version is refused."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, inspect, text

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.test_live_cli import PLAIN, write
from tests.program import wattqueue
from tests.store import postgres
from wattqueue.errors import InputError, OutputError
from wattqueue.live.assemble import assemble
from wattqueue.live.cluster import JobKey
from wattqueue.live.config import load_config
from wattqueue.live.features.learning import MeasuredJobs
from wattqueue.live.features.run_history import RunHistory
from wattqueue.live.files.lease import Lease
from wattqueue.live.restore import restorer_of
from wattqueue.live.state.audit import open_log, rows_of, verify
from wattqueue.live.state.database import METADATA, STATE, open_state, upgrade_state
from wattqueue.live.state.memory import ControllerState
from wattqueue.live.state.shared_lease import SharedLease
from wattqueue.model.signals import Cap
from wattqueue.store.backup import copies_of
from wattqueue.store.database import open_database
from wattqueue.store.migrations import version_of, versions

RECORDED = sorted((Path(__file__).parent / "recorded/state").glob("v*.sql"))
"""States that the code of each earlier schema wrote (the first line of each file names the commit)."""
OLD = pytest.mark.parametrize("recorded", RECORDED, ids=lambda path: path.stem)
NEW_COLUMNS = ("until_s", "since_s", "hardware", "frequency_hz", "node_names")
"""Columns that some later version added, or renamed."""
PARKED_S = {"10": 1_700_000_200.0, "13": 1_700_000_210.0}


def make_slurm() -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)


def written(folder: Path, recorded: Path, name: str = "live.db") -> Path:
    """The file of an earlier version, with its audit log's head beside it."""
    path = folder / name
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(recorded.read_text())
        last = connection.execute("SELECT number, hash FROM live_audit ORDER BY number DESC LIMIT 1").fetchone()
    path.chmod(0o600)
    (folder / "audit.head").write_text(f"{last[0]} {last[1]}\n")
    return path


def content(path: Path) -> dict[str, set[tuple[tuple[str, object], ...]]]:
    """All rows of all tables by name, each as its sorted (column, value)."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {}
        for name in names:
            rows = connection.execute(f"SELECT * FROM {name}")  # noqa: S608 - names of this file's own tables
            found[name] = {tuple(sorted(zip(row.keys(), row, strict=True))) for row in rows}
        return found


def without(rows: set[tuple[tuple[str, object], ...]], *columns: str) -> set[tuple[tuple[str, object], ...]]:
    return {tuple(pair for pair in row if pair[0] not in columns) for row in rows}


def fits_the_code(engine: Engine) -> None:
    """The tables are those of ``live.state.database`` and of who adds to them, column by column."""
    seen = inspect(engine)
    for table in METADATA.tables.values():
        columns = {c["name"]: bool(c["nullable"]) for c in seen.get_columns(table.name)}
        assert columns == {c.name: bool(c.nullable) for c in table.columns}, table.name
        assert seen.get_pk_constraint(table.name)["constrained_columns"] == [c.name for c in table.primary_key]


@OLD
def test_a_file_of_each_earlier_version_is_copied_upgraded_and_keeps_its_rows(tmp_path: Path, recorded: Path) -> None:
    path = written(tmp_path, recorded)
    before = content(path)
    engine = open_state(path, upgraded=False)
    assert content(path) == before, "opening alone changes nothing"
    done = upgrade_state(engine)
    assert done is not None
    assert (done.before, done.after) == ("", versions(STATE)[0])
    assert done.copy is not None
    assert content(done.copy) == before
    assert stat.S_IMODE(done.copy.stat().st_mode) == 0o600, "it holds user names"
    after = content(path)
    for name, rows in before.items():
        assert without(after[name], *NEW_COLUMNS) == without(rows, *NEW_COLUMNS), name
    fits_the_code(engine)
    memory = ControllerState(engine)
    if "live_parked" in before:
        ended = 3600.0 if recorded.stem == "v0006" else 0.0  # a target whose end was not stored counts as over
        assert {key.name: row.until_s for key, row in memory.parked.items()} == {
            name: since_s + ended for name, since_s in PARKED_S.items()
        }
        assert memory.drained == dict.fromkeys(("n7", "n8"), 1_700_000_300.0)
    assert memory.placed[JobKey("10", 1_700_000_000.25)].nodes == "n[1-2]"
    assert memory.refused[JobKey("12", 1_700_000_002.25)].reason == "Licenses"
    assert [one.mean_node_w for one in MeasuredJobs(engine).recall()] == [250.5]
    assert len(RunHistory(engine).recall()) == len(before.get("live_ran", ()))
    assert verify(engine, head=tmp_path / "audit.head") == (5, 0, "")
    assert upgrade_state(engine) is None
    assert copies_of(engine) == [done.copy], "nothing is left to do, so nothing is copied"


@OLD
def test_a_controller_works_on_a_file_of_each_earlier_version(tmp_path: Path, recorded: Path) -> None:
    written(tmp_path, recorded, "wattqueue-live.db")
    (tmp_path / "run").mkdir()
    (tmp_path / "audit.head").rename(tmp_path / "run/audit.head")
    config = load_config(write(tmp_path, f'{PLAIN}mode = "control"\n'))
    slurm = make_slurm()
    slurm.submit(1, 50.0, watts=200)
    controller = assemble(config, slurm, lambda: slurm.now_s)
    try:
        controller.applier.clock = controller.clock
        for _ in range(3):
            report = controller.round()
            assert report is not None
            assert not [text for text in report.problems if "state" in text or "column" in text or "log" in text]
            slurm.step()
        assert [job.state for job in slurm.jobs.values()] == ["RUNNING"]
    finally:
        controller.run_dir.release()
    rows = list(rows_of(controller.audit.engine))
    assert (rows[5]["event"], rows[5]["kind"]) == ("note", "upgrade")
    assert "before-" in rows[5]["why"], "the log says where the copy is"
    assert verify(controller.audit.engine, head=config.run_dir / "audit.head").broken == 0


@OLD
def test_readers_of_an_earlier_version_change_nothing(tmp_path: Path, recorded: Path) -> None:
    config = write(tmp_path)
    path = written(tmp_path, recorded, "wattqueue-live.db")
    before = content(path)
    engine = open_log(str(path))
    assert len(list(rows_of(engine))) == 5
    assert verify(engine).broken == 0
    assert content(path) == before
    assert copies_of(engine) == []
    if recorded == RECORDED[0]:
        shown = wattqueue("live", "audit", "--verify", "--config", str(config))
        assert (shown.returncode, shown.stdout) == (0, "5 rows, none changed\n"), shown.stderr
        assert content(path) == before


@OLD
def test_a_release_upgrades_only_while_no_controller_is_at_work(tmp_path: Path, recorded: Path) -> None:
    path = written(tmp_path, recorded, "wattqueue-live.db")
    before = content(path)
    if recorded == RECORDED[2]:
        (tmp_path / "run").mkdir()
        Lease(tmp_path / "run", "controller").take(time.time())
        assert wattqueue("live", "release", "--config", str(write(tmp_path))).returncode == 3
        assert content(path) == before, "the controller of the earlier version goes on with its tables"
    restorer = restorer_of(str(path))
    assert set(restorer.memory.drained) == ({"n7", "n8"} if "live_drained" in before else set())
    assert len(copies_of(restorer.memory.engine)) == 1


def test_a_log_that_a_release_alone_has_made_becomes_a_state(tmp_path: Path) -> None:
    engine = open_database(tmp_path / "a.db")
    METADATA.create_all(engine, tables=[METADATA.tables["live_audit"], METADATA.tables["live_audit_begin"]])
    assert ControllerState(open_state(tmp_path / "a.db")).placed == {}
    fits_the_code(engine)


def test_a_new_state_has_the_latest_version_and_no_copy(tmp_path: Path) -> None:
    engine = open_state(tmp_path / "a.db", upgraded=False)
    fits_the_code(engine)
    with engine.connect() as connection:
        assert version_of(connection, STATE) == versions(STATE)[0]
    assert [path.name for path in tmp_path.iterdir() if "before" in path.name] == []


def later(path: Path) -> Path:
    """The file of a WattQueue that does not exist yet."""
    engine = open_state(path)
    with engine.begin() as connection:
        connection.execute(text("UPDATE live_schema_version SET version_num = '9999'"))
        connection.execute(text("ALTER TABLE live_parked DROP COLUMN until_s"))
    engine.dispose()
    return path


def test_a_later_version_is_refused_by_who_writes_and_who_reads(tmp_path: Path) -> None:
    config = write(tmp_path)
    path = later(tmp_path / "wattqueue-live.db")
    before = content(path)
    for use in (open_state, open_log, restorer_of):
        with pytest.raises(InputError) as caught:
            use(str(path))
        assert str(caught.value.where) == str(path)
        assert "9999" in caught.value.what
        assert "newer" in str(caught.value.hint)
    with pytest.raises(InputError, match="9999"):
        make_controller(make_slurm(), tmp_path, lambda: 1e6, cap=Cap.constant(1800.0), state=str(path))
    shown = wattqueue("live", "audit", "--config", str(config))
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "9999" in shown.stderr
    assert "space" not in shown.stderr
    assert len(shown.stderr.splitlines()) == 1
    assert content(path) == before


def test_a_later_version_names_the_copies_from_before_it(tmp_path: Path) -> None:
    path = written(tmp_path, RECORDED[0])
    upgrade_state(open_state(path))
    later(path)
    with pytest.raises(InputError, match=r"live\.db\.before-"):
        open_state(path)


def test_no_upgrade_without_a_copy(tmp_path: Path) -> None:
    path = written(tmp_path, RECORDED[3])
    before = content(path)
    engine = open_state(path, upgraded=False)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size // 2, hard))
    try:
        with pytest.raises(OutputError) as caught:
            upgrade_state(engine)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.hint
    assert content(path) == before
    assert sorted(file.name for file in tmp_path.iterdir() if file.name.startswith(("live.db.", ".live"))) in (
        [], ["live.db-shm", "live.db-wal"],
    )  # fmt: skip
    assert upgrade_state(engine) is not None


def test_a_copy_is_never_overwritten(tmp_path: Path) -> None:
    path = written(tmp_path, RECORDED[3])
    name = path.with_name(f"{path.name}.before-{versions(STATE)[0]}")
    name.write_text("someone's")
    done = upgrade_state(open_state(path, upgraded=False))
    assert done is not None
    assert done.copy == name.with_name(f"{name.name}.2")
    assert name.read_text() == "someone's"


def test_of_several_processes_one_upgrades(tmp_path: Path) -> None:
    path = written(tmp_path, RECORDED[2])
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert sorted(pool.map(_upgraded, [str(path)] * 6)) == [False] * 5 + [True]
    assert len(copies_of(open_state(path))) == 1


def _upgraded(path: str) -> bool:
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    return upgrade_state(open_state(path, upgraded=False)) is not None


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    reason = postgres.missing()
    if reason is not None:
        pytest.skip(reason)
    with postgres.server() as url:
        yield url


@pytest.mark.postgres
@OLD
def test_a_state_on_a_server_is_upgraded_in_one_transaction(server: str, recorded: Path) -> None:
    admin = create_engine(server.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {recorded.stem}"))
    admin.dispose()
    url = server.rpartition("/")[0] + f"/{recorded.stem}"
    engine = open_database(url)
    # "user" is a word of PostgreSQL's own
    lines = recorded.read_text().replace("\tuser TEXT", '\t"user" TEXT').splitlines()
    script = "\n".join(line for line in lines if not line.startswith(("BEGIN", "COMMIT")))
    with engine.begin() as connection:
        connection.exec_driver_sql(script.replace("%", "%%"))
    engine.dispose()
    engine = open_state(url, upgraded=False)
    SharedLease(engine, lambda: 1_800_000_000.0, 10.0)
    done = upgrade_state(engine)
    assert done is not None
    assert done.copy is None
    fits_the_code(engine)
    memory = ControllerState(engine)
    assert memory.placed[JobKey("10", 1_700_000_000.25)].predicted_w == 420.5
    assert len(memory.parked) == (2 if recorded.stem >= "v0003" else 0)
    assert verify(engine).broken == 0
    assert upgrade_state(engine) is None
    with engine.begin() as connection:
        connection.execute(text("UPDATE live_schema_version SET version_num = '9999'"))
    with pytest.raises(InputError, match="9999") as caught:
        open_state(url)
    assert "127.0.0.1" in str(caught.value.where)
    engine.dispose()
