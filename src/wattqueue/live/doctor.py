"""Report what this host can read and control, and what each missing thing costs. Reads only; never writes.

``wattqueue doctor`` is the first command on a new site, so it must work where almost nothing does: without Slurm,
without rights, on a login node or a laptop. Each area is examined independently, and a failure while examining is
itself a finding (``_guarded``). The commands it runs are fixed, with a timeout of 5 s and a reduced environment.

Five areas: the resource manager (examined by its driver), meters that this node offers, actuators, optional packages,
and the folder of compiled kernels. A check has one of three states: ``yes``, ``part`` (usable with a
restriction) or ``no``; ``cost`` states what does not work without it and, where there is one, the way out.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wattqueue.live.telemetry.powercap import counters

Run = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a command; returns its exit status and everything it printed."""
Find = Callable[[str], str | None]
"""Finds a program on the PATH."""

YES, PART, NO = "yes", "part", "no"
"""States of a check: usable, usable with a restriction, missing."""
PACKAGES = {
    "sklearn": ("ml", "estimators that learn by regression, and studies"),
    "scipy": ("ml", "placement by assignment, intervals over seeds, and studies"),
    "dask": ("scale", "campaigns on several machines"),
    "matplotlib": ("plot", "figures as PDF and SVG"),
    "sqlalchemy": ("live", "the database of applications, and the live service"),
    "alembic": ("live", "the database of applications, and the live service"),
    "httpx": ("live", "Prometheus as a source of power"),
    "paho": ("agent", "the node agent, and its readings in the live service"),
    "prometheus_client": ("live", "the live service's own metrics"),
}
"""Optional packages by import name: the extra that installs each, and what needs it."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "firefox")
"""Programs that can open a report."""


@dataclass(frozen=True, slots=True)
class Check:
    """One examined thing: its area and name, its state (yes, part, no), what was found, and what its lack costs."""

    area: str
    name: str
    state: str
    found: str
    cost: str = ""


Area = Callable[[Path, Run, Find], Iterator[Check]]
"""Examines one area of a host."""


def ask(argv: Sequence[str]) -> tuple[int, str]:
    """Run a command for at most 5 s; returns its exit status (-1 where it cannot run) and everything it printed.

    The environment is reduced to what finds and configures Slurm and Flux: a doctor's output should not depend on a
    locale or on a variable that changes the format of squeue.
    """
    environment = {k: v for k, v in os.environ.items() if k in {"PATH", "SLURM_CONF", "FLUX_URI", "HOME", "LANG"}}
    try:
        done = subprocess.run(  # the commands are named here, not given
            list(argv), capture_output=True, timeout=5.0, check=False, env=environment, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return -1, str(error)
    return done.returncode, (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")


def examine(
    managers: Mapping[str, Area], root: Path = Path("/"), run: Run = ask, find: Find = shutil.which
) -> tuple[Check, ...]:
    """Return every check, in order.

    ``managers`` are the resource managers to examine, by name. ``root`` is the folder that holds etc, sys and dev;
    ``run`` runs a command; ``find`` finds a program. All three are arguments so that tests can present any host.
    """
    areas = {
        **{name: area(root, run, find) for name, area in managers.items()},
        "Meters": _meters(root, find),
        "Actuators": _actuators(root),
        "Packages": _packages(),
        "Machine": _cache(os.environ),
    }
    return tuple(check for name, area in areas.items() for check in _guarded(name, area))


def _meters(root: Path, find: Find) -> Iterator[Check]:
    """Check the power sources of this node, from processors (RAPL) to the whole node (IPMI, Cray).

    Since Linux 5.10 ``energy_uj`` is readable by root alone (a side channel), so "no access" is the usual finding.
    """
    cost = "this node's watts cannot be read by RAPL"
    folder = root / "sys/class/powercap"
    try:
        yield Check("Meters", "RAPL powercap", YES, f"{len(counters(folder))} counters under {folder}")
    except PermissionError as error:
        hint = f"{cost}: energy_uj is root's; give the agent's group read access"
        yield Check("Meters", "RAPL powercap", PART, f"no access to {error.filename}", hint)
    except (OSError, ValueError):
        yield Check("Meters", "RAPL powercap", NO, f"none under {folder}", cost)
    yield _readable("Meters", "Cray pm_counters", root / "sys/cray/pm_counters/power", "only Cray nodes have them")
    sensors = sorted((root / "sys/class/hwmon").glob("*/power*_input")) if (root / "sys/class/hwmon").is_dir() else []
    yield Check(
        "Meters",
        "power sensors",
        YES if sensors else NO,
        f"{len(sensors)} under hwmon" if sensors else "none under hwmon",
        "" if sensors else "no board sensor to check RAPL against",
    )
    yield _readable("Meters", "IPMI", root / "dev/ipmi0", "no whole-node watts from the management controller")
    gpu = find("nvidia-smi") or find("rocm-smi")
    yield Check(
        "Meters", "GPU tool", YES if gpu else NO, gpu or "not found", "" if gpu else "no watts of GPUs from here"
    )


def _readable(area: str, name: str, path: Path, cost: str) -> Check:
    """Check that a file is there and readable; a folder on the way that may not be entered counts as absent."""
    try:
        exists = path.exists()
    except OSError:
        exists = False
    if not exists:
        return Check(area, name, NO, f"no {path}", cost)
    if os.access(path, os.R_OK):
        return Check(area, name, YES, str(path))
    return Check(area, name, PART, f"no access to {path}", cost)


def _actuators(root: Path) -> Iterator[Check]:
    """Check whether this node's frequency can be set. The first CPU stands for all of them."""
    folder = root / "sys/devices/system/cpu/cpu0/cpufreq"
    cost = "frequencies cannot be set on this node; Slurm may still set them on compute nodes (--cpu-freq)"
    if not (folder / "scaling_governor").exists():
        yield Check("Actuators", "CPU frequency", NO, f"no {folder}", cost)
        return
    writable = os.access(folder / "scaling_governor", os.W_OK)
    yield Check(
        "Actuators",
        "CPU frequency",
        YES if writable else PART,
        str(folder),
        "" if writable else "readable, not writable",
    )


