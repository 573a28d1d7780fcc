"""Our own job table: what is written comes back, what cannot be used is refused with line and column."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.refusal import refused
from wattqueue.errors import InputError, OutputError, WattQueueError
from wattqueue.formats.table.job_table import COLUMNS, FURTHER, OF_POLICIES, RAN, SUBMISSION, read_table, write_table
from wattqueue.model import bounds, consent
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.version import SCHEMA_VERSION

ROOT = Path(__file__).parents[2]

HEAD = "job_id,submit_s,nodes,walltime_s,runtime_s,user,mean_power_w"


def put(folder: Path, *lines: str, name: str = "jobs.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def error_of(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(str(path))
    assert caught.value.hint
    return text.removeprefix(str(path))


def same(a: Jobs, b: Jobs) -> None:
    assert a.job_id.tolist() == b.job_id.tolist()
    for name in ("submit_s", "nodes", "walltime_s", "runtime_s"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert getattr(a, name).dtype == getattr(b, name).dtype
    for name in ("user", "app", "partition"):
        assert getattr(a, name).values().tolist() == getattr(b, name).values().tolist()
    for name in ("mean_power_w", "max_power_w", "start_s"):
        x, y = getattr(a, name), getattr(b, name)
        if y is None:
            assert x is None or np.isnan(x).all()
        else:
            np.testing.assert_array_equal(x, y)
    assert a.origin == b.origin
    assert {k: repr(v.tolist()) for k, v in a.extra.items()} == {k: repr(v.tolist()) for k, v in b.extra.items()}


def test_a_table_written_by_hand(tmp_path: Path) -> None:
    path = put(tmp_path, "submit_s,nodes,runtime_s,walltime_s,x_queue", "0,1,10.5,,fast", "2.5,2,20,30,")
    jobs = read_table(path)
    assert jobs.job_id.tolist() == [1, 2]
    assert jobs.walltime_s.tolist() == [10.5, 30.0]
    assert jobs.submit_s.tolist() == [0.0, 2.5]
    assert jobs.extra["queue"].tolist() == ["fast", ""]
    assert jobs.origin == "measured"
    assert read_table(path, default_walltime_s=99).walltime_s.tolist() == [99.0, 30.0]


def test_what_is_written(tmp_path: Path) -> None:
    jobs = Jobs.build(
        [0, 1.5], [1, 2], [10, 20], user=["", "a,b"], mean_power_w=[np.nan, 700], origin="generated",
        extra={"tag": np.array(["p", "q"], object), "score": np.array([0.5, np.nan])},
    )  # fmt: skip
    write_table(tmp_path / "a.csv", jobs)
    assert (tmp_path / "a.csv").read_text().splitlines() == [
        f"# wattqueue jobs schema_version={SCHEMA_VERSION} origin=generated",
        "job_id,submit_s,nodes,walltime_s,runtime_s,user,mean_power_w,x_tag,x_score",
        "1,0.0,1,10,10,,,p,0.5",
        '2,1.5,2,20,20,"a,b",700,q,',
    ]
    same(read_table(tmp_path / "a.csv"), jobs)
    write_table(tmp_path / "a.parquet", jobs)
    assert pl.read_parquet_metadata(tmp_path / "a.parquet")["wattqueue.origin"] == "generated"
    assert [c for c in pl.read_parquet(tmp_path / "a.parquet").columns if not c.startswith("x_")] == [
        c for c in COLUMNS if c not in {"app", "partition", "max_power_w", "start_s", *consent.COLUMNS}
    ]


word = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=6)
positive = st.floats(1e-6, bounds.DURATION_S.high)


@st.composite
def tables(draw: st.DrawFn) -> Jobs:
    n = draw(st.integers(1, 12))

    def column(value: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(value, min_size=n, max_size=n))

    maximum = st.one_of(st.just(float("nan")), st.floats(1e5, 2e5))
    watts = st.one_of(st.just(float("nan")), st.floats(0, 1e5))
    ids = draw(
        st.sampled_from([st.integers(-9, 2**60), st.text("ab1 #,\"'\n-", min_size=1, max_size=4).map("j".__add__)])
    )
    values = column(ids)
    return Jobs.build(
        column(st.floats(0, bounds.TIME_S.high)),
        column(st.integers(1, int(bounds.UNITS.high))),
        column(positive),
        walltime_s=column(positive),
        job_id=np.array(values) if isinstance(values[0], int) else np.array(values, object),
        user=column(word),
        app=column(st.sampled_from(["", "007", "7", "lu.C", "#x", "1e5"])),
        partition=column(st.just("")),
        mean_power_w=column(watts),
        max_power_w=draw(st.sampled_from([None, 5.0])) and column(maximum),
        start_s=column(st.one_of(st.just(float("nan")), st.floats(0, bounds.TIME_S.high))),
        origin=draw(st.sampled_from(["measured", "generated"])),
        extra={
            "a": np.array(column(st.integers(-(2**60), 2**60))),
            "b": np.array(column(word.map("t".__add__)), object),
        },
    )


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
@given(jobs=tables())
def test_round_trip(jobs: Jobs, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("table") / name
    write_table(path, jobs)
    same(read_table(path), jobs)
    before = path.read_bytes()
    write_table(path, jobs)
    assert path.read_bytes() == before


GOOD = "1,0,4,100,50,ann,700"


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ("1,-5,4,100,50,ann,700", ":3: column submit_s is -5"),
        ("1,,4,100,50,ann,700", ":3: column submit_s is missing"),
        ("1,nan,4,100,50,ann,700", ":3: column submit_s is 'nan', not a number"),
        ("1,inf,4,100,50,ann,700", ":3: column submit_s is inf"),
        ("1,0,0,100,50,ann,700", ":3: column nodes is 0"),
        ("1,0,2.5,100,50,ann,700", ":3: column nodes is 2.5"),
        ("1,0,4000000000,100,50,ann,700", ":3: column nodes is 4000000000"),
        ("1,0,four,100,50,ann,700", ":3: column nodes is 'four', not a number"),
        ("1,0,4,0,50,ann,700", ":3: column walltime_s is 0"),
        ("1,0,4,100,-1,ann,700", ":3: column runtime_s is -1"),
        ("1,0,4,100,,ann,700", ":3: column runtime_s is missing"),
        ("1,0,4,100,50,ann,-700", ":3: column mean_power_w is -700"),
        ("1,0,4,100,50,ann,NaN", ":3: column mean_power_w is 'NaN', not a number"),
        ("1,0,4,100,50,ann,700W", ":3: column mean_power_w is '700W', not a number"),
        (",0,4,100,50,ann,700", ":3: column job_id is missing"),
        (",,,,,,", ":3: column submit_s is missing"),
        ("1,0,4,100,50", ":3: 5 fields, 7 columns"),
        ("1,0,4,100,50,ann,700,", ":3: 8 fields, 7 columns"),
        ('1,0,4,100,50,"ann,700', ":3: unexpected end of data"),
        ('1,0,4,100,50,"a\nb",700\n2,-1,1,1,1,x,', ":5: column submit_s is -1"),
    ],
)
def test_bad_rows_are_refused_with_line_and_column(tmp_path: Path, bad: str, what: str) -> None:
    assert error_of(put(tmp_path, HEAD, GOOD, bad)).startswith(what)
    packed = tmp_path / "jobs.csv.gz"
    packed.write_bytes(gzip.compress(f"{HEAD}\n{GOOD}\n{bad}\n".encode()))
    assert error_of(packed).startswith(what)


def test_a_last_line_without_its_end_counts_as_a_line(tmp_path: Path) -> None:
    # As many commas are missing as two lines have: a count of lines that is wrong by two would hide them.
    path = tmp_path / "jobs.csv"
    path.write_text(f"{HEAD}\n{GOOD}\n1,0,4,100\n1,0,4,9\n1")
    assert error_of(path).startswith(":3: 4 fields, 7 columns")
    path.write_text(f"{HEAD}\n{GOOD}")
    assert len(read_table(path)) == 1


def test_lines_count_comments_and_blank_lines(tmp_path: Path) -> None:
    path = put(tmp_path, "# one, with a comma", "# two", HEAD, GOOD, "", "1,-5,4,100,50,ann,700")
    assert error_of(path).startswith(":6: column submit_s is -5")
    assert error_of(put(tmp_path, HEAD, GOOD, "", ",,,,,,")).startswith(":4: an empty row")
    assert len(read_table(put(tmp_path, "# one, with a comma", HEAD, GOOD, "", GOOD, ""))) == 2


@pytest.mark.parametrize(
    ("head", "what"),
    [
        ("job_id,submit_s,nodes,runtime_s,walltime", ":1: unknown column 'walltime' (did you mean walltime_s? "),
        ("submit_s,nodes,runtime_s,colour", ":1: unknown column 'colour' (columns of your own begin with x_)"),
        ("submit_s,nodes", ":1: no column runtime_s"),
        ("submit_s,nodes,runtime_s,nodes", ":1: two columns nodes"),
        ("0,1,2", ":1: unknown column '0'"),
        ("\x00\x01", ":1: unknown column"),
    ],
)
def test_bad_columns(tmp_path: Path, head: str, what: str) -> None:
    assert error_of(put(tmp_path, head, "1,2,3,4")).startswith(what)


def test_other_bad_files(tmp_path: Path) -> None:
    assert "0 jobs" in error_of(put(tmp_path, HEAD))
    assert "the file is empty" in error_of(put(tmp_path, "# nothing"))
    (tmp_path / "empty.csv").write_text("")
    assert "the file is empty" in error_of(tmp_path / "empty.csv")
    assert "is a directory" in error_of(tmp_path)
    assert "no such file" in error_of(tmp_path / "none.csv")
    assert "schema version '99'" in error_of(put(tmp_path, "# wattqueue jobs schema_version=99", HEAD, GOOD))
    (tmp_path / "latin.csv").write_bytes(f"{HEAD}\n1,0,4,100,50,Zo\xeb,700\n".encode("latin-1"))
    assert "cannot be read as CSV" in error_of(tmp_path / "latin.csv")
    with (tmp_path / "long.csv").open("wb") as sparse:
        sparse.write(f"{HEAD}\n{GOOD}\n".encode())
        sparse.truncate(1 << 30)
    assert error_of(tmp_path / "long.csv").startswith(":3: a line of more than 4 MiB")
    whole = gzip.compress("".join(f"{i},{i * 7 % 1013},1\n" for i in range(20000)).encode())
    (tmp_path / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    assert "truncated" in error_of(tmp_path / "cut.csv.gz")


def parquet(folder: Path, **columns: Any) -> Path:
    path = folder / "a.parquet"
    pl.DataFrame({"submit_s": [0, 1], "nodes": [1, 2], "runtime_s": [1.0, 2.0]} | columns).write_parquet(path)
    return path


def test_parquet_by_others(tmp_path: Path) -> None:
    jobs = read_table(parquet(tmp_path, user=[7, None], mean_power_w=[float("nan"), 5], x_when=["a", None]))
    assert jobs.user.values().tolist() == ["7", ""]
    assert jobs.user.names == ("7",)
    assert jobs.mean_power_w is not None
    assert np.isnan(jobs.mean_power_w[0])
    assert jobs.extra["when"].tolist() == ["a", ""]
    assert jobs.nodes.dtype == np.int32


def test_parquet_is_known_by_its_bytes(tmp_path: Path) -> None:
    other = tmp_path / "jobs.dat"
    other.write_bytes(parquet(tmp_path).read_bytes())
    assert len(read_table(other)) == 2


def test_csv_of_a_spreadsheet(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f"\ufeff{HEAD}\r\n{GOOD}\r\n1,,4,100,50,ann,700\r\n".encode())
    assert error_of(path).startswith(":3: column submit_s is missing")
    path.write_bytes(f"\ufeff{HEAD}\r\n{GOOD}\r\n".encode())
    assert read_table(path).mean_power_w == np.array([700.0])


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"submit_s": [0.0, -1.0]}, ": row 2: column submit_s is -1"),
        ({"runtime_s": [float("nan"), 1.0]}, ": row 1: column runtime_s is missing"),
        ({"runtime_s": [1.0, None]}, ": row 2: column runtime_s is missing"),
        ({"runtime_s": [1.0, float("inf")]}, ": row 2: column runtime_s is inf"),
        ({"nodes": ["1", "2"]}, ": column nodes holds String, not numbers"),
        ({"job_id": [1, None]}, ": row 2: column job_id is missing"),
        ({"job_id": [1.0, float("nan")]}, ": row 2: column job_id is missing"),
        ({"job_id": [float("inf"), 1.0]}, ": row 1: column job_id is missing"),
        ({"wait_s": [1, 2]}, ": unknown column 'wait_s'"),
    ],
)
def test_bad_parquet_rows(tmp_path: Path, columns: dict[str, Any], what: str) -> None:
    assert error_of(parquet(tmp_path, **columns)).startswith(what)


def test_bad_parquet_files(tmp_path: Path) -> None:
    (tmp_path / "d.parquet").mkdir()
    assert "is a directory" in error_of(tmp_path / "d.parquet")
    (tmp_path / "g.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    assert "Parquet" in error_of(tmp_path / "g.parquet")
    whole = parquet(tmp_path).read_bytes()
    (tmp_path / "t.parquet").write_bytes(whole[: len(whole) // 2])
    assert "Parquet" in error_of(tmp_path / "t.parquet")
    with pytest.raises(OutputError):
        write_table(tmp_path / "d.parquet", Jobs.build([0], [1], [1]))


piece = st.one_of(
    st.sampled_from([HEAD, GOOD, "submit_s,nodes,runtime_s", "0,1,2", '"', "#", "", "\r", "x_a"]), st.text(max_size=9)
)


@given(
    data=st.one_of(
        st.binary(max_size=80), st.lists(piece, max_size=6).map(lambda p: "\n".join(p).encode("utf-8", "surrogatepass"))
    )
)
def test_any_bytes_give_jobs_or_our_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    for name in ("a.csv", "a.parquet"):
        (folder / name).write_bytes(data)
        try:
            jobs = read_table(folder / name)
        except WattQueueError:
            continue
        assert len(jobs) >= 1


def test_labels_need_not_be_sorted_or_used(tmp_path: Path) -> None:
    jobs = Jobs.build([0, 1], [1, 1], [1, 1], user=Labels(np.array([1, 0], np.int32), ("z", "a", "unused")))
    for name in ("a.csv", "a.parquet"):
        write_table(tmp_path / name, jobs)
        assert read_table(tmp_path / name).user.values().tolist() == ["a", "z"]


@pytest.mark.parametrize("columns", ["submit_s,nodes,runtime_s", "submit_s,nodes,runtime_s,start_s"])
@pytest.mark.parametrize("figure", ["1e18", "1e300", "8589934593"])
def test_times_beyond_the_limit_are_refused(tmp_path: Path, columns: str, figure: str) -> None:
    name = columns.rsplit(",", maxsplit=1)[-1] if "start_s" in columns else "submit_s"
    row = f"0,2,60,{figure}" if "start_s" in columns else f"{figure},2,60"
    assert f"column {name}" in error_of(put(tmp_path, columns, row))


def test_a_maximum_below_the_mean_is_refused(tmp_path: Path) -> None:
    head = "submit_s,nodes,runtime_s,mean_power_w,max_power_w"
    message = error_of(put(tmp_path, head, "0,2,60,100,100", "0,2,60,100,99"))
    assert message.startswith(":3: column max_power_w")
    assert len(read_table(put(tmp_path, head, "0,2,60,100,", "0,2,60,,100"))) == 2


@pytest.mark.parametrize("name", ["job_id", "user", "x_note", "submit_s", "mean_power_w"])
@pytest.mark.parametrize("values", [[[1.0, 2.0]], [["a"]], [{"a": 1}], [b"\xff"]])
def test_columns_of_lists_are_refused_by_name(tmp_path: Path, name: str, values: list[Any]) -> None:
    path = tmp_path / "jobs.parquet"
    columns: dict[str, Any] = {"submit_s": [0.0], "nodes": [1], "runtime_s": [5.0]} | {name: values}
    pl.DataFrame(columns).write_parquet(path)
    with refused(path, name):
        read_table(path)


def test_ids_beyond_64_bits_with_sign_stay_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "jobs.parquet"
    ids = pl.Series([2**64 - 2], dtype=pl.UInt64)
    pl.DataFrame({"job_id": ids, "submit_s": [0.0], "nodes": [1], "runtime_s": [5.0]}).write_parquet(path)
    assert read_table(path).job_id.tolist() == ["18446744073709551614"]


def named_in_the_guide() -> list[str]:
    """Columns that the guide's description of the job table names."""
    text = (ROOT / "docs" / "guide" / "files.md").read_text(encoding="utf-8")
    table = text.partition("## Job table")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row) if name not in {"power_profile_w", "x_"}]


