"""Reading a Slurm: host lists, lines of squeue, sinfo and licences, and text that is none of these."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live.recordings import JOB_HEADER, Recorded, recorded
from wattqueue.errors import InputError
from wattqueue.formats.slurm.hostlist import compress, expand
from wattqueue.live.cluster import Job, JobKey
from wattqueue.live.slurm.commands import CommandResult, SlurmError
from wattqueue.live.slurm.lists import DETAILS, JOBS, POOL, parse_job, parse_limit, parse_pool, split_licences
from wattqueue.live.slurm.observe import Observer, parse_details, parse_nodes

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
    assert (job.number, job.nodes, job.cpus, job.walltime_s) == (4, 2, 20, 86400 + 2 * 3600 + 4 * 60)
    assert (job.watts, job.native, job.held_by, job.eligible) == (7, ("matlab:1",), "user", True)
    assert (job.array, job.task, job.whole) == ("4", 2, "")
    assert math.isnan(job.start_s)
    assert job.requested == ("n1", "n2")


def with_nodes(state: str, listed: int, most: int) -> Job:
    """A job of so many nodes as squeue prints them, with a stated maximum."""
    *parts, _ = LINE.replace("PENDING", state).split("|")
    parts[6] = str(listed)
    return parse_job("|".join([*parts, str(most)]))


@pytest.mark.parametrize(
    ("state", "listed", "most", "expected"),
    [("PENDING", 2, 1, (1, 1)), ("PENDING", 6, 4, (4, 4)), ("PENDING", 2, 0, (2, 2)), ("PENDING", 2, 3, (2, 3)),
     ("RUNNING", 2, 1, (2, 2))],
)  # fmt: skip
def test_nodes_that_squeue_estimates_beyond_the_stated_maximum_do_not_count(
    state: str, listed: int, most: int, expected: tuple[int, int]
) -> None:
    """Of a job that waits squeue prints an estimate; one that runs may have taken over another's nodes."""
    job = with_nodes(state, listed, most)
    assert (job.nodes, job.most_nodes) == expected
    assert job.range_nodes == (listed, most), "what a change is compared with stays as it is printed"


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
    ((node, _),) = parse_nodes(f"n1|{state}|p1|16|64000|2|8|(null)")
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
    assert split_licences("power:150;watts:310;matlab") == (310, ("power:150", "matlab")), "26.05, requeued"
    assert split_licences("(null)") == (-1, ())
    assert split_licences("watts:200,watts:200") == (400, ()), "a job that took over the nodes of another"


TAKEN_S = 1795331250.0
"""Some seconds after the recording."""


def observer(slurm: Recorded) -> Observer:
    return Observer(slurm, lambda: TAKEN_S, wait=lambda _: None)


