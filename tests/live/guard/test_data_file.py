"""The data file of job_submit.lua behind a guard: kept current for a planner, and safe where the planner lies."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.live.guard.test_checks import guard_of
from tests.live.guard.test_process import Served
from tests.live.guard.world import NaiveSlurm
from tests.live.lua import Lua
from tests.live.test_submit_data import DATA, JOBS, PARTS, POOL_W, file_in, needs_lua
from tests.live.test_submit_file import OPERATORS, Accounting, body, expected, file_of, make, see
from wattqueue.live.files.lease import Lease, LeaseLostError
from wattqueue.live.guard.client import GuardedCommands, connection_to, send_lines
from wattqueue.live.guard.data_file import safe_lines
from wattqueue.live.guard.serve import WriteGuard
from wattqueue.live.guard.settings import GuardSettings
from wattqueue.live.guard.wire import Packet
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.commands import CommandResult, SlurmError
from wattqueue.live.slurm.install import Settings, script
from wattqueue.live.slurm.submit_data import body_of
from wattqueue.live.slurm.submit_text import read_data, staff_in, write_lines

NODE_W = {"p1": 300, "p2": 120, "debug": 300}
HONEST = body_of(DATA)


def guard_settings(folder: Path, **more: Any) -> GuardSettings:
    return GuardSettings(folder / "socket", folder, "none", NODE_W, 0.0, free=frozenset({"login"}), **more)


class Settled(NaiveSlurm):
    """A naive Slurm with accounting."""

    users: str | None = "daemon|Operator\n"

    def run(self, argv: Sequence[str]) -> CommandResult:
        accounting = Accounting()
        accounting.users = self.users
        return accounting.run(argv) if argv[0] == "sacctmgr" else super().run(argv)


def sent(guard: WriteGuard, lines: str) -> list[str]:
    told: list[str] = guard.answer(Packet({"do": "submit-data"}, lines)).header["told"]
    return told


def test_the_file_follows_nodes_and_staff_through_the_guard(tmp_path: Path) -> None:
    """As without a guard: a new node, other staff, a file that was removed or damaged."""
    run_dir = tmp_path / "guard"
    run_dir.mkdir()
    slurm, _, config = make(tmp_path, f'[guard]\nsocket = "{run_dir}/socket"\nrun_dir = "{run_dir}"\n')
    guard = guard_of(NaiveSlurm(), run_dir, node_w={"p1": 200, "p2": 150}, free=frozenset({"login"}))
    guard.slurm, slurm.users = slurm, OPERATORS
    served = Served(guard)
    planner = connection_to(guard.settings.socket)
    try:
        file = file_of(config, slurm, SlurmCluster(GuardedCommands(planner), clock=lambda: 1e6))
        see(file)
        file.refresh()
        assert (file.problem, body(file)) == ("", expected(config, slurm))
        assert len(staff_in(file.path)) == 2
        slurm.texts["nodes"] = slurm.texts["nodes"].replace("n[1-2]", "n[1-3]") + "l1|idle|login|16|64000|2|8|(null)\n"
        slurm.users = "daemon|Operator\n"
        see(file)
        file.refresh()
        assert (file.problem, body(file)) == ("", expected(config, slurm))
        assert "partition p1 200 200 3 yes\n" in body(file)
        assert "free login\n" in body(file)
        whole = file.path.read_text()
        for damage in (whole[:-9], ""):
            file.path.write_text(damage)
            file.refresh()
            assert body(file) == expected(config, slurm)
        first = file.path.stat()
        file.refresh()
        assert file.path.stat() == first, "it is written only where it says something else"
        assert first.st_mode & 0o777 == 0o644
    finally:
        planner.close()
        served.end()


def test_a_guard_whose_file_names_another_site_raises_and_says_so(tmp_path: Path) -> None:
    """A partition that came after the installation counts the dearest node, and the planner's status names it."""
    guard = guard_of(Settled(), tmp_path, node_w=NODE_W, free=frozenset())
    lines = HONEST.replace("partition p2 120", "partition later 120").replace("staff 77", "staff 1")
    assert sent(guard, lines) == [
        "partition login: its jobs carry watts (`free` of guard.toml does not name it)",
        "partition later: its nodes count 300 W, not 120 W ([node_w] of guard.toml)",
    ]
    found = read_data(file_in(tmp_path))
    assert not isinstance(found, str)
    assert "partition later 300 60 12 yes\n" in found.body
    assert "staff 1\n" in found.body
    assert "login" not in found.body
    assert sent(guard, lines.replace("later 120", "later 300").replace("free login\n", "")) == []


def test_a_failing_sacctmgr_keeps_the_staff_that_the_guard_read(tmp_path: Path) -> None:
    slurm = Settled()
    guard = guard_of(slurm, tmp_path, node_w=NODE_W, free=frozenset({"login"}))
    assert sent(guard, HONEST.replace("staff 77", "staff 1")) == []
    slurm.users = None
    assert sent(guard, HONEST.replace("staff 77", "staff 1\nstaff 77")) == ["account 77 is no operator of Slurm"]
    assert staff_in(file_in(tmp_path)) == (1,)


