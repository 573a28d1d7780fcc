"""Whatever a file holds: every row becomes a job, folds into one, or is listed with its line and a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattqueue.errors import WattQueueError
from wattqueue.formats.read import ReadOptions, read_workload
from wattqueue.formats.slurm import lines, records
from wattqueue.formats.slurm.sacct import read_sacct
from wattqueue.formats.workload import Workload
from wattqueue.formats.workload_format import DEFAULTS

NASTY = Path(__file__).parent / "nasty_sacct.psv"

KEPT = ["1", "2", "4", "5", "7_1", "8+0", "8+1", "11", "14", "16", "17", "18", "20", "22", "23", "25"]
LEFT_OUT = {
    1: lines.PREFACE,
    3: lines.PREFACE,
    10: records.REASONS[records.NEVER_RAN],
    13: records.REASONS[records.PENDING],
    14: records.REASONS[records.ARRAY_REST],
    18: records.REASONS[records.RUNNING],
    19: records.REASONS[records.NEVER_RAN],
    21: records.REASONS[records.NO_RUNTIME],
    22: records.REASONS[records.NO_RUNTIME],
    24: lines.FEW,
    29: records.REASONS[records.BAD_SUBMIT],
    31: records.REASONS[records.AGAIN],
    32: records.REASONS[records.ORPHAN],
    33: records.REASONS[records.BAD_ID],
    36: records.REASONS[records.NO_SUBMIT],
    38: lines.CUT,
}


def test_every_nasty_row_is_parsed_or_unusable_with_line_and_reason() -> None:
    workload = read_sacct(NASTY)
    assert workload.jobs.job_id.tolist() == KEPT
    found = {line: reason for line, _, reason in workload.unusable.rows()}
    assert found == LEFT_OUT
    steps = 3
    assert workload.rows == len(KEPT) + len(LEFT_OUT) + steps


def test_what_the_nasty_rows_say() -> None:
    jobs = read_sacct(NASTY).jobs
    at = {job: i for i, job in enumerate(jobs.job_id.tolist())}
    assert jobs.mean_power_w is not None
    power = {job: jobs.mean_power_w[i] for job, i in at.items()}
    assert power["1"] == 500.0
    assert power["18"] == pytest.approx(300_500 / 600)
    assert np.isnan([power["16"], power["17"]]).all()
    assert jobs.app.values()[at["14"]] == "a|b pipe"
    assert jobs.app.values()[at["22"]] == "küche €"
    assert jobs.nodes[at["20"]] == 1500
    assert jobs.runtime_s[at["5"]] == 2 * 86_400 + 4_205
    assert jobs.walltime_s[at["5"]] == jobs.runtime_s[at["5"]]
    assert jobs.runtime_s[at["23"]] == 600.0, "suspended time is no run time"
    assert jobs.extra["state"][at["2"]] == "CANCELLED"
    assert jobs.partition.values()[at["11"]] == ""
    assert jobs.extra["alone"][at["25"]] == "unknown"


def accounted(workload: Workload) -> None:
    jobs = workload.jobs
    assert len(jobs) + len(workload.unusable) <= workload.rows
    assert all(reason for _, _, reason in workload.unusable.rows())
    assert (np.diff(jobs.submit_s) >= 0).all()
    assert np.isfinite(jobs.runtime_s).all()
    if jobs.mean_power_w is not None:
        assert not (jobs.mean_power_w < 0).any()


def survives(path: Path, options: ReadOptions = DEFAULTS) -> bool:
    """Reading gives a workload that is whole, or one of our errors; any other exception passes through."""
    try:
        workload = read_workload(path, options)
    except WattQueueError as error:
        return bool(str(error))
    accounted(workload)
    return True


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "file"


@given(data=st.binary(max_size=400))
def test_any_bytes(scratch: Path, data: bytes) -> None:
    scratch.write_bytes(data)
    assert survives(scratch)


HEADER = b"JobID|JobName|Submit|Start|End|Elapsed|Timelimit|State|NNodes|NodeList|ConsumedEnergyRaw|AllocTRES|ReqMem\n"
WORDS = (
    *("", "Unknown", "None", "INVALID", "Partition_Limit", "UNLIMITED", "1", "0", "-1", "1-00:00:00", "9:03", "nan"),
    *("2026-09-01T09:00:00", "2026-10-25T02:30:00", "2026-09-01T09:00:00+0200", "1788220800", "31.12.2026", "1e300"),
    *("12", "12_3", "12_[1-4%2]", "12+1", "12.batch", "12.0", "12.ext+", "99999999999999999999", "COMPLETED"),
    *("n[1-4]", "n[1-", "n1,,", "4.58M", "16384P", "energy=5,node=2", "4Gn", "RUNNING", "CANCELLED by 5"),
)
word = st.sampled_from(WORDS) | st.text(max_size=8)
row = st.lists(word, min_size=11, max_size=14).map("|".join)


@given(rows=st.lists(row, max_size=12), zone=st.sampled_from([None, "Europe/Berlin", "-03:30"]), queued=st.booleans())
def test_any_rows_below_a_header(scratch: Path, rows: list[str], zone: str | None, queued: bool) -> None:
    scratch.write_bytes(HEADER + "\n".join(rows).encode("utf-8", "surrogatepass"))
    assert survives(scratch, ReadOptions(time_zone=zone, queued=queued))


@settings(max_examples=100)
@given(data=st.data())
def test_a_damaged_dump(scratch: Path, data: st.DataObject) -> None:
    whole = bytearray(NASTY.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(whole) - 1))
        kind = data.draw(st.sampled_from(["flip", "drop", "double", "cut"]))
        if kind == "flip":
            whole[at] = data.draw(st.integers(0, 255))
        elif kind == "drop":
            del whole[at : at + data.draw(st.integers(1, 50))]
        elif kind == "double":
            whole[at:at] = whole[at : at + 50]
        elif at > 500:
            del whole[at:]
        if not whole:
            whole = bytearray(b"\n")
    scratch.write_bytes(bytes(whole))
    assert survives(scratch)


KEYS = (
    *("set", "number", "infinite", "current", "job_id", "task_id", "type", "count", "energy", "id", "step", "name"),
    *("submission", "elapsed", "limit", "start", "end", "consumed", "delay", "seq"),
)
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.sampled_from(KEYS), part, max_size=4),
    max_leaves=12,
)
JOB_KEYS = (
    *("job_id", "array", "het", "state", "job_state", "time", "tres", "steps", "nodes", "allocation_nodes", "user"),
    *("submit_time", "start_time", "end_time", "time_limit", "name", "node_count", "tres_alloc_str"),
    *("id", "subtime", "res", "profile", "walltime"),
)
slurm_job = st.fixed_dictionaries({}, optional=dict.fromkeys(JOB_KEYS, json_value))
profile_table = st.dictionaries(st.text(max_size=2), json_value, max_size=3)


@given(jobs=st.lists(slurm_job, max_size=3), profiles=st.none() | profile_table)
def test_any_json(scratch: Path, jobs: list[dict[str, object]], profiles: dict[str, object] | None) -> None:
    import json

    document: dict[str, object] = {"jobs": jobs} | ({} if profiles is None else {"profiles": profiles})
    scratch.write_text(json.dumps(document), encoding="utf-8", errors="surrogatepass")
    assert survives(scratch)
