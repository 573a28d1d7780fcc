"""Dumps of sacct in every dress that administrators bring them in."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.formats.refusal import refused
from wattqueue.formats.slurm import lines, records
from wattqueue.formats.slurm.sacct import ENERGY_SOURCES, read_energies, read_sacct
from wattqueue.formats.workload import Workload
from wattqueue.formats.workload_format import ReadOptions

FORMAT = (
    "JobID|JobName|User|Account|Partition|Submit|Start|End|Elapsed|Timelimit|State|NNodes|NodeList|ConsumedEnergyRaw"
)
DAY = "2026-09-01T"
T0 = 1788220800.0
"""2026-09-01T00:00:00 UTC."""


def row(job: str, start: str = "10:00:00", end: str = "11:00:00", elapsed: str = "01:00:00", **more: str) -> str:
    column = {
        "name": "app",
        "user": "ann",
        "account": "proj",
        "partition": "batch",
        "submit": f"{DAY}09:00:00",
        "start": DAY + start,
        "end": end if "T" in end else DAY + end,
        "elapsed": elapsed,
        "limit": "02:00:00",
        "state": "COMPLETED",
        "nodes": "2",
        "list": "n[1-2]",
        "energy": "",
    } | more
    return "|".join([job, *column.values()])


def read(tmp_path: Path, *rows: str, header: str = FORMAT, end: str = "\n", **options: object) -> Workload:
    path = tmp_path / "dump.psv"
    path.write_text("\n".join([header, *rows]) + end, encoding="utf-8")
    return read_sacct(path, ReadOptions(**options))  # type: ignore[arg-type]


def reasons(workload: Workload) -> dict[int, str]:
    return {line: why for line, _, why in workload.unusable.rows()}


def test_a_plain_dump_is_read_whole(tmp_path: Path) -> None:
    jobs = read(tmp_path, row("7", energy="3600000"), row("8", list="n[3-4]", user="bob", energy="7200000")).jobs
    assert jobs.job_id.tolist() == [7, 8]
    assert jobs.submit_s.tolist() == [T0 + 9 * 3600] * 2
    assert jobs.start_s is not None
    assert jobs.start_s.tolist() == [T0 + 10 * 3600] * 2
    assert jobs.runtime_s.tolist() == [3600.0, 3600.0]
    assert jobs.walltime_s.tolist() == [7200.0, 7200.0]
    assert jobs.nodes.tolist() == [2, 2]
    assert jobs.user.values().tolist() == ["ann", "bob"]
    assert jobs.app.names == ("app",)
    assert jobs.partition.names == ("batch",)
    assert jobs.mean_power_w is not None
    assert jobs.mean_power_w.tolist() == [500.0, 1000.0]
    assert jobs.extra["energy_j"].tolist() == [3.6e6, 7.2e6]
    assert jobs.extra["energy_quality"].tolist() == ["measured", "measured"]
    assert jobs.extra["energy_from"].tolist() == ["job", "job"]
    assert jobs.extra["partition_nodes"].tolist() == [4, 4]


def test_command_lines_are_kept_where_the_dump_has_them(tmp_path: Path) -> None:
    rows = [f"{row('7')}|sbatch run.sh cfd", f"{row('8', list='n[3-4]')}|"]
    jobs = read(tmp_path, *rows, header=f"{FORMAT}|SubmitLine").jobs
    assert jobs.extra["submit_line"].tolist() == ["sbatch run.sh cfd", ""]
    assert "submit_line" not in read(tmp_path, row("7")).jobs.extra


@pytest.mark.parametrize("dress", ["parsable", "crlf", "gzip", "bom", "noise", "semicolon", "lower case"])
def test_the_same_dump_in_other_dress(tmp_path: Path, dress: str) -> None:
    plain = read(tmp_path, row("7", energy="3600000"), row("8", state="CANCELLED by 1001"))
    text = (tmp_path / "dump.psv").read_text(encoding="utf-8")
    if dress == "parsable":
        text = text.replace("\n", "|\n")
    elif dress == "crlf":
        text = text.replace("\n", "\r\n")
    elif dress == "bom":
        text = "\ufeff" + text
    elif dress == "noise":
        text = "Last login: Tue\n\n$ sacct -a\n" + text
    elif dress == "semicolon":
        text = text.replace("|", ";")
    elif dress == "lower case":
        text = text.replace(FORMAT, FORMAT.lower())
    path = tmp_path / "other"
    data = text.encode()
    path.write_bytes(gzip.compress(data) if dress == "gzip" else data)
    other = read_sacct(path)
    for name in ("job_id", "submit_s", "nodes", "walltime_s", "runtime_s", "start_s"):
        assert getattr(other.jobs, name).tolist() == getattr(plain.jobs, name).tolist()
    assert other.jobs.extra["state"].tolist() == ["COMPLETED", "CANCELLED"]
    left_out = {1: "text before the header", 3: "text before the header"} if dress == "noise" else {}
    assert reasons(other) == left_out


def test_headers_may_repeat_and_change(tmp_path: Path) -> None:
    other = "JobIDRaw|NNodes|Submit|ElapsedRaw|User"
    workload = read(
        tmp_path,
        row("7"),
        FORMAT,
        row("8", list=""),
        other,
        f"9|4|{DAY}12:00:00|60|carl",
        other,
        f"10|1|{DAY}13:00:00|70|dora",
    )
    assert workload.jobs.job_id.tolist() == [7, 8, 9, 10]
    assert workload.jobs.nodes.tolist() == [2, 2, 4, 1]
    assert workload.jobs.runtime_s.tolist() == [3600, 3600, 60, 70]
    assert workload.jobs.user.values().tolist() == ["ann", "ann", "carl", "dora"]
    assert len(workload.unusable) == 0


def test_a_dump_without_a_header_says_how_to_mend_that(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_text(row("7") + "\n" + row("8") + "\n")
    with refused(f"{path}:1", "--noheader", "--columns"):
        read_sacct(path)
    jobs = read_sacct(
        path,
        ReadOptions(
            columns="JobID%20,JobName,User,Account,Partition,Submit,Start,End,Elapsed,Timelimit,State,NNodes,NodeList,ConsumedEnergyRaw",
        ),
    ).jobs
    assert jobs.job_id.tolist() == [7, 8]


@pytest.mark.parametrize(
    ("content", "line", "facts"),
    [
        (b"", "", ("sacct",)),
        (b"JobID          NNodes   NTasks\n------ ----- ----\n3047561 96\n", "", ("--parsable2",)),
        ("JobID|Submit".encode("utf-16"), "", ("UTF-16", "iconv")),
        (b"JobID|User|State\n1|ann|COMPLETED\n", "", ("Submit, Elapsed, NNodes",)),
        (b"JobID|Submit|Elapsed|NNodes\n", "", ("0 jobs",)),
        (b"x" * (5 << 20), ":1", ("4 MiB",)),
        (gzip.compress(b"JobID|Submit|Elapsed|NNodes\n" * 10_000, mtime=0)[:60], "", ("gzip",)),
    ],
)
def test_files_that_cannot_be_read_say_why(tmp_path: Path, content: bytes, line: str, facts: tuple[str, ...]) -> None:
    path = tmp_path / "dump"
    path.write_bytes(content)
    with refused(f"{path}{line}", *facts):
        read_sacct(path)


def test_rows_that_are_no_jobs_are_listed_with_line_and_reason(tmp_path: Path) -> None:
    rows = [
        row("7"),
        row("8", state="PENDING", start="x", elapsed="00:00:00").replace(f"{DAY}x", "Unknown"),
        row("9", state="RUNNING").replace(f"{DAY}11:00:00", "Unknown"),
        row("10_[3-9%2]", state="PENDING"),
        row("11", state="CANCELLED by 1001", elapsed="00:00:00", nodes="0", list="None assigned"),
        row("12", submit="Unknown"),
        row("13", submit="1. Sep 2026"),
        row("14", elapsed="INVALID"),
        row("15", nodes="", list=""),
        row("abc"),
        row("16").rsplit("|", 3)[0],
        row("17") + "|2|3",
        row("7"),
        row("999999999999999999999999"),
    ]
    workload = read(tmp_path, *rows)
    assert workload.jobs.job_id.tolist() == [7]
    assert workload.rows == len(rows)
    assert list(reasons(workload)) == list(range(3, 16))
    codes = (
        *(
            records.PENDING,
            records.RUNNING,
            records.ARRAY_REST,
            records.NEVER_RAN,
            records.NO_SUBMIT,
            records.BAD_SUBMIT,
        ),
        *(records.NO_RUNTIME, records.NO_NODES, records.BAD_ID),
    )
    expected = [*(records.REASONS[code] for code in codes), lines.FEW, lines.MANY]
    assert list(reasons(workload).values()) == [
        *expected,
        records.REASONS[records.AGAIN],
        records.REASONS[records.BAD_ID],
    ]


def test_a_truncated_last_line_is_named(tmp_path: Path) -> None:
    workload = read(tmp_path, row("7"), row("8")[:40], end="")
    assert workload.jobs.job_id.tolist() == [7]
    assert reasons(workload) == {3: lines.CUT}
    whole = read(tmp_path, row("7"), row("8"), end="")
    assert len(whole.jobs) == 2
    assert "no line end" in " ".join(whole.notes)


def test_a_separator_inside_a_name_is_repaired(tmp_path: Path) -> None:
    workload = read(tmp_path, row("7", name="a|b||c"), row("8", name="plain"))
    assert workload.jobs.app.values().tolist() == ["a|b||c", "plain"]
    assert len(workload.unusable) == 0


def test_bytes_that_are_no_utf8_and_odd_names(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_bytes(f"{FORMAT}\n".encode() + row("7", name="k\xfcche", user='o"brien').encode("latin-1") + b"\n")
    jobs = read_sacct(path).jobs
    assert jobs.app.names == ("k\ufffdche",)
    assert jobs.user.names == ('o"brien',)


@pytest.mark.parametrize(
    ("limit", "walltime_s"),
    [("UNLIMITED", 3600.0), ("Partition_Limit", 3600.0), ("", 3600.0), ("1-02:03:04", 93784.0), ("90", 5400.0)],
)
def test_time_limits(tmp_path: Path, limit: str, walltime_s: float) -> None:
    workload = read(tmp_path, row("7", limit=limit))
    assert workload.jobs.walltime_s.tolist() == [walltime_s]
    assert any("no time limit" in note for note in workload.notes) == (walltime_s == 3600.0)
    if walltime_s == 3600.0:
        assert read(tmp_path, row("7", limit=limit), default_walltime_s=9e3).jobs.walltime_s.tolist() == [9000.0]


def test_arrays_and_heterogeneous_jobs_keep_their_ids(tmp_path: Path) -> None:
    workload = read(tmp_path, row("12_3"), row("12+0"), row("12+1"), row("13"))
    assert workload.jobs.job_id.tolist() == ["12_3", "12+0", "12+1", "13"]
    assert "2 parts of heterogeneous jobs" in " ".join(workload.notes)


def test_a_requeued_job_stands_once_for_each_run(tmp_path: Path) -> None:
    workload = read(tmp_path, row("7", state="NODE_FAIL"), row("7", start="12:00:00", end="13:00:00"))
    assert workload.jobs.job_id.tolist() == [7, 7]
    assert workload.jobs.extra["alone"].tolist() == ["yes", "yes"]


def test_one_run_in_two_dumps_counts_once_even_if_it_ran_in_the_first(tmp_path: Path) -> None:
    still = row("7", state="RUNNING").replace(f"{DAY}11:00:00", "Unknown")
    workload = read(tmp_path, still, row("7"), row("8", start="12:00:00", end="13:00:00"))
    assert workload.jobs.job_id.tolist() == [7, 8]
    assert workload.jobs.extra["alone"].tolist() == ["yes", "yes"]
    assert reasons(workload)[2] == records.REASONS[records.AGAIN]


@pytest.mark.parametrize(
    ("memory", "gb"),
    [
        ("4Gn", 8.0),
        ("2000Mc", 32.0),
        ("4G", 4.0),
        ("0", None),
        ("?", None),
        ("", None),
        ("0n", None),
        ("1.5Tn", 3000.0),
    ],
)
def test_memory_in_all_units(tmp_path: Path, memory: str, gb: float | None) -> None:
    header = "JobID|Submit|Elapsed|NNodes|AllocCPUS|ReqMem"
    extra = read(tmp_path, f"7|{DAY}09:00:00|01:00:00|2|16|{memory}", header=header).jobs.extra
    assert ("memory_gb" in extra) == (gb is not None)
    if gb is not None:
        assert extra["memory_gb"].tolist() == pytest.approx([gb])


# Energy


@pytest.mark.parametrize(
    ("figure", "joules"),
    [("3.6M", 3.6e6), ("3600K", 3.6e6), ("3,6M", 3.6e6), ("3600000", 3.6e6), ("", None), ("0", None), ("-1", None),
     ("18446744073709551614", None), ("abc", None), ("16384P", None)],
)  # fmt: skip
def test_energy_figures(tmp_path: Path, figure: str, joules: float | None) -> None:
    workload = read(tmp_path, row("7", energy=figure), header=FORMAT.replace("EnergyRaw", "Energy"))
    if joules is None:
        assert workload.jobs.mean_power_w is None
        assert ("not numbers" in " ".join(workload.notes)) == (figure == "abc")
    else:
        assert workload.jobs.extra["energy_j"].tolist() == [joules]
        assert ("rounded" in " ".join(workload.notes)) == (figure[-1] in "MK")


def step(job: str, name: str, energy: str, elapsed: str = "01:00:00", nodes: str = "2") -> str:
    return row(f"{job}.{name}", elapsed=elapsed, energy=energy, nodes=nodes, submit=f"{DAY}10:00:00", limit="", user="")


def test_numbered_steps_are_summed_where_the_job_row_is_empty(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        row("7"),
        step("7", "batch", "900000", nodes="1"),
        step("7", "extern", "3700000"),
        step("7", "0", "1800000", "00:30:00"),
        step("7", "1", "1440000", "00:24:00"),
    )
    assert len(workload.jobs) == 1
    assert workload.jobs.extra["energy_j"].tolist() == [3_240_000.0]
    assert workload.jobs.extra["energy_from"].tolist() == ["steps"]
    assert workload.jobs.mean_power_w is not None
    assert workload.jobs.mean_power_w.tolist() == [500.0], "over the node-seconds that the steps measured"
    assert "4 rows are steps" in " ".join(workload.notes)


@pytest.mark.parametrize(
    ("job", "steps", "joules", "source"),
    [
        ("3600000", [("batch", "900000", "1"), ("extern", "3600000", "2"), ("0", "3500000", "2")], 3.6e6, "job"),
        ("8000000", [("batch", "900000", "1"), ("extern", "3600000", "2"), ("0", "3500000", "2")], 3.5e6, "steps"),
        ("", [("batch", "1800000", "1"), ("extern", "3600000", "2"), ("0", "0", "2")], 3.6e6, "extern"),
        ("", [("batch", "1800000", "1")], None, ""),
        ("", [("0", "3600000", "2"), ("1", "3600000", "2")], None, ""),
        ("", [("bat+", "9", "1"), ("ext+", "0", "2"), ("0", "3600000", "2")], 3.6e6, "steps"),
    ],
    ids=["job row", "job row is the sum of all", "extern", "batch of two nodes", "steps side by side", "cut-off names"],
)
def test_one_counter_is_taken_never_a_sum_of_overlapping_ones(
    tmp_path: Path, job: str, steps: list[tuple[str, str, str]], joules: float | None, source: str
) -> None:
    jobs = read(tmp_path, row("7", energy=job), *(step("7", n, e, nodes=k) for n, e, k in steps)).jobs
    if joules is None:
        assert jobs.mean_power_w is None
    else:
        assert jobs.extra["energy_j"].tolist() == [joules]
        assert jobs.extra["energy_from"].tolist() == [source]


def test_the_batch_step_counts_a_one_node_job(tmp_path: Path) -> None:
    jobs = read(tmp_path, row("7", nodes="1", list="n1"), step("7", "batch", "1800000", nodes="1")).jobs
    assert jobs.extra["energy_from"].tolist() == ["batch"]
    assert jobs.mean_power_w is not None
    assert jobs.mean_power_w.tolist() == [500.0]


def test_a_counter_that_failed_is_left_out_and_said_so(tmp_path: Path) -> None:
    rows = [
        row("7"),
        step("7", "0", "3600", "00:30:00"),
        step("7", "1", "1800000", "00:30:00"),
        row("8", energy="99999999999"),
    ]
    workload = read(tmp_path, *rows)
    assert workload.jobs.mean_power_w is not None
    assert np.array_equal(workload.jobs.mean_power_w, [500.0, np.nan], equal_nan=True)
    assert workload.jobs.extra["failed_counters"].tolist() == [1, 1]
    assert "2 energy counters left out" in " ".join(workload.notes)
    assert "7, 8" in " ".join(workload.notes)


def test_node_watts_bound_what_a_counter_may_say(tmp_path: Path) -> None:
    rows = [row("7", energy="1440000"), row("8", list="n[3-4]", energy="3600000")]
    power = read(tmp_path, *rows, node_watts=(300.0, 900.0)).jobs.mean_power_w
    assert power is not None
    assert np.array_equal(power, [np.nan, 500.0], equal_nan=True)
    with refused(None, "IDLE:MAX"):
        read(tmp_path, *rows, node_watts=(900.0, 300.0))


def test_energy_in_alloctres(tmp_path: Path) -> None:
    header = "JobID|Submit|Elapsed|AllocTRES"
    jobs = read(
        tmp_path, f"7|{DAY}09:00:00|01:00:00|billing=64,cpu=64,energy=3600000,gres/gpu=8,mem=480G,node=2", header=header
    ).jobs
    assert jobs.nodes.tolist() == [2]
    assert jobs.extra["cpus"].tolist() == [64]
    assert jobs.extra["gpus"].tolist() == [8]
    assert jobs.extra["energy_j"].tolist() == [3.6e6]
    assert jobs.extra["energy_quality"].tolist() == ["attributed"], "nothing shows that the job was alone"
    assert jobs.extra["alone"].tolist() == ["unknown"]


def test_steps_that_stand_apart_find_their_job(tmp_path: Path) -> None:
    workload = read(tmp_path, step("9", "0", "1"), row("7"), row("8", list="n3", nodes="1"), step("7", "0", "3600000"))
    assert workload.jobs.extra["energy_j"][0] == 3.6e6
    assert reasons(workload) == {2: records.REASONS[records.ORPHAN]}


# Sharing


def test_jobs_that_overlap_on_a_node_share_it(tmp_path: Path) -> None:
    rows = [
        row("1", list="n[001-004]", nodes="4", energy="7200000"),
        row("2", "10:30:00", "12:00:00", "01:30:00", list="n[004,007]", energy="7200000"),
        row("3", "11:00:00", "12:00:00", list="n[001-003]", nodes="3", energy="7200000"),
        row("4", "12:00:00", "13:00:00", list="n007", nodes="1", energy="1800000"),
        row("5", "10:00:00", "13:00:00", "03:00:00", list="rack[1-2]n[01-02]", nodes="4", energy="7200000"),
        row("6", "12:30:00", "13:30:00", list="rack2n02", nodes="1", energy="1800000"),
        row("7", list="nid[001535,006+", energy="3600000"),
    ]
    workload = read(tmp_path, *rows)
    assert workload.jobs.extra["alone"].tolist() == ["no", "no", "yes", "yes", "no", "no", "unknown"]
    quality = workload.jobs.extra["energy_quality"].tolist()
    assert quality == ["attributed", "attributed", "measured", "measured", "attributed", "attributed", "attributed"]
    summary = workload.summary()
    assert (summary["alone_yes"], summary["alone_no"], summary["alone_unknown"]) == (2, 4, 1)
    assert (summary["energy_measured"], summary["energy_attributed"]) == (2, 5)
    assert "1 node lists cannot be read" in " ".join(workload.notes)
    assert "4 jobs shared nodes" in " ".join(workload.notes)


def test_a_job_that_still_runs_holds_its_nodes(tmp_path: Path) -> None:
    still = row("1", state="RUNNING", list="n1").replace(f"{DAY}11:00:00", "Unknown")
    jobs = read(tmp_path, still, row("2", "20:00:00", "21:00:00", list="n1", nodes="1")).jobs
    assert jobs.extra["alone"].tolist() == ["no"]


def test_a_dump_of_one_user_says_that_others_cannot_be_seen(tmp_path: Path) -> None:
    assert "sacct -a" in " ".join(read(tmp_path, row("1", energy="3600000")).notes)
    rows = [row("1", energy="3600000"), row("2", "12:00:00", "13:00:00", user="bob")]
    assert "sacct -a" not in " ".join(read(tmp_path, *rows).notes)


# Clocks


@pytest.mark.parametrize(
    ("time", "zone", "seconds"),
    [
        ("2026-09-01T09:00:00", None, T0 + 9 * 3600),
        ("2026-09-01T09:00:00", "+02:00", T0 + 7 * 3600),
        ("2026-09-01T09:00:00", "-0330", T0 + 12.5 * 3600),
        ("2026-09-01T09:00:00", "Europe/Berlin", T0 + 7 * 3600),
        ("2026-09-01T09:00:00+0200", None, T0 + 7 * 3600),
        ("2026-09-01T09:00:00+02:00", "America/New_York", T0 + 7 * 3600),
        ("2026-09-01T09:00:00Z", None, T0 + 9 * 3600),
        ("2026-09-01 09:00:00", None, T0 + 9 * 3600),
        ("2026/09/01-09:00:00", None, T0 + 9 * 3600),
        (f"{T0 + 9 * 3600:.0f}", None, T0 + 9 * 3600),
    ],
)
def test_times_of_day(tmp_path: Path, time: str, zone: str | None, seconds: float) -> None:
    workload = read(tmp_path, row("7", submit=time), time_zone=zone)
    assert workload.jobs.submit_s.tolist() == [seconds]


def test_an_unknown_zone_is_refused(tmp_path: Path) -> None:
    with refused(None, "'Mars/Olympus'"):
        read(tmp_path, row("7"), time_zone="Mars/Olympus")
    with refused(None, "'+99:00'"):
        read(tmp_path, row("7"), time_zone="+99:00")


def test_mixed_zones_are_not_guessed(tmp_path: Path) -> None:
    rows = [row("7", submit="2026-09-01T09:00:00+0200"), row("8")]
    workload = read(tmp_path, *rows)
    assert workload.jobs.job_id.tolist() == [7]
    assert "--time-zone" in reasons(workload)[3]
    both = read(tmp_path, *rows, time_zone="Europe/Berlin")
    assert both.jobs.submit_s.tolist() == [T0 + 7 * 3600] * 2


def test_clocks_that_change_are_said_and_nothing_is_lost(tmp_path: Path) -> None:
    # On 25 October 2026, 03:00 CEST is followed by 02:00 CET.
    night = "2026-10-25T"
    rows = [
        f"7|{night}02:50:00|{night}02:10:00|{night}03:10:00|01:00:00|1|n1",
        f"8|{night}01:30:00|{night}01:40:00|{night}02:40:00|02:00:00|1|n2",
        f"9|{night}04:00:00|{night}04:00:00|{night}05:00:00|01:00:00|1|n3",
    ]
    header = "JobID|Submit|Start|End|Elapsed|NNodes|NodeList"
    blind = read(tmp_path, *rows, header=header)
    assert sorted(blind.jobs.job_id.tolist()) == [7, 8, 9]
    assert blind.jobs.runtime_s.tolist() == [7200.0, 3600.0, 3600.0]
    said = " ".join(blind.notes)
    assert "1 jobs start before they were submitted, by up to 2,400 s" in said
    assert "1 jobs have an End that differs" in said
    sighted = read(tmp_path, *rows, header=header, time_zone="Europe/Berlin")
    assert sighted.jobs.start_s is not None
    assert (sighted.jobs.start_s >= sighted.jobs.submit_s).all()
    assert "start before" not in " ".join(sighted.notes)


def test_jobs_come_in_order_of_submission(tmp_path: Path) -> None:
    workload = read(tmp_path, row("9", submit=f"{DAY}09:30:00"), row("7"), row("8"))
    assert workload.jobs.job_id.tolist() == [7, 8, 9]
    assert any("order of submission" in note for note in workload.notes)


def test_queued_jobs_run_for_their_limit_where_that_is_asked(tmp_path: Path) -> None:
    waiting = row("8", state="PENDING", elapsed="00:00:00", list="None assigned").replace(f"{DAY}10:00:00", "Unknown")
    running = row("9", state="RUNNING", elapsed="00:10:00").replace(f"{DAY}11:00:00", "Unknown")
    workload = read(tmp_path, row("7"), waiting, running, queued=True)
    assert workload.jobs.job_id.tolist() == [7, 8, 9]
    assert workload.jobs.runtime_s.tolist() == [3600.0, 7200.0, 7200.0]
    np.testing.assert_array_equal(workload.jobs.start_s, [T0 + 36_000, np.nan, T0 + 36_000])  # 9 does run


def test_a_job_that_ran_in_one_dump_and_had_ended_in_a_later_one_counts_once_as_it_ended(tmp_path: Path) -> None:
    running = row("9", state="RUNNING", elapsed="00:10:00").replace(f"{DAY}11:00:00", "Unknown")
    assert read(tmp_path, running, row("9"), queued=True).jobs.runtime_s.tolist() == [3600.0]


def test_a_month_that_is_larger_than_a_block_folds_across_its_borders(tmp_path: Path) -> None:
    from wattqueue.formats import source

    rows: list[str] = []
    for i in range(100):
        rows += [
            row(str(i + 1), list=f"n[{2 * i}-{2 * i + 1}]"),
            step(str(i + 1), "batch", "0"),
            step(str(i + 1), "0", "3600000"),
        ]
    whole = read(tmp_path, *rows)
    saved = source.BLOCK_BYTES
    try:
        for size in (7, 100, 1000, 4096):
            source.BLOCK_BYTES = size * 37
            parts = read(tmp_path, *rows)
            assert parts.jobs.extra["energy_j"].tolist() == whole.jobs.extra["energy_j"].tolist() == [3.6e6] * 100
            assert len(parts.unusable) == 0
    finally:
        source.BLOCK_BYTES = saved


# Real dumps


def test_the_sample_of_schedsim(data_dir: Path) -> None:
    workload = read_sacct(data_dir / "jobs/schedsim_slurm_trace_sample.psv")
    assert len(workload.jobs) == workload.rows == 9
    assert workload.jobs.runtime_s[:3].tolist() == [543.0, 392.0, 1344.0]
    assert workload.jobs.walltime_s[:3].tolist() == [3600.0, 7200.0, 5400.0]
    assert workload.jobs.mean_power_w is None, "-1 is no energy"


def test_the_energies_of_archer2(data_dir: Path) -> None:
    found = read_energies(data_dir / "jobs/archer2_sacct_job_energy_frequency.csv")
    assert len(found.job_id) == 64
    by_id = {int(job): i for i, job in enumerate(found.job_id)}
    castep = by_id[3047561]
    assert found.energy_j[castep] == 61_215_519.0
    assert found.covered_node_s[castep] == 2337 * 96
    assert ENERGY_SOURCES[found.source[castep]] == "steps"
    cp2k = by_id[3038749]
    assert found.energy_j[cp2k] == 4_091_363.0
    assert ENERGY_SOURCES[found.source[cp2k]] == "job"
    failed = by_id[3044294]
    assert np.isnan(found.energy_j[failed])
    assert found.failed_counters.sum() == found.failed_counters[failed] == 1


def test_archer2s_aligned_tables_are_refused_with_the_remedy(data_dir: Path) -> None:
    path = data_dir / "formats/archer2_sacct_energy_blocks.txt"
    with refused(path, "--parsable2"):
        read_sacct(path)


NO_VALUE = ("4294967294", "4294967295", "18446744073709551614", "18446744073709551615")
"""What Slurm's 32- and 64-bit integers hold where they hold nothing."""
TEN_DAYS = {
    "start": "00:00:00", "end": "2026-09-11T00:00:00", "elapsed": "10-00:00:00", "nodes": "10", "limit": "11-00:00:00",
}  # fmt: skip
"""A job over which 4294967294 J would be a plausible 497 W per node."""


