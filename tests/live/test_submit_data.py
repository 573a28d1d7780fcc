"""The data file of job_submit.lua, under the Lua library that slurmctld loads: followed, and on the safe side without.

Without the file, or with a damaged one, no submission declares fewer watts than with the whole file, and jobs are still
accepted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.live.lua import NO_VAL, Answer, Lua, library
from wattqueue.live.slurm.install import LUA, Settings, script, shared
from wattqueue.live.slurm.sizing import Shape
from wattqueue.live.slurm.submit_data import NodeWatts, SubmitData, body_of, findings, unreadable_for, write_data
from wattqueue.live.slurm.submit_text import MOST_BYTES, Written, read_data, staff_in, text_of

needs_lua = pytest.mark.skipif(library() is None, reason="no Lua library (it comes with the packages of Slurm)")
P1, P2, P3 = Shape(16, 2, 16, 32000, (("gpu", 4),)), Shape(8, 1, 8, 32000), Shape(32, 2, 32, 64000)
NODES = {
    "p1": NodeWatts(300, 100, 16, 2, (P1,), counts=(2,)),
    "p2": NodeWatts(120, 60, 8, 12, (P2, P3), counts=(8, 4)),
    "debug": NodeWatts(300, 100, 8, 14, (P1, P2, P3), False, (2, 8, 4)),
}
DATA = SubmitData(NODES, ["login"], [77], 1000)
POOL_W = 3000
PARTS = {
    name: {"total_nodes": size, "max_share": 0, "flag_default": int(name == "p1"), "nodes": f"{name}-n[1-{size}]"}
    for name, size in {"p1": 2, "p2": 12, "debug": 14, "login": 3, "later": 2}.items()
}
PLAIN: tuple[dict[str, Any], ...] = (
    {"partition": "p1"},
    {"partition": "p2", "num_tasks": 20},
    {"partition": "p1,p2", "min_nodes": 2},
    {"partition": "debug", "num_tasks": 40, "cpus_per_task": 2},
    {"partition": "p1", "tres_per_job": "gres:gpu:8"},
    {"partition": "p2", "num_tasks": 9, "cpus_per_task": 2, "min_mem_per_cpu": 2000},
    {"partition": "login"},
)
Open = Callable[..., Lua]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """States of Lua with the script, its data file at ``path``, its heartbeat beside it."""
    made: list[Lua] = []

    def new(path: Path | None = None, pool_w: int = POOL_W) -> Lua:
        (path or tmp_path).mkdir(exist_ok=True)
        given = Settings(DATA, [1234], (path or tmp_path) / "beat", 60, pool_w)
        made.append(Lua(script(given)))
        return made[-1]

    yield new
    for one in made:
        one.close()


def file_in(folder: Path) -> Path:
    return folder / "submit.data"


def answers(lua: Lua) -> list[Answer]:
    return [lua.submit(job, PARTS) for job in PLAIN]


def safer(damaged: Answer, whole: Answer) -> bool:
    """Whether a submission is refused, or declares no fewer watts than with the whole file."""
    return damaged.code != 0 or whole.code != 0 or damaged.watts >= whole.watts


@needs_lua
def test_the_script_counts_what_the_file_says_and_follows_it(opened: Open, tmp_path: Path) -> None:
    lua = opened()
    write_data(file_in(tmp_path), DATA, time.time())
    assert [one.watts for one in answers(lua)] == [300, 3 * 120, 600, 10 * 300, 600, 3 * 120, -1]
    wider = {**NODES, "p2": NODES["p2"]._replace(shapes=(P3,), counts=(12,))}
    write_data(file_in(tmp_path), DATA._replace(nodes=wider), time.time() + 1)
    assert lua.submit({"partition": "p2", "num_tasks": 20}, PARTS).watts == 120
    assert lua.errors() == []


@needs_lua
def test_a_new_partition_counts_the_dearest_node_until_the_file_names_it(opened: Open, tmp_path: Path) -> None:
    lua = opened()
    write_data(file_in(tmp_path), DATA, 1e9)
    assert lua.submit({"partition": "later"}, PARTS).watts == 300
    write_data(file_in(tmp_path), DATA._replace(nodes={**NODES, "later": NODES["p2"]}), 1e9 + 1)
    assert lua.submit({"partition": "later"}, PARTS).watts == 120


@needs_lua
def test_without_the_file_each_partition_counts_the_dearest_and_jobs_are_accepted(opened: Open) -> None:
    """The twin of the property below: nothing is refused that fits the pool, and nothing waits for a controller."""
    lua = opened()
    found = answers(lua)
    assert [one.code for one in found] == [0] * len(PLAIN)
    assert [one.held for one in found] == [False] * len(PLAIN)
    assert [(one.watts, one.most_nodes) for one in found] == [
        (300, 1), (3000, 10), (600, 2), (3000, 10), (600, 2), (2700, 9), (300, 1),
    ]  # fmt: skip
    assert lua.submit({"partition": "p2", "min_nodes": 11}, PARTS).code != 0, "11 nodes of 300 W exceed the pool"
    wide = opened(pool_w=1000).submit({"partition": "p2", "num_tasks": 60}, PARTS)
    assert (wide.watts, wide.most_nodes) == (1000, 3), "the file counts 8 nodes of 120 W"


@needs_lua
@pytest.mark.parametrize("working", [True, False])
def test_a_component_beyond_the_whole_budget_is_refused(opened: Open, tmp_path: Path, working: bool) -> None:
    """Slurm alone would start it on licences for the whole budget; a plain job waits for a place with fewer watts."""
    lua = opened(pool_w=900)
    write_data(file_in(tmp_path), DATA, 1e9)
    (tmp_path / "beat").write_text(f"control {int(time.time()) if working else 0}\n")
    job = {"partition": "p1,p2", "min_nodes": 4, "max_nodes": 4}
    alone, first = lua.submit(job, PARTS), lua.submit({**job, "het_job_offset": 0}, PARTS)
    assert (alone.code == 0, alone.watts, alone.held) == ((True, 900, True) if working else (False, -1, False))
    assert first.code != 0
    fits = lua.submit({**job, "partition": "p2", "het_job_offset": 0}, PARTS)
    assert (fits.code, fits.watts) == (0, 480)
    assert lua.submit({**job, "het_job_offset": 1}, PARTS).code != 0


@needs_lua
def test_the_log_says_it_once_a_minute(opened: Open, tmp_path: Path) -> None:
    lua = opened()
    for second in (1000, 1001, 1059, 1060, 1061, 1200):
        lua.run(f"NOW = {second}")
        answers(lua)
    assert len(lua.errors()) == 3
    assert all(str(file_in(tmp_path)) in line and "No such file" in line for line in lua.errors())


@needs_lua
def test_a_damaged_file_is_read_again_once_a_second(opened: Open, tmp_path: Path) -> None:
    lua, path, text = opened(), file_in(tmp_path), text_of(body_of(DATA), 1e9)
    lua.run("NOW = 1000")
    path.write_text(text[:-3])
    assert lua.submit({"partition": "p2"}, PARTS).watts == 300
    path.write_text(text)
    assert lua.submit({"partition": "p2"}, PARTS).watts == 300
    lua.run("NOW = 1001")
    assert lua.submit({"partition": "p2"}, PARTS).watts == 120
    path.unlink()
    assert lua.submit({"partition": "p2"}, PARTS).watts == 300, "a file that is gone counts at once"


def with_each(lua: Lua, path: Path, contents: Iterable[bytes]) -> Iterator[tuple[bytes, list[Answer], bool]]:
    """Yield each content with the answers to it, and whether the log got a line; the file is gone in between."""
    for minute, content in enumerate(contents, 1):
        path.unlink(missing_ok=True)
        lua.run(f"NOW = {60 * minute}")
        lua.submit(PLAIN[0], PARTS)
        lua.run(f"NOW, slurm.errors = {60 * minute + 60}, {{}}")
        path.write_bytes(content)
        yield content, answers(lua), bool(lua.errors())


@needs_lua
def test_a_file_that_is_cut_at_any_byte_counts_as_missing(opened: Open, tmp_path: Path) -> None:
    whole, path = text_of(body_of(DATA), 1e9).encode(), file_in(tmp_path)
    missing = answers(opened())
    cut = (whole[:size] for size in range(len(whole)))
    for content, found, complained in with_each(opened(), path, cut):
        assert (found, complained) == (missing, True), len(content)
        assert isinstance(read_data(path), str)


@needs_lua
def test_a_file_with_any_changed_byte_counts_no_fewer_watts(opened: Open, tmp_path: Path) -> None:
    """But for the time in the first line, the checksum finds it."""
    whole, path = text_of(body_of(DATA), 1e9).encode(), file_in(tmp_path)
    path.write_bytes(whole)
    before, damaged = answers(opened()), 0
    changed = (whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole)))
    for content, found, complained in with_each(opened(), path, changed):
        assert all(map(safer, found, before)), content
        assert isinstance(read_data(path), str) == complained, "script and doctor agree"
        damaged += complained
    assert damaged >= len(whole) - 12


LINES = (
    "partition p1 nan 100 2 yes", "partition p1 1e3 100 2 yes", "partition p1 -5 100 2 yes", "partition p1 0x9 1 2 yes",
    "partition p1 99999999999999999999 1 2 yes", "partition p1 300 100 2 maybe", "partition p1 300 100", "partition",
    "shape 1 1 1 1 -", "shape inf 1 1 1 -", "partition p1 3 1 2 yes\nshape 9 1 1 1 - gpu=nan", "free", "staff x",
    "memory perhaps", "os.exit(1)", "staff 1" + "0" * 400, "", "x" * 100_000, "shape " * 30_000, "end",
    "partition p9 2000000000 1 2 yes", "partition p9 1 1 99999999 yes",
)  # fmt: skip
"""Lines that are not read, in a file whose checksum is right."""


@needs_lua
@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_a_line_that_is_not_read_makes_the_file_worthless(opened: Open, tmp_path: Path, line: str) -> None:
    missing = answers(opened())
    file_in(tmp_path).write_text(text_of(f"{line}\n{body_of(DATA)}", 1e9))
    assert answers(opened()) == missing


@needs_lua
@pytest.mark.parametrize("left_out", ["memory", "gres-bound", "default-mb-per-cpu", "end"])
def test_a_file_without_a_line_is_worthless(opened: Open, tmp_path: Path, left_out: str) -> None:
    missing = answers(opened())
    body = "".join(f"{line}\n" for line in body_of(DATA).splitlines() if not line.startswith(left_out))
    file_in(tmp_path).write_text(text_of(body, 1e9))
    assert answers(opened()) == missing


def empty(path: Path) -> None:
    path.write_bytes(b"")


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 100)


def folder(path: Path) -> None:
    path.mkdir()


def other_version(path: Path) -> None:
    path.write_text(text_of(body_of(DATA), 1e9).replace("wattqueue-submit 1", "wattqueue-submit 2"))


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def large(path: Path) -> None:
    path.write_text(text_of(body_of(DATA), 1e9) + "staff 1\n" * (MOST_BYTES // 4))


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


@needs_lua
@pytest.mark.parametrize("make", [empty, binary, folder, other_version, endless, large, link_to_itself])
def test_what_is_no_data_file_counts_as_missing(opened: Open, tmp_path: Path, make: Callable[[Path], None]) -> None:
    missing = answers(opened())
    make(file_in(tmp_path))
    lua = opened()
    assert answers(lua) == missing
    assert len(lua.errors()) == 1
    assert isinstance(read_data(file_in(tmp_path)), str)
    (found,) = findings(file_in(tmp_path), DATA, 1e9)
    assert not found.fatal


FIELDS = {
    "num_tasks": st.integers(1, 60), "min_cpus": st.integers(1, 90), "cpus_per_task": st.integers(1, 20),
    "min_nodes": st.integers(1, 6), "max_nodes": st.integers(1, 12), "ntasks_per_node": st.integers(1, 16),
    "ntasks_per_core": st.integers(1, 2), "min_mem_per_cpu": st.integers(1, 9000),
    "min_mem_per_node": st.sampled_from([1, 40_000, 900_000]), "pn_min_cpus": st.integers(1, 32),
    "tres_per_job": st.integers(1, 12).map("gres:gpu:{}".format), "tres_per_task": st.just("gres:gpu:1"),
    "tres_per_node": st.integers(1, 4).map("gres:gpu:{}".format), "het_job_offset": st.sampled_from([NO_VAL, 0]),
    "features": st.sampled_from(["fast", "[a*2&b*1]"]),
}  # fmt: skip
JOBS = st.fixed_dictionaries(
    {"partition": st.lists(st.sampled_from(list(PARTS)), min_size=1, max_size=3, unique=True).map(",".join)},
    optional=FIELDS,
)


@needs_lua
@given(job=JOBS, pool_w=st.sampled_from([0, 300, 1000, POOL_W, 10**6]), working=st.booleans(), data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_submission_counts_fewer_watts_with_a_damaged_file(
    tmp_path: Path, job: dict[str, Any], pool_w: int, working: bool, data: st.DataObject
) -> None:
    """The damage is any bytes in place of any others; what is not refused carries at least the same watts."""
    text, path = text_of(body_of(DATA), 1e9).encode(), file_in(tmp_path)
    first = data.draw(st.integers(0, len(text)))
    last = data.draw(st.integers(first, len(text)))
    damage = text[:first] + data.draw(st.binary(max_size=40)) + text[last:]
    (tmp_path / "beat").write_text(f"control {int(time.time()) if working else 0}\n")
    found = []
    for content in (text, damage):
        path.write_bytes(content)
        lua = Lua(script(Settings(DATA, [1234], tmp_path / "beat", 60, pool_w)))
        found.append(lua.submit(job, PARTS))
        lua.close()
    assert safer(found[1], found[0]), found


@needs_lua
def test_staff_may_change_what_users_may_not(opened: Open, tmp_path: Path) -> None:
    lua = opened()
    change = "return slurm_job_modify({ licenses = 'watts:1' }, { licenses = 'watts:300', priority = 0 }, {}, 77)"
    assert lua.run(change) != "0"
    write_data(file_in(tmp_path), DATA, 1e9)
    assert lua.run(change) == "0"
    write_data(file_in(tmp_path), DATA._replace(staff=()), 1e9 + 1)
    assert lua.run(change) != "0"


def test_the_script_starts_no_command_and_executes_no_data() -> None:
    """It loads one file as code: the site's own script, by the path that stands in it since the installation."""
    text = shared(LUA)
    assert not any(word in text for word in ("popen", "os.execute", "dofile", "loadstring", "require("))
    assert [line.strip() for line in text.splitlines() if "loadfile" in line] == [
        "local chunk, problem = loadfile(SITE)"
    ]
    assert '"*l"' not in text, "a line without an end would be read for ever"