def without(text: str, start: str) -> str:
    """A list without the lines that begin so."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(start))


def test_a_recorded_slurm() -> None:
    """Jobs of every kind, one of them named like a row of ``scontrol show job``; overlapping partitions, GPUs."""
    seen = observer(Recorded()).snapshot()
    assert seen.unreadable == ()
    jobs = {job.key.name: job for job in seen.jobs}
    assert sorted(jobs) == ["1", "2", "3", "4_1", "4_2", "4_3", "4_4", "5", "6", "7", "8", "9+0", "9+1"]
    assert {name for name, job in jobs.items() if job.active} == {"1", "2"}
    assert (jobs["1"].node_names, jobs["1"].watts, jobs["1"].walltime_s) == (("n1", "n2"), 400, 1800.0)
    assert {job.held_by for name, job in jobs.items() if job.pending} == {"user"}, "who holds is told by the mark"
    assert [name for name, job in sorted(jobs.items()) if not job.eligible] == ["5", "7"], "a dependency, a begin time"
    assert (jobs["3"].range_nodes, jobs["3"].nodes, jobs["3"].most_nodes) == ((2, 3), 3, 3), "20 tasks, p2 has 8 cores"
    assert (jobs["4_2"].array, jobs["4_2"].task, jobs["4_2"].requested) == ("4", 2, ("n8",))
    assert [(jobs[n].target, jobs[n].component) for n in ("9+0", "9+1")] == [("9", 0), ("9", 1)]
    marks = {key.name: details.mark for key, details in seen.details.items()}
    assert "wattqueue:user-held" in marks["6"]
    assert "user-held" not in marks["8"]
    assert seen.details[jobs["4_1"].key].throttle == 2
    assert seen.details[jobs["9+1"].key].parts > 1
    assert "\n" in seen.details[jobs["8"].key].app
    nodes = seen.by_node
    assert {name: (n.power, n.usable, n.busy) for name, n in nodes.items() if not (n.usable and n.power == "on")} == {
        "n3": ("off", False, False),
        "n4": ("on", False, False),
    }
    assert {n.partitions for n in seen.nodes} == {("p1", "debug"), ("p2", "debug")}
    assert seen.pool is not None
    assert (seen.pool.total, seen.pool.used, seen.pool.open_w) == (1600, 600, 1200)


def test_a_held_job_that_shows_the_present_second_does_not_begin_later() -> None:
    """Slurm 22.05 prints the time of squeue for a job that it held itself; a busy one answers after seconds."""
    slurm, now = Recorded(), [TAKEN_S]
    header, first, *_ = slurm.texts["jobs"].splitlines()
    values = first.split("|")
    for place, value in ((3, "PENDING"), (4, "BadConstraints"), (10, "0"), (13, "N/A"), (15, "(null)")):
        values[place] = value

    def slow(argv: tuple[str, ...]) -> None:
        if argv == JOBS:
            now[0] += 3.0
            begin = {"present": now[0], "later": now[0] + 60.0}
            rows = [[n, n, *values[2:12], str(int(begin[name])), *values[13:]] for n, name in names]
            slurm.texts["jobs"] = "\n".join([header, *("|".join(row) for row in rows), ""])

    names = [("71", "present"), ("72", "later")]
    slurm.fault = slow
    seen = Observer(slurm, lambda: now[0], wait=lambda _: None).snapshot()
    assert [(job.held_by, job.eligible) for job in seen.jobs] == [("manager", True), ("manager", False)]


def test_what_did_not_change_is_the_same_object_and_details_are_asked_once() -> None:
    slurm = Recorded()
    looks = observer(slurm)
    first = looks.snapshot()
    calls = len(slurm.calls)
    again = looks.snapshot()
    assert [a is b for a, b in zip(first.jobs, again.jobs, strict=True)].count(True) >= len(first.jobs) - 1
    assert again.nodes is first.nodes
    assert [argv[0] for argv in slurm.calls[calls:]] == ["sinfo", "squeue", "scontrol"]
    slurm.texts["nodes"] = without(slurm.texts["nodes"], "n4")
    assert "n4" not in looks.snapshot().by_node


def test_details_of_jobs_that_are_gone_are_dropped_once_they_outnumber_the_others() -> None:
    looks = observer(Recorded())
    seen = looks.snapshot()
    live = dict(seen.details)
    key, one = next(iter(live.items()))
    bound = 2 * len(seen.jobs) + 1000
    for count, left in ((bound, bound), (bound + 1, len(live))):
        gone = {key._replace(name=f"gone{k}"): one for k in range(count - len(live))}
        looks._details = {**live, **gone}
        assert len(looks.snapshot().details) == left


def test_a_reused_id_is_another_job() -> None:
    slurm = Recorded()
    looks = observer(slurm)
    looks.snapshot()
    for name in ("jobs", "details"):
        slurm.texts[name] = slurm.texts[name].replace("1795331205", "1795331249")
    key = JobKey("2", 1795331249.0)
    seen = looks.snapshot()
    assert key in seen.by_key
    assert key in seen.details
    assert JobKey("2", 1795331205.0) not in seen.details


@pytest.mark.parametrize("fault", ["hang", "fail", "garbage", "cut"])
@pytest.mark.parametrize("command", ["squeue", "sinfo", "scontrol"])
def test_a_command_that_misbehaves_is_an_error_never_an_empty_cluster(fault: str, command: str) -> None:
    slurm = Recorded(fault=lambda argv: fault if argv[0] == command else None)
    with pytest.raises(SlurmError):
        observer(slurm).snapshot()


def test_an_empty_answer_is_no_empty_queue() -> None:
    """A squeue whose output was lost ends with status 0 too; of a queue without a job it prints the header."""
    slurm = Recorded()
    looks = observer(slurm)
    looks.snapshot()
    slurm.texts["jobs"] = JOB_HEADER
    assert looks.snapshot().jobs == ()
    for text in ("", recorded("jobs").removeprefix(JOB_HEADER)):
        slurm.texts["jobs"] = text
        with pytest.raises(SlurmError):
            looks.snapshot()


def test_an_empty_list_of_licences_is_not_a_slurm_without_any() -> None:
    with pytest.raises(SlurmError):
        parse_pool("")
    assert parse_pool("No licenses configured in Slurm.\n") is None


@pytest.mark.parametrize("line", ["8|8|1795331207|PENDING|x|p1|x|1\n", LINE.replace("n[1-2]", "n[2-") + "\n"])
def test_one_bad_line_is_told_and_the_others_are_read(line: str) -> None:
    slurm = Recorded()
    slurm.texts["jobs"] += line
    seen = observer(slurm).snapshot()
    assert (len(seen.jobs), len(seen.unreadable)) == (13, 1)


def test_no_node_is_an_error_also_after_a_good_look() -> None:
    slurm = Recorded()
    looks = observer(slurm)
    looks.snapshot()
    slurm.texts["nodes"] = ""
    with pytest.raises(SlurmError):
        looks.snapshot()


def test_a_job_without_details_is_not_looked_for_every_round() -> None:
    """``squeue --json`` costs 3 kB per job: one job that it does not show must not cost it once a second."""
    slurm, now = Recorded(), [TAKEN_S]
    slurm.texts["details"] = slurm.texts["details"].replace('"job_id": 2,', '"job_id": 999,')
    looks = Observer(slurm, lambda: now[0], wait=lambda _: None)
    for _ in range(120):
        snapshot = looks.snapshot()
        now[0] += 1.0
    assert JobKey("2", 1795331205.0) not in snapshot.details
    assert len(snapshot.details) == 12
    assert sum("--json" in argv for argv in slurm.calls) <= 3 + 120 // 60
    slurm.texts["jobs"] += LINE + "\n"
    asked = len(slurm.calls)
    looks.snapshot()
    assert DETAILS in slurm.calls[asked:], "a new job is looked for at once"


def test_parts_of_a_heterogeneous_job_are_named_as_squeue_names_them() -> None:
    part = {"job_id": 153, "array_job_id": 0, "array_task_id": None, "het_job_id": 152, "het_job_offset": 1}
    ((key, (details, _)),) = parse_details(json.dumps({"jobs": [part | {"submit_time": 7}]})).items()
    assert (key.name, details.parts > 1) == ("152+1", True)


@pytest.mark.parametrize(
    ("asks", "unknown"),
    [
        ({"tasks_per_core": 2}, False),
        ({"tres_per_job": "gres:gpu:1"}, False),
        ({"tasks_per_core": 1, "tres_per_job": "gres:gpu:1"}, False),
        ({"tasks_per_core": 2, "tres_per_job": "gres:gpu:1"}, True),
        ({"tasks_per_core": 65535, "tres_per_job": "gres:gpu:1"}, False),
        ({"tasks_per_socket": 1, "tres_per_node": "gres:gpu:1"}, True),
    ],
)
def test_tasks_of_a_core_or_socket_beside_gpus_count_the_upper_bound(asks: dict[str, object], unknown: bool) -> None:
    """As nodes_needed in job_submit.lua: 26.05 takes two nodes for ``-n5 --ntasks-per-core=2 --gpus=1``."""
    ((_, (_, needs)),) = parse_details(json.dumps({"jobs": [{"job_id": 1, "submit_time": 7, **asks}]})).items()
    assert needs.unknown is unknown


def with_used(text: str, used_w: int) -> str:
    return text.replace("Used=600", f"Used={used_w}")


def test_watts_that_slurm_fails_to_count_are_counted() -> None:
    slurm = Recorded()
    slurm.texts["pool"] = with_used(slurm.texts["pool"], 250)
    seen, reads = observer(slurm), 0
    for rounds in (3, 1):
        pool = seen.snapshot().pool
        assert pool == (1600, 600, 400, 350), "total, used, reserved, uncounted"
        assert pool.open_w == 1550, "jobs could hold that many"
        reads += rounds
        assert slurm.calls.count(POOL) == slurm.calls.count(JOBS) == reads, "a known difference is not read again"


def test_a_job_that_ends_between_jobs_and_pool_is_no_difference() -> None:
    slurm, reads = Recorded(), 0

    def end_once(argv: tuple[str, ...]) -> None:  # no fault: it counts the reads and sets what they find
        nonlocal reads
        reads += argv == POOL
        slurm.texts["pool"] = with_used(recorded("pool"), 400 if reads == 1 else 600)

    slurm.fault = end_once
    pool = observer(slurm).snapshot().pool
    assert pool == (1600, 600, 400, 0)
    assert reads == 2


def held_with(dependency: str) -> str:
    return LINE.replace("(null)", dependency).replace("4_2|4", "40|40") + "\n"


@pytest.mark.parametrize(
    ("dependency", "states", "eligible"),
    [
        ("afterok:900(unfulfilled)", "COMPLETED", True),
        ("afterok:900_*(unfulfilled)", "COMPLETED COMPLETED", True),
        ("afterok:900_*(unfulfilled)", "COMPLETED FAILED", False),
        ("afterok:900(unfulfilled)", "TIMEOUT", False),
        ("afternotok:900(unfulfilled)", "TIMEOUT", True),
        ("afternotok:900(unfulfilled)", "COMPLETED", False),
        ("afterany:900(unfulfilled)", "CANCELLED", True),
        ("afterany:900(unfulfilled),afterok:901(unfulfilled)", "COMPLETED", True),
        ("afterany:900(unfulfilled)?afterok:901(unfulfilled)", "COMPLETED", False),
        ("singleton(unfulfilled)", "COMPLETED", False),
        ("afterok:900(unfulfilled)", "COMPLETING", False),
        ("afterok:900(unfulfilled)", "", False),
        ("afterok:1(unfulfilled)", "COMPLETED", False),
    ],
)
def test_a_held_job_may_start_once_what_it_waits_for_has_ended(dependency: str, states: str, eligible: bool) -> None:
    """slurmctld looks at the dependencies of held jobs once a minute. Job 1 is in the queue, 900 and 901 are not."""

    class Ended(Recorded):
        def run(self, argv: Sequence[str]) -> CommandResult:
            if "-j" in argv:
                self.calls.append(tuple(argv))
                return CommandResult(0, states.replace(" ", "\n") + "\n", "", 0.0)
            return super().run(argv)

    slurm = Ended()
    slurm.texts["jobs"] += held_with(dependency)
    looks = observer(slurm)
    seen, again = looks.snapshot(), looks.snapshot()
    job, job_again = (s.by_key[JobKey("40", 1795245457.0)] for s in (seen, again))
    assert job.eligible == eligible
    assert job is job_again, "the same object while nothing changed"
    assert len({argv for argv in slurm.calls if "-j" in argv}) == sum("-j" in argv for argv in slurm.calls), "once"