def _packages() -> Iterator[Check]:
    """Check the optional packages by their import name, without importing them: some take a second."""
    for name, (extra, what) in PACKAGES.items():
        try:
            there = importlib.util.find_spec(name) is not None
        except (ImportError, ValueError):
            there = False
        cost = "" if there else f"needed for {what}: pip install 'wattqueue[{extra}]'"
        yield Check("Packages", name, YES if there else NO, "installed" if there else "not installed", cost)
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    yield Check(
        "Packages",
        "browser",
        YES if browser else PART,
        browser or "none here",
        "" if browser else "reports are one HTML file each: copy them to where a browser is",
    )


def _cache(environment: Mapping[str, str]) -> Iterator[Check]:
    """Check that compiled kernels can be kept. Of a folder that does not exist yet its nearest parent decides."""
    named = environment.get("WATTQUEUE_CACHE_DIR")
    home = environment.get("XDG_CACHE_HOME") or f"{environment.get('HOME', '/nonexistent')}/.cache"
    folder = Path(named) if named else Path(home) / "wattqueue"
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    good = os.access(place, os.W_OK)
    cost = "every run compiles again (some 10 s): point WATTQUEUE_CACHE_DIR to a folder of yours"
    yield Check("Machine", "kernel cache", YES if good else NO, str(folder), "" if good else cost)


def _guarded(area: str, checks: Iterator[Check]) -> Iterator[Check]:
    """Return the checks of an area; a failure while examining is a finding, too, and does not end the others."""
    try:
        yield from checks
    except (OSError, ValueError, RuntimeError) as error:
        yield Check(area, "rest", NO, f"could not be examined: {error}")