def test_what_the_guard_writes_is_recorded_and_needs_the_right_to_write(tmp_path: Path) -> None:
    guard = guard_of(Settled(), tmp_path, node_w=NODE_W, free=frozenset({"login"}))
    sent(guard, HONEST)
    sent(guard, HONEST)
    notes = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(one["kind"], one["why"]) for one in notes] == [("submit-data", "account 77 is no operator of Slurm")]
    before = file_in(tmp_path).read_text()
    Lease(tmp_path, "release").take(guard.clock())
    with pytest.raises(LeaseLostError):
        sent(guard, HONEST.replace("p2 120", "p2 999"))
    assert file_in(tmp_path).read_text() == before


def test_lines_that_do_not_fit_the_file_are_an_error_and_leave_it(tmp_path: Path) -> None:
    served = Served(guard_of(Settled(), tmp_path, node_w=NODE_W, free=frozenset({"login"})))
    try:
        planner = served.connection()
        send_lines(planner, HONEST)
        before = file_in(tmp_path).read_text()
        with pytest.raises(SlurmError, match="bytes for job_submit"):
            send_lines(planner, "shape 1 1 1 1 -\n" * 300_000)
        assert file_in(tmp_path).read_text() == before
    finally:
        served.end()


NAMES = st.sampled_from(["p1", "p2", "debug", "later"])
SHAPES = st.builds("shape {} {} {} 999999 {}".format, *[st.sampled_from([16, 9_999])] * 3, st.sampled_from(["-", 99]))
CHEAP = st.builds("partition {} {} 0 99 {}".format, NAMES, st.integers(0, 320), st.sampled_from(["yes", "no"]))
MISPRINTS = [" staff 1000", "partition p1 0x1 0 2 no", "partition p2", "free\tp1", "end", "", "\r"]
LIES = st.one_of(
    st.builds("{}\n{}".format, CHEAP, SHAPES),
    NAMES.map("  free  {} x".format),
    NAMES.map("free {}".format),
    st.sampled_from(["staff 1000", "default-mb-per-cpu 0", "memory no", "gres-bound yes", *MISPRINTS]),
)


def told_by_a_liar(left_out: set[str], lies: list[str]) -> str:
    """The honest lines without those of some partitions, and with others."""
    lines = body_of(DATA._replace(nodes={name: node for name, node in DATA.nodes.items() if name not in left_out}))
    return "\n".join([*lines.splitlines()[:-1], *lies, "end", ""])


WATTS = {**NODE_W, "later": 300}
"""What a node of each partition draws; the guard's file does not name the last, which counts as the dearest."""
SIZES = {"p1": 2, "p2": 12, "debug": 14, "later": 2}


@needs_lua
@given(
    job=st.one_of(JOBS, NAMES.map(lambda name: {"partition": name})),
    pool_w=st.sampled_from([0, 1000, POOL_W, 10**6]),
    lies=st.builds(told_by_a_liar, st.sets(NAMES), st.lists(LIES, min_size=1, max_size=4)),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_lines_make_the_script_count_fewer_watts_than_the_nodes_draw(
    tmp_path: Path, job: dict[str, Any], pool_w: int, lies: str
) -> None:
    """A job carries the watts of as many nodes as it may get.

    One whose least watts alone fit the pool carries all of the pool, and is marked so that no release frees it.
    """
    lines, _ = safe_lines(lies, guard_settings(tmp_path), (1,))
    (tmp_path / "beat").write_text(f"control {int(time.time())}\n")
    found = []
    for text in (HONEST, lines):
        write_lines(file_in(tmp_path), text, 1e9)
        lua = Lua(script(Settings(DATA, [1234], tmp_path / "beat", 60, pool_w)))
        found.append(lua.submit(job, PARTS))
        change = "slurm_job_modify({ licenses = 'watts:1' }, { licenses = 'watts:300', priority = 0 }, {}, 1000)"
        assert float(lua.run(f"return {change}")) != 0, "a user is no staff"
        lua.close()
    honest, answer = found
    named = [name for name in job["partition"].split(",") if name in WATTS]
    most = [answer.most_nodes] * len(named)
    if answer.most_nodes < 0:  # not stated: as many as Slurm gives at most, which the other lines do not change
        assert answer.code or honest.code or answer.watts >= honest.watts
        return
    counts = [min(count, SIZES[name]) for count, name in zip(most, named, strict=True)]
    drawn_w = max((count * WATTS[name] for count, name in zip(counts, named, strict=True)), default=0)
    assert answer.code or max(answer.watts, 0) >= drawn_w or (answer.watts == pool_w and answer.held)
