"""SWF: every field both ways, exact lines for rows that cannot be used, one clear error for bad input."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.refusal import refused
from wattqueue.errors import InputError, OutputError, WattQueueError
from wattqueue.formats import source
from wattqueue.formats.unusable import write_unusable
from wattqueue.formats.workloads.swf import EXTENSION, FIELDS, read_swf, write_swf
from wattqueue.model.bounds import DURATION_S, UNITS
from wattqueue.model.jobs import Jobs

GOOD = "1 0 10 100 4 -1 -1 8 200 -1 1 3 7 2 1 5 -1 -1"


def line(**values: Any) -> str:
    fields = dict(zip(FIELDS, GOOD.split(), strict=True)) | {k: str(v) for k, v in values.items()}
    return " ".join(fields.values())


def put(folder: Path, *lines: str, name: str = "a.swf") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def error_of(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_swf(path, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text
    assert caught.value.hint
    return text


def test_fields_become_columns(tmp_path: Path) -> None:
    path = put(tmp_path, "; Version: 2.2", "; Note: a", ";   and b", line(), line(job_id=2, wait_s=-1, submit_s=552.21))
    jobs, unusable, header = read_swf(path)
    assert header == {"Version": "2.2", "Note": "a\nand b"}
    assert len(unusable) == 0
    assert jobs.job_id.tolist() == [1, 2]
    assert jobs.job_id.dtype == np.int64
    assert jobs.submit_s.tolist() == [0.0, 552.21]
    assert jobs.nodes.tolist() == [8, 8]
    assert jobs.walltime_s.tolist() == [200, 200]
    assert jobs.runtime_s.tolist() == [100, 100]
    assert jobs.start_s is not None
    assert jobs.start_s[0] == 10
    assert np.isnan(jobs.start_s[1])
    assert (jobs.user.values() == "3").all()
    assert (jobs.app.values() == "2").all()
    assert (jobs.partition.values() == "5").all()
    assert {k: v.tolist() for k, v in jobs.extra.items()} == {
        "used_procs": [4, 4],
        "requested_procs": [8, 8],
        "status": [1, 1],
        "group": [7, 7],
        "queue": [1, 1],
    }
    assert jobs.mean_power_w is None
    assert jobs.origin == "measured"


def test_size_and_walltime_fall_back(tmp_path: Path) -> None:
    path = put(tmp_path, line(requested_procs=-1), line(requested_procs=0), line(requested_time_s=-1))
    jobs = read_swf(path).jobs
    assert jobs.nodes.tolist() == [4, 4, 8]
    assert jobs.walltime_s.tolist() == [200, 200, 100]
    assert read_swf(path, default_walltime_s=3600).jobs.walltime_s.tolist() == [200, 200, 3600]
    assert read_swf(path, procs_per_node=3).jobs.nodes.tolist() == [2, 2, 3]


def test_unusable_rows_are_listed_with_line_and_reason(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        "; Version: 2.2",
        line(),
        line(job_id=2, runtime_s=0),
        "",
        "; a comment in the middle",
        line(job_id=3, runtime_s=-1),
        line(job_id=4, requested_procs=-1, used_procs=0),
        "   ",
        line(job_id=5) + " ; inline",
        line(job_id=6, submit_s=-1),
        line(job_id=7, requested_procs=2.5),
        line(job_id=9, submit_s=1e18),
        line(job_id=10, runtime_s=1e300),
        line(job_id=8, requested_procs=2**24 + 1),
    )
    jobs, unusable, _ = read_swf(path)
    assert jobs.job_id.tolist() == [1, 5]
    assert [(n, i) for n, i, _ in unusable.rows()] == [
        (3, "2"),
        (6, "3"),
        (7, "4"),
        (10, "6"),
        (11, "7"),
        (12, "9"),
        (13, "10"),
        (14, "8"),
    ]
    reasons = [reason for _, _, reason in unusable.rows()]
    assert reasons[0] == reasons[1] == "no positive runtime"
    assert "no positive size" in reasons[2]
    assert reasons[3] == "no submit time"
    assert "whole" in reasons[4]
    assert [reason.split(" outside")[0] for reason in reasons[5:]] == ["submit time", "run time", "size"]
    write_unusable(tmp_path / "unusable.csv", unusable)
    lines = (tmp_path / "unusable.csv").read_text().splitlines()
    assert lines[:2] == ["line,job_id,reason", "3,2,no positive runtime"]
    assert len(lines) == 9


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"runtime_s": 0}, "no positive runtime"), ({"runtime_s": DURATION_S.low}, ""),
        ({"submit_s": -1}, "no submit time"), ({"submit_s": 0}, ""),
        ({"requested_procs": 0, "used_procs": 0}, "no positive size"), ({"requested_procs": 0, "used_procs": 1}, ""),
        ({"requested_procs": 1.5}, "size is not a whole number"),
        ({"requested_procs": UNITS.high}, ""), ({"requested_procs": UNITS.high + 1}, "size outside"),
    ],
)  # fmt: skip
def test_rows_at_the_limits_of_what_can_be_used(tmp_path: Path, values: dict[str, float], reason: str) -> None:
    jobs, unusable, _ = read_swf(put(tmp_path, line(), line(job_id=2, **values)))
    assert [why.startswith(reason) for _, _, why in unusable.rows()] == ([True] if reason else [])
    assert len(jobs) == 2 - bool(reason)


def test_a_job_that_did_not_wait_started_when_it_was_submitted(tmp_path: Path) -> None:
    start = read_swf(put(tmp_path, line(submit_s=5, wait_s=0), line(submit_s=6, wait_s=-1))).jobs.start_s
    assert start is not None
    np.testing.assert_array_equal(start, [5.0, np.nan])


def test_lines_are_exact_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BLOCK_BYTES", 100)
    rows = [line(job_id=i, runtime_s=0 if i % 7 == 0 else 5) for i in range(1, 200)]
    rows[50] = "; between"
    path = put(tmp_path, "; Version: 2.2", *rows)
    jobs, unusable, _ = read_swf(path)
    assert len(jobs) + len(unusable) == 198
    assert unusable.line.tolist() == (unusable.job_id + 1).tolist()
    rows[120] = line(user="x")
    assert f"{path}:122" in error_of(put(tmp_path, "; Version: 2.2", *rows))


def test_extension_columns_are_kept(tmp_path: Path) -> None:
    path = put(tmp_path, line() + " {1,1} q_1d 1:ppn=2#excl", line(job_id=2) + " {7} q", line(job_id=3, runtime_s=-1))
    jobs = read_swf(path).jobs
    assert [jobs.extra[name].tolist() for name in EXTENSION] == [["{1,1}", "{7}"], ["q_1d", "q"], ["1:ppn=2#excl", ""]]
    write_swf(tmp_path / "b.swf", jobs)
    again = read_swf(tmp_path / "b.swf").jobs
    assert again.extra["request"].tolist() == ["1:ppn=2#excl", "-1"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_and_a_missing_last_one(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.swf"
    path.write_bytes(end.join(["; Version: 2", line(), line(job_id=2)]).encode())
    assert read_swf(path).jobs.job_id.tolist() == [1, 2]


def test_a_byte_order_mark_is_no_job(tmp_path: Path) -> None:
    path = tmp_path / "a.swf"
    path.write_bytes(f"\ufeff; Version: 2.2\n{GOOD}\n".encode())
    assert read_swf(path).header == {"Version": "2.2"}
    path.write_bytes(f"\ufeff{GOOD}\n".encode())
    assert len(read_swf(path).jobs) == 1


def test_gzip_is_known_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.swf"
    path.write_bytes(gzip.compress(GOOD.encode()))
    assert len(read_swf(path).jobs) == 1


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("", "", "0 jobs"),
        ("; Version: 2.2\n;\n\n", "", "0 jobs"),
        (GOOD + "\n1 2 3\n", ":2", "3 fields"),
        ("\n" + line(user="root"), ":2", "field 12 (user) is 'root'"),
        (line() + "\n" + line(runtime_s="nan"), ":2", "field 4 (runtime_s) is 'nan'"),
        (line(runtime_s="inf"), ":1", "field 4 (runtime_s)"),
        (line(submit_s="1e999"), ":1", "field 2 (submit_s)"),
        (line(submit_s="1,5"), ":1", "field 2 (submit_s) is '1,5'"),
        (line(submit_s="0x10"), ":1", "field 2 (submit_s)"),
        (line(submit_s="1_0"), ":1", "field 2 (submit_s)"),
        (line(runtime_s=0), "", "0 usable jobs"),
        ("\x00\x01\x02\xff\n\x00", ":1", "not a number"),
        ("job_id,submit_s\n1,2\n", ":1", "not a number"),
        ("x" * 1000, ":1", "…"),
    ],
)
def test_bad_text_is_one_clear_error(tmp_path: Path, text: str, where: str, what: str) -> None:
    path = tmp_path / "a.swf"
    path.write_bytes(text.encode("latin-1"))
    message = error_of(path)
    assert message.startswith(f"{path}{where}: ")
    assert what in message
    assert len(message) < len(str(path)) + 220


def test_truncated_and_corrupt_gzip(tmp_path: Path) -> None:
    noise = random.Random(1)
    whole = gzip.compress("\n".join(line(submit_s=noise.random()) for _ in range(5000)).encode())
    path = tmp_path / "a.swf.gz"
    path.write_bytes(whole[: len(whole) // 2])
    assert "truncated" in error_of(path)
    path.write_bytes(whole[:5000] + bytes(100) + whole[5100:])
    assert "corrupt" in error_of(path)
    path.write_bytes(b"\x1f\x8b")
    assert "truncated" in error_of(path)


def test_directory_missing_and_forbidden(tmp_path: Path) -> None:
    assert "is a directory" in error_of(tmp_path)
    assert "no such file" in error_of(tmp_path / "none.swf")
    with refused(tmp_path / ("n" * 300)):
        read_swf(tmp_path / ("n" * 300))
    with refused(None, "procs_per_node"):
        read_swf(tmp_path / "a.swf", procs_per_node=0)


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_without_end_is_refused_in_bounded_memory(tmp_path: Path, packed: bool) -> None:
    import tracemalloc

    path = tmp_path / "a.swf"
    if packed:
        with gzip.open(path, "wb", compresslevel=1) as out:
            out.writelines(bytes(1 << 20) for _ in range(200))
    else:
        with path.open("wb") as sparse:
            sparse.write(f"; Version: 2.2\n{GOOD}\n".encode())
            sparse.truncate(1 << 30)
    tracemalloc.start()
    message = error_of(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "more than 4 MiB" in message
    assert (":1" if packed else ":3") in message
    assert peak < 64 << 20


numbers = st.one_of(st.integers(0, 2**32), st.integers(0, 10**9).map(lambda v: v / 100))
size = st.integers(1, 2**24)
job = st.tuples(
    st.integers(0, 2**40),  # job_id
    numbers,
    st.one_of(st.just(-1), st.integers(0, 10**6).map(lambda v: v / 4)),  # wait_s
    numbers.filter(lambda v: v > 0),  # runtime_s
    size,
    *[st.one_of(st.just(-1), numbers)] * 2,
    st.one_of(st.just(-1), size),
    *[st.one_of(st.just(-1), numbers.filter(lambda v: v > 0))] * 2,  # requested_time_s
    *[st.one_of(st.just(-1), st.integers(0, 9))] * 8,
)


@given(rows=st.lists(job, min_size=1, max_size=20), note=st.text(st.characters(codec="ascii", categories=["L"])))
def test_round_trip_keeps_every_field(
    rows: list[tuple[float, ...]], note: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("swf")
    first = put(folder, f"; Note: {note}", *[" ".join(map(str, row)) for row in rows])
    trace = read_swf(first)
    second = folder / "b.swf.gz"
    write_swf(second, trace.jobs, trace.header)
    again = read_swf(second)
    assert again.header == {"Version": "2.2"} | trace.header
    same(trace.jobs, again.jobs)
    text = gzip.decompress(second.read_bytes()).decode().splitlines()
    back = np.array([[float(v) for v in t.split()] for t in text if not t.startswith(";")])
    assert back.tolist() == [list(map(float, row)) for row in rows]
    before = second.read_bytes()
    write_swf(second, trace.jobs, trace.header)
    assert second.read_bytes() == before


def same(a: Jobs, b: Jobs) -> None:
    for name in ("job_id", "submit_s", "nodes", "walltime_s", "runtime_s"):
        assert getattr(a, name).tolist() == getattr(b, name).tolist()
    for name in ("user", "app", "partition"):
        assert getattr(a, name).values().tolist() == getattr(b, name).values().tolist()
    assert (a.start_s is None) == (b.start_s is None)
    if a.start_s is not None and b.start_s is not None:
        np.testing.assert_allclose(a.start_s, b.start_s, rtol=0, atol=1e-3)
    assert {k: v.tolist() for k, v in a.extra.items()} == {k: v.tolist() for k, v in b.extra.items()}


def test_writer_numbers_names_and_says_generated(tmp_path: Path) -> None:
    jobs = Jobs.build(
        [0, 1.5], [1, 2], [3, 4], job_id=np.array(["a", "b"], object), user=["zoe", "adam"], origin="generated"
    )
    write_swf(tmp_path / "deep" / "a.swf", jobs)
    again = read_swf(tmp_path / "deep" / "a.swf")
    assert "generated" in again.header["Note"]
    assert again.jobs.user.values().tolist() == ["2", "1"]
    assert again.jobs.job_id.tolist() == [1, 2]
    assert again.jobs.nodes.tolist() == [1, 2]
    assert again.jobs.start_s is None
    assert again.jobs.app.codes.tolist() == [-1, -1]


def test_writer_leaves_nothing_behind_on_failure(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with refused(tmp_path / "taken", kind=OutputError):
        write_swf(tmp_path / "taken", Jobs.build([0], [1], [1]))
    (tmp_path / "file").write_text("")
    with refused(tmp_path / "file" / "a.swf", kind=OutputError):
        write_swf(tmp_path / "file" / "a.swf", Jobs.build([0], [1], [1]))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "taken"]


token = st.one_of(
    st.sampled_from([b"-1", b"5", b"nan", b"1e400", b"1_0", b"0x1", b"\r", b"'", b'"', b";"]), st.binary()
)


@given(
    st.one_of(
        st.binary(),
        st.lists(token, max_size=60).map(b" ".join),
        st.tuples(st.lists(st.sampled_from([GOOD.encode(), b"", b";", b" ", b"\r"]), max_size=5), st.binary()).map(
            lambda t: b"\n".join([*t[0], t[1], GOOD.encode()])
        ),
    )
)
def test_any_bytes_give_jobs_or_our_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "a.swf"
    path.write_bytes(data)
    try:
        jobs = read_swf(path).jobs
    except WattQueueError:
        return
    assert len(jobs) >= 1
    assert (jobs.runtime_s > 0).all()


@pytest.mark.parametrize(
    ("name", "jobs", "left_out"),
    [
        ("KTH-SP2", 28_481, 8),
        ("LCG", 187_520, 521),
        ("HPC2N_alea_subset", 3_145, 25),
        ("wagap-2013", 17_898, 2),
        ("lublin_256_synthetic", 10_000, 0),
    ],
)
def test_real_traces(data_dir: Path, tmp_path: Path, name: str, jobs: int, left_out: int) -> None:
    path = data_dir / "swf" / f"{name}.swf.gz"
    trace = read_swf(path)
    assert (len(trace.jobs), len(trace.unusable)) == (jobs, left_out)
    with gzip.open(path, "rt") as text:
        lines = text.read().split("\n")
    for number, job_id, _ in trace.unusable.rows():
        assert lines[number - 1].split()[0] == job_id
    write_swf(tmp_path / "a.swf.gz", trace.jobs, trace.header)
    same(trace.jobs, read_swf(tmp_path / "a.swf.gz").jobs)