@pytest.mark.parametrize("mark", NO_VALUE)
def test_slurms_mark_for_no_value_is_no_energy(tmp_path: Path, mark: str) -> None:
    good = row("8", list="n[11-20]", energy="2592000000", **TEN_DAYS)  # 300 W
    workload = read(tmp_path, row("7", list="n[1-10]", energy=mark, **TEN_DAYS), good)
    assert workload.jobs.mean_power_w is not None
    assert np.array_equal(workload.jobs.mean_power_w, [np.nan, 300.0], equal_nan=True)
    assert workload.jobs.extra["energy_quality"].tolist() == ["", "measured"]
    assert "1 energies hold Slurm's mark" in " ".join(workload.notes)


@pytest.mark.parametrize(("raw", "other"), [("4294967294", "4.29G"), ("", "4.29G"), ("4294967295", "2592000000")])
def test_the_mark_counts_in_every_column_of_energy(tmp_path: Path, raw: str, other: str) -> None:
    header = FORMAT.replace("ConsumedEnergyRaw", "ConsumedEnergyRaw|ConsumedEnergy|AllocTRES")
    rows = [row("7", energy=f"{raw}|{other}|cpu=4,energy={raw or 4294967294}", **TEN_DAYS)]
    assert read(tmp_path, *rows, header=header).jobs.mean_power_w is None


