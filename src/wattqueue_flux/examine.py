"""Report what this host can read and change of a Flux instance, for ``wattqueue doctor --flux`` (``live.doctor``)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from wattqueue.live.doctor import NO, PART, YES, Check, Find, Run

TESTED = "0.88"
"""The release of Flux that the tests use."""
MODULE = "sched_wattqueue"


def examine_flux(_root: Path, run: Run, find: Find) -> Iterator[Check]:
    """Check Flux, its Python, and of the instance around this shell its scheduler and what that needs."""
    path = find("flux")
    if path is None:
        yield Check("Flux", "flux", NO, "not found", "no Flux can be driven from here")
        return
    yield _release(run)
    yield _python(run)
    code, uri = run(["flux", "getattr", "rank"])
    if code != 0:
        cost = "run this inside an instance (flux start, or flux proxy JOB) to examine its scheduler"
        yield Check("Flux", "instance", NO, uri.strip()[:100] or "none", cost)
        return
    yield _scheduler(run)
    yield _feasibility(run)
    yield _nopanic(run)


def _release(run: Run) -> Check:
    """Check the release: the tests use one."""
    found = next((line.split()[-1] for line in run(["flux", "version"])[1].splitlines() if "commands:" in line), "")
    same = found.startswith(f"{TESTED}.")
    return Check("Flux", "flux", YES if same else PART, found or "no version", "" if same else f"tested with {TESTED}")


def _python(run: Run) -> Check:
    """Check the Python in which Flux runs modules: it has to be the one of this installation."""
    code, said = run(["flux", "python", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    runs = said.split()[0] if code == 0 and said.split() else "not known"
    cost = "" if runs == own else f"WattQueue is installed for {own}: install it with Flux's Python"
    return Check("Flux", "Python", YES if runs == own else NO, runs, cost)


def _scheduler(run: Run) -> Check:
    """Check which scheduler is loaded, and how many jobs it is sent."""
    lines = [line.split() for line in run(["flux", "module", "list"])[1].splitlines()]
    loaded = [words[0] for words in lines if len(words) > 1 and "sched" in words[-1].split(",")]
    others = [name for name in loaded if name != MODULE]
    if others:
        cost = f"two schedulers cannot be loaded: flux module unload {others[0]}"
        return Check("Flux", "scheduler", NO, ", ".join(loaded), cost)
    if not loaded:
        return Check("Flux", "scheduler", NO, "none", "flux module load $(wattqueue flux module) config=FILE")
    code, text = run(["flux", "module", "stats", MODULE])
    depth = json.loads(text).get("queue_depth", "") if code == 0 and text.lstrip().startswith("{") else ""
    whole = depth == "unlimited"
    cost = "" if whole else "backfilling sees a part of the queue: load the module without queue-depth"
    return Check("Flux", "scheduler", YES if whole else PART, f"{loaded[0]}, queue depth {depth or 'not known'}", cost)


def _feasibility(run: Run) -> Check:
    """Check whether jobs that can never start are refused at their submission."""
    code, text = run(["flux", "config", "get", "ingest.validator.plugins"])
    there = code == 0 and "feasibility" in text
    if there:
        return Check("Flux", "feasibility", YES, "checked at submission", "")
    cost = 'a job that never fits is refused later: [ingest.validator] plugins = ["jobspec", "feasibility"]'
    return Check("Flux", "feasibility", PART, "not checked", cost)


def _nopanic(run: Run) -> Check:
    """Check that the death of the scheduler does not end the instance."""
    code, text = run(["flux", "getattr", "broker.module-nopanic"])
    there = code == 0 and text.split()[:1] == ["1"]
    cost = "" if there else "if a module dies, all jobs are cancelled: flux setattr broker.module-nopanic 1"
    return Check("Flux", "module-nopanic", YES if there else NO, "1" if there else "not set", cost)
