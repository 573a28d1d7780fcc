"""sacct --json and squeue --json over the shapes that Slurm gave them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats.refusal import refused
from wattqueue.errors import InputError
from wattqueue.formats.read import ReadOptions, read_workload
from wattqueue.formats.slurm import records
from wattqueue.formats.workload import Workload


def boxed(value: float | None) -> dict[str, Any]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def old(job: int, **more: Any) -> dict[str, Any]:
    """A job as Slurm 21.08 and 22.05 print it."""
    return {
        "account": "proj",
        "allocation_nodes": 2,
        "array": {"job_id": 0, "task_id": None, "task": None},
        "association": {"user": "ann", "account": "proj", "cluster": "c", "partition": ""},
        "het": {"job_id": 0, "job_offset": None},
        "job_id": job,
        "name": "app",
        "nodes": "n[1-2]",
        "partition": "batch",
        "state": {"current": "COMPLETED", "reason": "None"},
        "steps": [],
        "time": {"elapsed": 3600, "start": 1000, "end": 4600, "submission": 500, "limit": 120},
        "tres": {"allocated": [{"type": "cpu", "name": None, "id": 1, "count": 64},
                               {"type": "gres", "name": "gpu", "id": 1001, "count": 8},
                               {"type": "energy", "name": None, "id": 3, "count": 3600000}]},
        "user": "ann",
    } | more  # fmt: skip


def new(job: int, **more: Any) -> dict[str, Any]:
    """A job as Slurm 23.11 to 26 print it."""
    return old(
        job,
        array={"job_id": 0, "task_id": boxed(None), "task": ""},
        het={"job_id": 0, "job_offset": boxed(None)},
        state={"current": ["COMPLETED"], "reason": "None"},
        time={"elapsed": 3600, "start": 1000, "end": 4600, "submission": 500, "limit": boxed(120)},
        **more,
    )


def shifted(job: dict[str, Any], hours: int) -> dict[str, Any]:
    """The same some hours later, when its nodes are free again."""
    time = job["time"]
    return job | {"time": time | {k: time[k] + 3600 * hours + 10**9 for k in ("start", "end", "submission")}}


def read(tmp_path: Path, jobs: list[Any], **options: Any) -> Workload:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"meta": {"slurm": {}}, "jobs": jobs, "errors": []}))
    return read_workload(path, ReadOptions(**options))


@pytest.mark.parametrize("shape", [old, new])
def test_a_job_of_either_shape(tmp_path: Path, shape: Any) -> None:
    workload = read(tmp_path, [shifted(shape(7), 0), shifted(shape(8), 2)])
    jobs = workload.jobs
    assert jobs.job_id.tolist() == [7, 8]
    assert jobs.submit_s.tolist() == [1e9 + 500, 1e9 + 7700]
    assert jobs.runtime_s.tolist() == [3600.0, 3600.0]
    assert jobs.walltime_s.tolist() == [7200.0, 7200.0]
    assert jobs.nodes.tolist() == [2, 2]
    assert jobs.user.names == ("ann",)
    assert jobs.extra["cpus"].tolist() == [64, 64]
    assert jobs.extra["gpus"].tolist() == [8, 8]
    assert jobs.mean_power_w is not None
    assert jobs.mean_power_w.tolist() == [500.0, 500.0]
    assert jobs.extra["alone"].tolist() == ["yes", "yes"]
    assert read_workload(tmp_path / "dump.json").format == "slurm-json"


def test_the_command_line_of_a_submission(tmp_path: Path) -> None:
    jobs = read(tmp_path, [shifted(new(7, submit_line="sbatch run.sh cfd"), 0), shifted(new(8), 2)]).jobs
    assert jobs.extra["submit_line"].tolist() == ["sbatch run.sh cfd", ""]


def test_ids_of_arrays_and_heterogeneous_jobs(tmp_path: Path) -> None:
    jobs = [
        shifted(old(70, array={"job_id": 12, "task_id": 3}), 0),
        shifted(new(71) | {"array": {"job_id": 12, "task_id": boxed(4), "task": ""}}, 0),
        shifted(new(72) | {"het": {"job_id": 20, "job_offset": boxed(1)}}, 0),
    ]
    assert read(tmp_path, jobs).jobs.job_id.tolist() == ["12_3", "12_4", "20+1"]


def test_steps_are_folded_in_every_shape(tmp_path: Path) -> None:
    none = {"allocated": [{"type": "energy", "name": None, "count": 18446744073709551614}]}
    steps = [
        {"step": {"id": {"job_id": 7, "step_id": 4294967291}}, "time": {"elapsed": 3600}, "nodes": {"count": 1},
         "statistics": {"energy": {"consumed": 999}}},
        {"step": {"id": "7.0"}, "time": {"elapsed": 1800}, "nodes": {"count": 2},
         "statistics": {"energy": {"consumed": boxed(1800000)}}},
        {"step": {"id": {"job_id": 7, "step_id": 1}}, "time": {"elapsed": 1800}, "nodes": {"count": 2},
         "tres": {"consumed": {"total": [{"type": "energy", "name": None, "count": 1440000}]}}},
    ]  # fmt: skip
    jobs = read(tmp_path, [shifted(new(7, tres=none, steps=steps), 0)]).jobs
    assert jobs.extra["energy_j"].tolist() == [3_240_000.0]
    assert jobs.extra["energy_from"].tolist() == ["steps"]


def test_what_squeue_lists_has_not_ended(tmp_path: Path) -> None:
    queued = {
        "job_id": 9,
        "job_state": ["PENDING"],
        "user_name": "bob",
        "name": "next",
        "node_count": boxed(4),
        "partition": "batch",
        "submit_time": boxed(10**9 + 5),
        "start_time": boxed(0),
        "end_time": boxed(0),
        "time_limit": boxed(60),
        "nodes": "",
        "tres_alloc_str": "",
    }
    running = queued | {"job_id": 10, "job_state": ["RUNNING"], "nodes": "n[1-4]", "start_time": boxed(10**9 + 60)}
    with pytest.raises(InputError) as caught:
        read(tmp_path, [queued, running])
    assert all(records.REASONS[code] in caught.value.what for code in (records.PENDING, records.RUNNING))
    jobs = read(tmp_path, [queued, running], queued=True).jobs
    assert jobs.job_id.tolist() == [9, 10]
    assert jobs.runtime_s.tolist() == [3600.0, 3600.0]
    assert jobs.nodes.tolist() == [4, 4]


def test_no_limit_and_odd_entries(tmp_path: Path) -> None:
    endless = new(7)
    endless["time"]["limit"] = {"set": True, "infinite": True, "number": 4294967295}
    workload = read(
        tmp_path, [shifted(endless, 0), "job", None, {}, {"job_id": [1], "time": 5, "tres": "x", "steps": 7}]
    )
    assert workload.jobs.walltime_s.tolist() == [3600.0]
    assert [line for line, _, _ in workload.unusable.rows()] == [2, 3, 4, 5]
    assert workload.rows == 5


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"jobs": 3}', "5", "[" * 100_000],
)
def test_files_that_are_no_dump(tmp_path: Path, text: str) -> None:
    path = tmp_path / "dump.json"
    path.write_text(text)
    with refused(path):
        read_workload(path)


@pytest.mark.parametrize("count", ["NaN", "Infinity", 10**400, True])
def test_energies_are_numbers_or_missing(tmp_path: Path, count: Any) -> None:
    jobs = [shifted(new(i), 2 * i) for i in range(3)]
    jobs[1]["tres"] = {"allocated": [{"type": "energy", "count": count}]}
    jobs[2]["tres"] = {"allocated": [None, {"type": "energy", "count": boxed(7200000)}]}
    power = read(tmp_path, jobs).jobs.mean_power_w
    assert power is not None
    assert np.array_equal(power, [500.0, np.nan, 1000.0], equal_nan=True)


@pytest.mark.parametrize("mark", [2**32 - 2, 2**32 - 1, 2**64 - 2, 2**64 - 1])
def test_slurms_mark_for_no_value_is_no_figure(tmp_path: Path, mark: int) -> None:
    job = shifted(new(7), 0)
    job["time"] |= {"elapsed": 864_000, "end": job["time"]["start"] + 864_000, "limit": mark}
    job |= {"allocation_nodes": 10, "array": {"job_id": 0, "task_id": mark, "task": ""}}
    job["tres"] = {"allocated": [{"type": "energy", "name": None, "count": mark}]}
    job["steps"] = [{"step": {"id": "7.0"}, "statistics": {"energy": {"consumed": mark}}}]
    jobs = read(tmp_path, [job]).jobs
    assert jobs.mean_power_w is None
    assert (jobs.job_id.tolist(), jobs.walltime_s.tolist()) == ([7], [864_000.0])


MARKS = (2**32 - 2, 2**32 - 1, 2**64 - 2, 2**64 - 1, 10**400, float("nan"), float("inf"), str(2**64 - 2))


@pytest.mark.parametrize("shape", [lambda mark: mark, lambda mark: {"set": True, "infinite": False, "number": mark}])
@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: str(mark)[:20])
def test_marks_for_no_value_are_counted_as_in_the_text_format(tmp_path: Path, mark: Any, shape: Any) -> None:
    """One of two jobs has no energy: the import says so."""
    jobs = [shifted(new(7), 0), shifted(new(8), 2)]
    jobs[0]["tres"] = {"allocated": [{"type": "energy", "name": None, "count": shape(mark)}]}
    found = read(tmp_path, jobs)
    counted = [note for note in found.notes if "mark for no value" in note]
    assert [note.split()[0] for note in counted] == ["1"]
    assert found.jobs.mean_power_w is not None
    assert np.isnan(found.jobs.mean_power_w).tolist() == [True, False]


@pytest.mark.parametrize("count", [0, None, boxed(None), {"set": False, "number": 2**64 - 2}, True, "x", []])
def test_a_job_that_states_no_energy_is_not_counted(tmp_path: Path, count: Any) -> None:
    """``{"set": false}`` says in words that there is none."""
    jobs = [shifted(new(7), 0), shifted(new(8), 2)]
    jobs[0]["tres"] = {"allocated": [{"type": "energy", "name": None, "count": count}]}
    assert not [note for note in read(tmp_path, jobs).notes if "mark for no value" in note]


@pytest.mark.parametrize("kind", [[], {}, 3, None])
def test_a_tres_without_a_name_for_its_type_is_passed_over(tmp_path: Path, kind: Any) -> None:
    job = shifted(new(7), 0)
    job["tres"] = {"allocated": [{"type": kind, "count": 5}, {"type": "cpu", "name": None, "count": 64}]}
    assert read(tmp_path, [job]).jobs.extra["cpus"].tolist() == [64]


def test_half_a_surrogate_pair_in_a_name_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"jobs": [shifted(new(7, name="a\ud800b"), 0)]}))
    assert read_workload(path).jobs.app.names == ("a?b",)