def test_a_steps_mark_is_no_energy_either(tmp_path: Path) -> None:
    workload = read(
        tmp_path,
        row("7", **TEN_DAYS),
        step("7", "extern", "4294967294", "10-00:00:00", "10"),
        step("7", "0", "2160000000", "10-00:00:00", "10"),
    )
    assert workload.jobs.mean_power_w is not None
    assert workload.jobs.mean_power_w.tolist() == [250.0]
    assert workload.jobs.extra["energy_from"].tolist() == ["steps"]


@pytest.mark.parametrize("mark", NO_VALUE)
def test_the_mark_is_no_time_no_count_and_no_limit(tmp_path: Path, mark: str) -> None:
    header = "JobID|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|AllocCPUS|ReqMem|AllocTRES|State"
    rows = [
        f"7|1788220800|{mark}|1788224400|3600|{mark}|{mark}|{mark}|{mark}M|node=2,cpu=8,gres/gpu={mark}|COMPLETED",
        f"8|{mark}|1788220800|1788224400|3600|60|2|8|1G|node=2|COMPLETED",
        f"9|1788220800|1788220800|1788224400|{mark}|60|2|8|1G|node=2|COMPLETED",
    ]
    workload = read(tmp_path, *rows, header=header)
    jobs = workload.jobs
    assert (jobs.job_id.tolist(), jobs.nodes.tolist(), jobs.walltime_s.tolist()) == ([7], [2], [3600.0])
    assert jobs.extra["cpus"].tolist() == [8]
    assert jobs.start_s is None
    assert not {"gpus", "memory_gb"} & set(jobs.extra)
    assert [line for line, _, _ in workload.unusable.rows()] == [3, 4]