VALUES = {
    "job_id": ("a7", "b1"), "submit_s": (0.0, 5.0), "nodes": (1.0, 2.0), "user": ("ada", ""), "app": ("", "lu"),
    "partition": ("p", ""), "allowed": (1.0, None), "capped_windows": (0.0, None), "frequency_min_hz": (1e9, None),
    "frequency_max_hz": (None, 2e9), "script": ("#!/bin/sh", ""), "submit_line": ("", "sbatch a"),
    "job_environment": ("A=1", ""), "ran_partition": ("p", ""), "ran_frequency_hz": (2e9, None),
    "greatest_slowdown": (2.0, None),
}  # fmt: skip
"""Values of two jobs in each column; others: 60 and, where a gap is allowed, none."""


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("prefix", ["", "x_"])
def test_every_column_that_the_guide_names_is_read_and_written(tmp_path: Path, ending: str, prefix: str) -> None:
    names = named_in_the_guide()
    assert {*COLUMNS, *FURTHER} == set(names)
    filled = (60.0, 60.0), (60.0, None)
    cells = {name: VALUES.get(name, filled[name not in {"runtime_s"}]) for name in names}
    of_policies = set(FURTHER)
    head = {name: prefix + name if name in of_policies else name for name in names}
    path = tmp_path / f"jobs{ending}"
    frame = pl.DataFrame({head[name]: list(values) for name, values in cells.items()})
    if ending == ".parquet":
        frame.write_parquet(path)
    else:
        text = frame.write_csv(quote_style="never").encode()
        path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    jobs = read_table(path)
    for name in OF_POLICIES:
        expected = [np.nan if v is None else v for v in cells[name]]
        np.testing.assert_array_equal(jobs.extra[name], expected)
    for name in (*SUBMISSION, *RAN):
        assert [v or "" for v in jobs.extra[name]] == list(cells[name])
    assert jobs.consent is not None
    write_table(tmp_path / "again.csv", jobs)
    assert set((tmp_path / "again.csv").read_text().splitlines()[1].split(",")) == set(names)


