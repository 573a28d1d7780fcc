"""The public names: pinned, few, and free until they are used."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wattqueue
from wattqueue import parts

NAMES = {
    *("read_jobs", "generate", "JobTable", "Jobs"),
    *("load_machine", "Machine", "Partition", "Cap", "LoadTarget", "LoadTargets", "Consent", "load_policy"),
    *("simulate", "read_run", "RunResult", "replay", "compare", "whatif", "plan", "predict"),
    *("run_cells", "Shared"),
    *("WattQueueError", "InputError", "MachineError", "PolicyError"),
}
"""Removing or renaming one of them breaks programs: that needs a major release."""
HEAVY = {"numpy", "numba", "polars", "pydantic", "typer", "rich", "matplotlib", "scipy"}


def test_the_names_are_pinned() -> None:
    assert set(wattqueue.__all__) == NAMES
    assert len(NAMES) <= 26
    assert set(dir(wattqueue)) >= NAMES
    assert set(wattqueue._HOMES) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_name_is_what_its_module_defines(name: str) -> None:
    found = getattr(wattqueue, name)
    assert callable(found)
    if name not in ("whatif", "plan"):  # a package of the same name stands before it
        assert found is getattr(importlib.import_module(wattqueue._HOMES[name]), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonesuch"):
        wattqueue.__getattr__("nonesuch")


def fresh(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_importing_the_package_imports_nothing_heavy() -> None:
    done = fresh("import sys, wattqueue; print(*{m.partition('.')[0] for m in sys.modules})")
    assert not HEAVY & set(done.stdout.split())


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(wattqueue.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("first", ["", "import wattqueue.whatif.caps", "wattqueue.whatif"])
def test_whatif_is_a_function_and_a_package_in_any_order(first: str) -> None:
    code = f"""
import wattqueue
{first}
try:
    wattqueue.whatif("nonesuch.swf", nodes=4)
except wattqueue.InputError as error:
    print(error.where)
from wattqueue.whatif.caps import parse_caps
import wattqueue.whatif.caps as caps
assert caps.parse_caps is parse_caps and callable(wattqueue.whatif)
import inspect
assert inspect.signature(wattqueue.whatif).parameters["risk"].default == "1%"
"""
    assert fresh(code).stdout.strip() == "nonesuch.swf"


PARTS = {
    *("Action", "Refusal", "Requeue", "SetFrequency", "SetDeviceLimits", "StartJob", "StopNode", "WakeNode"),
    *("Suspend", "Resume", "DelayStart", "DrainNode"),
    *("Estimator", "OnlineEstimator", "Remembering", "Order", "RerankingOrder", "Frequency", "Placement"),
    *("Backfill", "CustomBackfill", "Ledger", "Control", "Asked", "Entries", "Finished", "Prediction", "Start"),
    *("RunTime", "OnlineRunTime", "FinishedRuns", "PowerCorrection", "Runs"),
    *("Floats", "Ints", "KnownJobs", "Observed", "View", "check_estimator", "check_part"),
    *("WorkloadFormat", "WorkloadFile", "ReadOptions", "Workload", "Unusable", "NOT", "POSSIBLE", "LIKELY", "SURE"),
}
"""What a part or a format of one's own may need beside the names of ``wattqueue``."""


def test_the_names_for_parts_are_pinned() -> None:
    assert set(parts.__all__) == set(parts._HOMES) == PARTS
    for name in PARTS:
        assert getattr(parts, name) is getattr(importlib.import_module(parts._HOMES[name]), name)


def test_a_view_puts_the_states_of_units_in_words() -> None:
    states = ("on", "stopping", "off", "booting", "down")
    machine = wattqueue.Machine("m", (wattqueue.Partition("p", 7),))
    jobs = wattqueue.Jobs.build([0.0], [1], [1.0])
    view = parts.View(jobs, machine, None, np.array([2, 0, 1, 4, 3, 0, 2], np.int8))  # type: ignore[arg-type]
    found = {state: getattr(view, f"units_{state}").tolist() for state in states}
    assert found == {"on": [1, 5], "stopping": [2], "off": [0, 6], "booting": [4], "down": [3]}
