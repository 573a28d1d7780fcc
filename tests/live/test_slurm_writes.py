"""The controller's writes as Slurm's commands, and the driver that runs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.live.recordings import Recorded
from wattqueue.live.cluster import (
    ChangeJob,
    ContinueJob,
    HoldJob,
    JobFields,
    JobKey,
    PowerNode,
    ReleaseJob,
    RequeueJob,
    SetJobFrequency,
    SetPool,
    SetPriority,
    StopJob,
    Write,
)
from wattqueue.live.slurm.cluster import SlurmCluster, frequencies_in
from wattqueue.live.slurm.commands import CommandResult, SlurmError
from wattqueue.live.slurm.lists import SUBMITTED, parse_job
from wattqueue.live.slurm.writer import Frequencies, ReconfigurePool, ReservationPool
from wattqueue.live.slurm.writes import check, commands_of

START = JobFields("p2", (2, 2), 300, ("m3", "m2"), 4000.0)


@pytest.mark.parametrize(
    ("write", "arguments"),
    [
        (HoldJob("7", "", ""), ["hold 7"]),
        (ReleaseJob("152", "", ""), ["release 152"]),
        (RequeueJob("3_4", "", ""), ["requeuehold 3_4"]),
        (SetPriority("7", "", "", 77), ["update JobId=7 Priority=77"]),
        (PowerNode("n1", "", "", on=False), ["update NodeName=n1 State=POWER_DOWN"]),
        (PowerNode("n1", "", "", on=True), ["update NodeName=n1 State=POWER_UP"]),
        (
            ChangeJob("7", "", "", START),
            ["update JobId=7 Partition=p2 NumNodes=2-2 Licenses=matlab:1,watts:300 ReqNodeList=m[2-3] TimeLimit=67"],
        ),
        (ChangeJob("7", "", "", JobFields(nodes=())), ["update JobId=7 ReqNodeList="]),
        (ChangeJob("7", "", "", JobFields(comment="a b")), ["update JobId=7 Comment=a b"]),
        (
            ChangeJob("7", "", "", JobFields(watts=300), recount=True),
            ["update JobId=7 Licenses=matlab:1,watts:301", "update JobId=7 Licenses=matlab:1,watts:300"],
        ),
        (
            ChangeJob("7", "", "", JobFields(watts=1000), recount=True),
            ["update JobId=7 Licenses=matlab:1,watts:999", "update JobId=7 Licenses=matlab:1,watts:1000"],
        ),
    ],
)
def test_a_write_is_these_commands(write: Write, arguments: list[str]) -> None:
    commands = commands_of(write, ("matlab:1",), total_w=1000)
    assert [" ".join(argv[1:]) for argv in commands] == arguments
    assert {argv[0] for argv in commands} == {"scontrol"}


@pytest.mark.parametrize(
    "write",
    [
        HoldJob("1; rm -rf /", "", ""),
        HoldJob("--help", "", ""),
        PowerNode("n1 n2", "", "", on=True),
        ChangeJob("1", "", "", JobFields(nodes=("n1 Licenses=x",))),
        ChangeJob("1", "", "", JobFields(partition="p1 Licenses=x")),
    ],
)
def test_names_that_are_no_names_never_reach_a_command(write: Write) -> None:
    with pytest.raises(SlurmError):
        check(write)
    slurm = Recorded()
    with pytest.raises(SlurmError):
        SlurmCluster(slurm).apply(write)
    assert slurm.writes == []


def test_licences_of_others_are_written_again() -> None:
    """An update replaces the whole list: what a job holds beside watts is known from the last snapshot."""
    slurm = Recorded()
    slurm.texts["jobs"] = slurm.texts["jobs"].replace("watts:400", "matlab:1,watts:400")
    cluster = SlurmCluster(slurm)
    (job,) = (job for job in cluster.observe().jobs if job.key.name == "1")
    cluster.apply(ChangeJob("1", "", "", JobFields(watts=350), key=job.key))
    assert slurm.writes == [("scontrol", "update", "JobId=1", "Licenses=matlab:1,watts:350")]


class Reserved(Recorded):
    """A Slurm in which a reservation stands once it was created."""

    def run(self, argv: object) -> CommandResult:
        argv = tuple(argv)  # type: ignore[arg-type]
        created = any("create" in write for write in self.writes) and not any("delete" in w for w in self.writes)
        if "show" in argv and "reservation" in argv and created:
            return CommandResult(0, "ReservationName=wattqueue StartTime=1 Licenses=watts:1\n", "", 0.0)
        return super().run(argv)


def test_the_pool_is_a_reservation_and_none_where_all_is_open() -> None:
    slurm = Reserved()
    cluster = SlurmCluster(slurm, ReservationPool())
    cluster.observe()
    for open_w in (600, 250, 1600):
        cluster.apply(SetPool("watts", "", "", open_w))
    created, updated, deleted = slurm.writes
    assert created[:4] == ("scontrol", "create", "reservation", "ReservationName=wattqueue")
    assert created[-1] == "Licenses=watts:1000"
    assert updated == ("scontrol", "update", "ReservationName=wattqueue", "Licenses=watts:1350")
    assert deleted == ("scontrol", "delete", "ReservationName=wattqueue")


def test_the_pool_is_a_line_of_a_file_where_the_site_says_so(tmp_path: Path) -> None:
    slurm, file = Recorded(), tmp_path / "licences.conf"
    SlurmCluster(slurm, ReconfigurePool(file, "Licenses=matlab:3,watts:{watts}")).apply(SetPool("watts", "", "", 600))
    assert file.read_text().splitlines()[-1] == "Licenses=matlab:3,watts:600"
    assert slurm.writes == [("scontrol", "reconfigure")]


def test_files_for_slurm_that_cannot_be_written_are_errors_of_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    pool = SlurmCluster(Recorded(), ReconfigurePool(tmp_path / "file" / "licences.conf"))
    with pytest.raises(SlurmError):
        pool.apply(SetPool("watts", "", "", 600))
    frequencies = SlurmCluster(Recorded(), frequencies=Frequencies(tmp_path / "file"))
    with pytest.raises(SlurmError):
        frequencies.apply(SetJobFrequency("7", "", "", 2_100_000))


def test_frequencies_are_files_and_stand_in_the_snapshot(tmp_path: Path) -> None:
    cluster = SlurmCluster(Recorded(), frequencies=Frequencies(tmp_path))
    cluster.apply(SetJobFrequency("7", "", "", 2_100_000))
    (tmp_path / "notes").write_text("no number")
    assert (tmp_path / "7").read_text() == "2100000\n"
    assert cluster.observe().frequencies == {"7": 2_100_000}
    for _ in range(2):  # its epilogue may have removed the file meanwhile
        cluster.apply(SetJobFrequency("7", "", "", 0))
        assert cluster.observe().frequencies == {}


def test_frequencies_that_cannot_be_read_are_a_problem_and_the_round_goes_on(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    seen = SlurmCluster(Recorded(), frequencies=Frequencies(tmp_path)).observe()
    assert len(seen.jobs) == 13
    assert ["frequencies" in text for text in seen.problems] == [True]


def test_a_command_that_fails_is_an_error_with_its_first_words() -> None:
    slurm = Recorded(fault=lambda argv: "fail" if "hold" in argv else None)
    with pytest.raises(SlurmError) as caught:
        SlurmCluster(slurm).apply(HoldJob("7", "", "", key=JobKey("7", 1.0)))
    assert "Unable to contact" in caught.value.what


def test_a_row_of_squeue_gives_the_target_of_each_write() -> None:
    part = "9+1|10|1795331207|PENDING|JobHeldUser|p2|1|1|UNLIMITED|watts:200|0|65534|N/A|||(null)|1"
    assert parse_job(part).target == "9", "components are held and released as a whole"


@dataclass
class Refusing(Recorded):
    """A Slurm that refuses commands about some jobs, as scancel and scontrol do: a message, and the others are done."""

    refused: frozenset[str] = frozenset()
    done: Counter[str] = field(default_factory=Counter)

    def run(self, argv: Sequence[str]) -> CommandResult:
        named = [word.removeprefix("JobId=") for word in argv if word[0].isdigit() or word.startswith("JobId=")]
        jobs = [job for text in named for job in text.split(",")]
        self.done.update(job for job in jobs if job not in self.refused)
        answer = super().run(argv)
        bad = self.refused & set(jobs)
        return answer._replace(code=1, err="Invalid job id specified") if bad else answer


def test_nothing_is_written_to_a_job_that_got_the_id_of_another_after_a_crash() -> None:
    now = [1e9]
    slurm = Recorded()
    cluster = SlurmCluster(slurm, clock=lambda: now[0])
    seen = cluster.observe()
    first, second, *_ = (row for row in seen.jobs if row.pending)
    writes = [StopJob(row.target, "", "", key=row.key) for row in (first, second)]
    fresh = len(slurm.calls)
    assert cluster.apply_batch(writes) == ["", ""]
    assert SUBMITTED not in slurm.calls[fresh:], "what was listed a moment ago needs no second list"
    other = first.key._replace(submit_s=first.key.submit_s + 60.0)
    lines = slurm.texts["jobs"].splitlines(keepends=True)
    old = f"|{first.key.submit_s:.0f}|"
    slurm.texts["jobs"] = "".join(
        line.replace(old, f"|{other.submit_s:.0f}|", 1) if line.startswith(f"{first.key.name}|") else line
        for line in lines
    )
    now[0] += 5.0
    slurm.writes.clear()
    errors = cluster.apply_batch(writes)
    assert [bool(error) for error in errors] == [True, False]
    for write in (HoldJob(first.target, "", "", key=first.key), ReleaseJob(first.target, "", "", key=first.key)):
        with pytest.raises(SlurmError, match="another job"):
            cluster.apply(write)
    assert not [argv for argv in slurm.writes if first.target in argv]
    assert any(second.target in argv for argv in slurm.writes)
    cluster.apply(HoldJob(second.target, "", "", key=second.key))
    assert slurm.calls[fresh:].count(SUBMITTED) == 1, "one list serves the writes of the next moments"
    cluster.observe()
    cluster.apply(HoldJob(other.name, "", "", key=other))


def test_writes_of_one_shape_are_the_same_commands() -> None:
    slurm = Refusing()
    jobs = [str(n) for n in range(10, 40)]
    errors = SlurmCluster(slurm).apply_batch([StopJob(job, "", "") for job in jobs])
    assert errors == [""] * 30
    stop = ("scancel", "--signal=STOP", "--state=RUNNING")
    assert slurm.writes == [(*stop, *jobs), (*stop, "--full", *jobs)]
    slurm = Refusing()
    changes = [ChangeJob(job, "", "", JobFields(watts=0, limit_s=60.0 * (int(job) % 2 + 1))) for job in jobs]
    assert SlurmCluster(slurm).apply_batch(changes) == [""] * 30
    even, odd = ",".join(jobs[::2]), ",".join(jobs[1::2])
    assert slurm.writes == [
        ("scontrol", "update", f"JobId={even}", "Licenses=watts:0", "TimeLimit=1"),
        ("scontrol", "update", f"JobId={odd}", "Licenses=watts:0", "TimeLimit=2"),
    ]


def test_of_writes_together_those_that_slurm_refuses_have_an_error_and_the_others_are_done() -> None:
    slurm = Refusing(refused=frozenset({"12", "33"}))
    jobs = [str(n) for n in range(10, 40)]
    errors = SlurmCluster(slurm).apply_batch([ContinueJob(job, "", "") for job in jobs])
    assert {job for job, error in zip(jobs, errors, strict=True) if error} == {"12", "33"}
    assert set(slurm.done) == set(jobs) - {"12", "33"}
    assert len(slurm.writes) < 2 * len(jobs)


def test_a_name_that_is_no_job_keeps_a_command_of_many_from_being_run() -> None:
    slurm = Recorded()
    errors = SlurmCluster(slurm).apply_batch([StopJob("7", "", ""), StopJob("8 --all", "", "")])
    assert all(errors)
    assert slurm.writes == []


def test_frequency_files_that_are_not_text_or_no_number_are_left_out(tmp_path: Path) -> None:
    for name, content in (("7", b"1800000\n"), ("8", b"\xff\xfe"), ("9", "²".encode()), ("10", b"")):
        (tmp_path / name).write_bytes(content)
    assert frequencies_in(tmp_path) == {"7": 1_800_000}