NIGHT = "2026-10-25T"
"""At 03:00 CEST the clock of Berlin goes back to 02:00 CET: local times from 02:00 to 03:00 occur twice."""
BEFORE_S = 1792886400.0
"""2026-10-25T02:00 CEST in Unix time; the second 02:00 is an hour later."""


@pytest.mark.parametrize(
    ("times", "expected_min", "ambiguous"),
    [
        # Submit, Start, End, Elapsed -> minutes of submit and start after 02:00 CEST.
        (("01:30", "02:10", "03:20", "01:10:00"), (-30, 70), 0),  # an unambiguous End decides Start: second pass
        (("01:30", "02:10", "03:20", "02:10:00"), (-30, 10), 0),  # and here the first
        (("01:30", "01:50", "02:20", "01:30:00"), (-30, -10), 0),  # an unambiguous Start: End is the second pass
        (("02:30", "02:10", "02:50", "00:40:00"), (30, 70), 0),  # Start is after Submit, so it is the second pass
        (("02:05", "02:10", "02:20", "01:10:00"), (5, 10), 0),  # first pass to second
        (("02:30", "02:10", "04:00", "01:30:00"), (30, 70), 0),  # suspended for 20 minutes: after Submit all the same
        (("01:30", "02:10", "02:50", "00:40:00"), (-30, 10), 1),  # either pass
        (("02:30", "04:10", "04:50", "00:40:00"), (30, 190), 1),  # the submission may be of either pass
    ],
)
def test_times_in_the_hour_that_comes_twice(
    tmp_path: Path, times: tuple[str, ...], expected_min: tuple[int, int], ambiguous: int
) -> None:
    submit, start, end, elapsed = times
    text = f"7|{NIGHT}{submit}:00|{NIGHT}{start}:00|{NIGHT}{end}:00|{elapsed}|1|n1"
    header = "JobID|Submit|Start|End|Elapsed|NNodes|NodeList"
    workload = read(tmp_path, text, header=header, time_zone="Europe/Berlin")
    jobs = workload.jobs
    assert jobs.start_s is not None
    assert [(jobs.submit_s[0] - BEFORE_S) / 60, (jobs.start_s[0] - BEFORE_S) / 60] == list(expected_min)
    assert (f"{ambiguous} jobs have a time in the hour" in " ".join(workload.notes)) == bool(ambiguous)