def test_a_column_with_and_without_its_prefix_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_s,nodes,runtime_s,memory_gb,x_memory_gb\n0,1,60,1,2\n")
    with pytest.raises(InputError):
        read_table(path)


@pytest.mark.parametrize(
    ("name", "value"), [("memory_gb", "-1"), ("capped_windows", "0.5"), ("frequency_min_hz", "2.4")]
)
def test_figures_that_only_some_policies_read_are_checked_too(tmp_path: Path, name: str, value: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(f"submit_s,nodes,runtime_s,{name}\n0,1,60,\n5,1,60,{value}\n")
    with pytest.raises(InputError) as error:
        read_table(path)
    assert name in str(error.value)


def test_a_damaged_parquet_file_prints_nothing_of_its_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Some damage makes the reader's Rust code panic, which prints a stack trace from a thread of its own."""
    path = tmp_path / "jobs.parquet"
    write_table(path, Jobs.build(np.arange(200.0), np.ones(200, int), np.full(200, 60.0), user=["ada", "bob"] * 100))
    whole, rng = path.read_bytes(), np.random.default_rng(1)
    footer = int.from_bytes(whole[-8:-4], "little")
    panics = 0
    for _ in range(900):
        damaged = bytearray(whole)
        damaged[-8 - int(rng.integers(1, footer + 1))] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            read_table(path)
        except InputError as error:
            panics += isinstance(error.__cause__, pl.exceptions.PanicException)
    assert panics, "none of the damage does what this test is about"
    assert capfd.readouterr().err == ""