def test_names_that_are_no_words_and_figures_beyond_bounds_are_left_to_the_dearest_node(tmp_path: Path) -> None:
    odd = NodeWatts(300, 100, 16, 10**7, (Shape(1, gres=(("gpu", 10**20), ("a b", 1))),))
    body = body_of(SubmitData({"p 1": odd, "x\ny": odd, "p1": odd}, ["l 1", "l1"], default_mb_per_cpu=10**17))
    assert [line for line in body.splitlines() if line.startswith(("partition", "shape", "free"))] == [
        "free l1", "partition p1 300 100 1000000 yes", f"shape 1 0 0 0 - gpu={10**15}",
    ]  # fmt: skip
    write_data(file_in(tmp_path), SubmitData({}, staff=[5, 3]), 1e9)
    assert staff_in(file_in(tmp_path)) == (3, 5)
    assert read_data(file_in(tmp_path)) == Written(1e9, body_of(SubmitData({}, staff=[3, 5])))


def test_what_the_file_says_otherwise_is_found(tmp_path: Path) -> None:
    path = file_in(tmp_path)
    write_data(path, DATA, 1e9)
    assert findings(path, DATA, 1e9 + 3600.0) == []
    assert ["in the future" in one.what for one in findings(path, DATA, 1e9 - 60.0)] == [True]
    low = DATA._replace(nodes={**NODES, "p1": NODES["p1"]._replace(watts=301)})
    assert [one.fatal for one in findings(path, low, 1e9)] == [True, False]
    free = DATA._replace(nodes={**NODES, "login": NODES["p2"]}, free=[])
    assert [one.what.split(":")[0] for one in findings(path, free, 1e9) if one.fatal] == ["partition login"]
    assert [one.what.split(":")[0] for one in findings(path, DATA._replace(staff=[78]), 1e9)] == ["staff"]
    moved = DATA._replace(nodes={**NODES, "p2": NODES["p2"]._replace(counts=(7, 5))})
    assert [(one.what.split(":")[0], one.fatal) for one in findings(path, moved, 1e9)] == [("partition p2", False)]


def test_modes_that_hide_the_file_from_slurmctld_are_found(tmp_path: Path) -> None:
    path = file_in(tmp_path / "run")
    path.parent.mkdir(mode=0o711)
    for one in (tmp_path, *tmp_path.parents):
        if one.stat().st_uid == os.geteuid() and one != Path("/"):
            one.chmod(one.stat().st_mode | 0o011)
    write_data(path, DATA, 1e9)
    assert unreadable_for(path, "slurm(64030)") == ""
    path.parent.chmod(0o700)
    assert str(path.parent) in unreadable_for(path, "slurm(64030)")
    assert unreadable_for(path, "root(0)") == ""
    path.parent.chmod(0o711)
    path.chmod(0o600)
    assert str(path) in unreadable_for(path, "slurm(64030)")
