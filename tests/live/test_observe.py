"""Reading a Slurm: host lists, lines of squeue, sinfo and licences, and text that is none of these."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live.fakeslurm import FakeSlurm
from wattqueue.errors import InputError
from wattqueue.formats.slurm.hostlist import compress, expand
from wattqueue.live.slurm.commands import SlurmError
from wattqueue.live.slurm.observe import (
    Observer,
    parse_details,
    parse_job,
    parse_limit,
    parse_nodes,
    parse_pool,
    split_licences,
)
from wattqueue.live.slurm.snapshot import JobKey

LINE = "4_2|4|1795245457|PENDING|JobHeldUser|p1,p2|2|20|1-02:04:00|watts:7,matlab:1|0|65534|N/A||n[1-2]|(null)|3"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[1-3,7],login", ["n1", "n2", "n3", "n7", "login"]),
        ("gpu[08-11]", ["gpu08", "gpu09", "gpu10", "gpu11"]),
        ("r[1-2]n", ["r1n", "r2n"]),
        ("a1", ["a1"]),
        ("", []),
        ("(null)", []),
    ],
)
def test_host_lists(text: str, names: list[str]) -> None:
    assert list(expand(text)) == names


@pytest.mark.parametrize("text", ["n[3-1]", "n[a-b]", "n[1-2", "]", "n[1-9999999]"])
def test_no_host_lists(text: str) -> None:
    with pytest.raises(InputError):
        expand(text)


@given(st.sets(st.tuples(st.sampled_from(["n", "gpu", "r1-"]), st.integers(0, 300)), max_size=60), st.booleans())
def test_a_host_list_comes_back(pairs: set[tuple[str, int]], padded: bool) -> None:
    names = {f"{head}{number:04d}" if padded else f"{head}{number}" for head, number in pairs}
    assert set(expand(compress(names))) == names


def test_a_job() -> None:
    job = parse_job(LINE)
    assert job.key == JobKey("4_2", 1795245457.0)
    assert (job.job_id, job.nodes, job.cpus, job.walltime_s) == (4, 2, 20, 86400 + 2 * 3600 + 4 * 60)
    assert (job.watts, job.licences, job.held, job.eligible) == (7, ("matlab:1",), True, True)
    assert math.isnan(job.start_s)
    assert expand(job.requested) == ("n1", "n2")


def test_a_job_that_must_wait_for_others_is_not_eligible() -> None:
    assert not parse_job(LINE.replace("(null)", "afterok:10_*(unfulfilled)")).eligible


@given(st.text(max_size=200))
def test_any_other_line_is_refused(text: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        parse_job(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5:00", 300), ("1:00:00", 3600), ("2-00:00:00", 172800), ("UNLIMITED", math.inf)]
)
def test_limits(text: str, seconds: float) -> None:
    assert parse_limit(text) == seconds


@pytest.mark.parametrize(
    ("state", "power", "usable", "busy"),
    [
        ("idle", "on", True, False),
        ("idle~", "off", False, False),
        ("idle#", "booting", False, False),
        ("idle%", "stopping", False, False),
        ("idle!", "stopping", False, False),
        ("idle*", "on", False, False),
        ("planned", "on", True, False),
        ("allocated", "on", True, True),
        ("mixed-", "on", True, True),
        ("mixed*", "on", False, True),
        ("draining", "on", False, False),
        ("down*", "on", False, False),
        ("unknown", "on", False, False),
        ("maint", "on", False, False),
        ("powered_down", "off", False, False),
    ],
)
def test_states_of_nodes(state: str, power: str, usable: bool, busy: bool) -> None:
    (node,) = parse_nodes(f"n1|{state}|p1|16|64000|2|8|(null)")
    assert (node.power, node.usable, node.busy) == (power, usable, busy)


def test_pool() -> None:
    text = "LicenseName=matlab Total=3 Used=1 Free=2 Reserved=0 Remote=no\n"
    assert parse_pool(text) is None
    pool = parse_pool(text + "LicenseName=watts Total=1000 Used=900 Free=100 Reserved=600 Remote=no\n")
    assert pool is not None
    assert (pool.total, pool.used, pool.reserved, pool.open_w) == (1000, 900, 600, 400)


@pytest.mark.parametrize("text", ["Total=1\n", "LicenseName=watts Total=x Used=0\n", "LicenseName=watts Total=9"])
def test_no_pool(text: str) -> None:
    with pytest.raises(SlurmError):
        parse_pool(text)


def test_licences_of_others_are_kept() -> None:
    assert split_licences("matlab:1,watts:30,ansys") == (30, ("matlab:1", "ansys"))
    assert split_licences("(null)") == (-1, ())


def make_slurm() -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1000)


def test_a_snapshot_keeps_what_it_knew() -> None:
    slurm = make_slurm()
    first = slurm.submit(2, 10.0, watts=100, app="solver")
    observer = Observer(slurm, lambda: slurm.now_s)
    seen = observer.snapshot()
    assert [j.key for j in seen.jobs] == [JobKey("1", first.submit_s)]
    assert seen.details[seen.jobs[0].key].app == "solver"
    assert {n.name for n in seen.nodes} == {f"{c}{i}" for c in "nm" for i in range(1, 5)}
    calls = len(slurm.calls)
    again = observer.snapshot()
    assert again.jobs[0] is seen.jobs[0]
    assert [argv[0] for argv in slurm.calls[calls:]] == ["sinfo", "squeue", "scontrol"], "details are asked once"


def test_a_reused_id_is_another_job() -> None:
    slurm = make_slurm()
    slurm.submit(1, 10.0, watts=100, app="old")
    observer = Observer(slurm, lambda: slurm.now_s)
    old = observer.snapshot().jobs[0]
    slurm.jobs.clear()
    slurm.last_id = 0
    slurm.now_s += 5
    slurm.submit(1, 10.0, watts=100, app="new")
    seen = observer.snapshot()
    assert seen.jobs[0].key.name == old.key.name
    assert seen.jobs[0].key != old.key
    assert seen.details[seen.jobs[0].key].app == "new"


@pytest.mark.parametrize("fault", ["hang", "fail", "garbage", "cut"])
@pytest.mark.parametrize("command", ["squeue", "sinfo", "scontrol"])
def test_a_command_that_misbehaves_is_an_error_never_an_empty_cluster(fault: str, command: str) -> None:
    slurm = make_slurm()
    slurm.submit(1, 10.0, watts=100)
    slurm.fault = lambda argv: fault if argv[0] == command else None
    with pytest.raises(SlurmError):
        Observer(slurm, lambda: slurm.now_s).snapshot()


def test_one_bad_line_is_told_and_the_others_are_read() -> None:
    slurm = make_slurm()
    slurm.submit(1, 10.0, watts=100)
    slurm.submit(1, 10.0, watts=100, partition="p1|x")
    seen = Observer(slurm, lambda: slurm.now_s).snapshot()
    assert len(seen.jobs) == 1
    assert len(seen.unreadable) == 1


def test_a_job_without_details_is_not_looked_for_every_round() -> None:
    """``squeue --json`` costs 3 kB per job: one job that it does not show must not cost it once a second."""
    slurm = FakeSlurm({"p1": ["n1"]}, 100)
    hidden, shown = slurm.submit(1, 1.0, watts=1), slurm.submit(1, 1.0, watts=1)
    plain = slurm._json
    slurm._json = lambda job: plain(job) | ({"job_id": 999} if job is hidden else {})  # type: ignore[method-assign]
    observer = Observer(slurm, lambda: slurm.now_s)
    for _ in range(120):
        snapshot = observer.snapshot()
        slurm.now_s += 1.0
    assert [key.name for key in snapshot.details] == [shown.name]
    assert sum("--json" in argv for argv in slurm.calls) <= 3 + 120 // 60
    late = slurm.submit(1, 1.0, watts=1)
    assert late.name in {key.name for key in observer.snapshot().details}, "a new job is looked for at once"


def test_parts_of_a_heterogeneous_job_are_named_as_squeue_names_them() -> None:
    part = {"job_id": 153, "array_job_id": 0, "array_task_id": None, "het_job_id": 152, "het_job_offset": 1}
    ((key, details),) = parse_details(json.dumps({"jobs": [part | {"submit_time": 7}]})).items()
    assert (key.name, details.parts > 1) == ("152+1", True)
