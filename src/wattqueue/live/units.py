"""Write the systemd units with this installation's paths.

The unit files of the package are templates for one layout. Two of their lines depend on the host and cannot be
guessed by a person who copies them: ``ExecStart`` needs the absolute path of *this* ``wattqueue`` (systemd has no
virtual environment and a PATH of its own), and ``User`` the account that job_submit.lua was installed for. Written by
the same command as the script, they cannot differ from it.
"""

from __future__ import annotations

import math
import os
import pwd
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from wattqueue.errors import InputError, OutputError
from wattqueue.formats.atomic_write import atomic_text
from wattqueue.formats.budgets import read_budgets
from wattqueue.formats.toml import dumps
from wattqueue.live.agents import BrokerSection
from wattqueue.live.config import GuardSection, LiveConfig

UNITS = ("wattqueue-live.service", "wattqueue-live-release.service", "wattqueue-live-release.timer")
GUARD_UNIT, GUARD_FILE = "wattqueue-guard.service", "guard.toml"
"""The unit of a guard, and its configuration, which stands beside that of the controller."""
LIMITS_UNIT, LIMITS_FILE = "wattqueue-limits.service", "limits.toml"
"""The same of what publishes limits of nodes."""
PAGE_UNIT = "wattqueue-page.service"
"""The unit of the operator page, where ``[page]`` is stated: an account of its own, in the controller's group."""
BUDGETS_UNIT = "wattqueue-budgets.service"
"""The unit of ``wattqueue budget keep``, where a budget names a QOS: it runs as root, an Administrator of Slurm."""
_PLAIN = re.compile(r"[\w./\-+]+")
"""Paths that need no quoting in a unit file."""
_HIDDEN = {
    Path("/home"): "ProtectHome=yes",
    Path("/root"): "ProtectHome=yes",
    Path("/run/user"): "ProtectHome=yes",
    Path("/tmp"): "PrivateTmp=yes",  # noqa: S108 - a folder that is looked for
    Path("/var/tmp"): "PrivateTmp=yes",  # noqa: S108
}
"""Folders that the unit does not see, and the line of it that hides them."""
_ASK_S = 60.0
"""How long the program may take to state its version."""


def executable() -> Path:
    """Return the absolute path of the ``wattqueue`` that belongs to the running interpreter.

    The folder of the interpreter is not resolved: in a virtual environment ``bin/python`` is a link to the system's.
    Raises: InputError where there is none, as in a source tree that was not installed.
    """
    path = Path(sys.executable).parent / "wattqueue"
    if not path.is_file():
        raise InputError(f"there is no {path}", hint="install the package (pip install 'wattqueue[live]') and use that")
    return path


def require_usable(config: LiveConfig, file: Path) -> None:
    """Raise InputError where the unit could not see what it needs, or its account could not run the program.

    The interpreter is looked for where the links of a virtual environment lead to.
    """
    program, package = executable(), Path(__file__).parents[1]
    elsewhere = "install it elsewhere, for example into /opt/wattqueue"
    for path in (program, Path(sys.executable), package):
        _require_seen(path, elsewhere)
    _require_seen(file.absolute(), "put the configuration elsewhere, for example into /etc/wattqueue")
    for path in _paths_of(config):
        _require_seen(path, "name a path elsewhere in the configuration")
    _require_runs(program, config.user)


def _require_seen(path: Path, hint: str) -> None:
    """Raise InputError for a path that the unit does not see, itself or where its links lead to."""
    for shown in (path, path.resolve()):
        for folder, line in _HIDDEN.items():
            if shown.is_relative_to(folder):
                raise InputError(f"the unit cannot see {shown} ({line})", where=path, hint=hint)


def _paths_of(section: BaseModel) -> Iterator[Path]:
    """Yield the absolute paths that a configuration names, sections included."""
    for _, value in section:
        if isinstance(value, BaseModel):
            yield from _paths_of(value)
        found = value.values() if isinstance(value, dict) else (value,)
        yield from (Path(one) for one in found if isinstance(one, str | Path) and str(one).startswith("/"))


def _require_runs(program: Path, user: str) -> None:
    """Raise InputError where an account cannot run the program; root alone can try it."""
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        return  # the account is to be made later
    if os.geteuid() not in (0, account.pw_uid):
        return
    if said := run_as(user, [program, "--version"], {}, _ASK_S):
        hint = "install it, and its Python, where every account may read, for example into /opt/wattqueue"
        raise InputError(f"the account {user} cannot run it: {said[:160]}", where=program, hint=hint)


def run_as(user: str, command: Sequence[str | Path], variables: Mapping[str, str], timeout_s: float) -> str:
    """Run a command as an account, which must be one's own unless one is root; return why it failed, else nothing."""
    account = pwd.getpwnam(user)
    groups = os.getgrouplist(user, account.pw_gid)
    as_user: dict[str, Any] = {} if os.geteuid() else {"user": user, "group": account.pw_gid, "extra_groups": groups}
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **variables}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd="/", env=environment,
            stdin=subprocess.DEVNULL, timeout=timeout_s, **as_user,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it failed"])[-1]


def render(name: str, config: LiveConfig, file: Path, program: Path) -> str:
    """Return one unit with the program, the account and the configuration file of this installation.

    Raises: OutputError for a path with blanks or other characters that a unit file would take apart.
    """
    text = (files("wattqueue.live") / "share" / name).read_text()
    written = _written(name, config)
    for path in (program, file, *written):
        if not _PLAIN.fullmatch(str(path)):
            raise OutputError(f"{str(path)!r} cannot stand in a unit file", hint="letters, digits, _ . / - +")
    own_file = {GUARD_UNIT: GUARD_FILE, LIMITS_UNIT: LIMITS_FILE}.get(name, "")
    if own_file:
        python, beside = program.parent / "python3", file.parent / own_file
        text = text.replace("/usr/bin/env python3", str(python)).replace(f"/etc/wattqueue/{own_file}", str(beside))
    text = text.replace("/usr/bin/env wattqueue", str(program)).replace("/etc/wattqueue/live.toml", str(file))
    own = re.search(r"^ReadWritePaths=(.*)$", text, re.MULTILINE)
    if own is not None:  # the others may be missing when the service starts
        more = [f" -{path}" for path in written if not path.is_relative_to(own[1])]
        text = text.replace(own[0], own[0] + "".join(more))
    account = config.user
    if config.guard is not None:
        planner = config.guard.planner
        account = {UNITS[0]: planner, LIMITS_UNIT: config.guard.limits_user, PAGE_UNIT: planner}.get(name, account)
    if account and name == PAGE_UNIT:
        text = re.sub(r"^SupplementaryGroups=.*$", f"SupplementaryGroups={account}", text, flags=re.MULTILINE)
    elif account:
        text = re.sub(r"^(User|Group)=.*$", rf"\1={account}", text, flags=re.MULTILINE)
    return text


def flux_energy_line(folder: Path) -> str:
    """Return what Flux's job shell runs at the end of a job: it prints the job's energy from a folder of records.

    Raises: OutputError for a path with blanks or other characters that would need quoting.
    """
    if not _PLAIN.fullmatch(str(folder)):
        raise OutputError(f"{str(folder)!r} cannot stand in a script", hint="letters, digits, _ . / - +")
    return (files("wattqueue.live") / "share" / "flux-energy.lua").read_text().replace("@FOLDER@", str(folder))


def _written(name: str, config: LiveConfig) -> list[Path]:
    """Return the absolute paths outside of which the service of a unit writes nothing, folders for files.

    Slurm's files (frequencies, the pool) are written by who has the rights; a release takes the lease of that process.
    """
    slurm = [config.frequency_dir, config.slurm.pool_file and config.slurm.pool_file.parent]
    own = [config.run_dir, config.record and config.record.parent]
    own += [] if config.energy is None else [config.energy.folder]
    own += [] if "://" in config.state else [Path(config.state).parent]
    if config.applications is not None and "://" not in str(config.applications.database):
        own.append(Path(config.applications.database).parent)
    if name == GUARD_UNIT and config.guard is not None:
        paths = [config.guard.run_dir, config.guard.socket.parent, *slurm]
    elif name == LIMITS_UNIT and config.guard is not None:
        paths = [config.guard.limits_socket and config.guard.limits_socket.parent]
    elif name == UNITS[0] and config.guard is not None:
        paths = own
    else:
        paths = [config.beat_dir, *own, *slurm]
    return sorted({path for path in paths if path is not None and path.is_absolute()})


def guard_text(
    config: LiveConfig,
    guard: GuardSection,
    node_w: Mapping[str, int],
    free: Sequence[str],
    without_jobs_w: float,
    cap_w: float,
) -> str:
    """Return a configuration for the guard of a controller, for an administrator to read before it is used.

    ``node_w``: most net watts of a node by partition. ``free``: partitions whose jobs carry no watts.
    ``without_jobs_w``: what counts of the cap without any job. ``cap_w``: the cap where it is a figure, NaN for a file.
    """
    cap = config.cap if math.isnan(cap_w) else "none" if math.isinf(cap_w) else f"{cap_w:.0f}W"
    slurm = {
        "conf": config.slurm.conf,
        "bin_dir": config.slurm.bin_dir or None,
        "pool_file": config.slurm.pool_file,
        "frequency_dir": config.frequency_dir,
    }
    consent = None if config.consent is None else config.consent.defaults()
    return dumps(
        {
            "socket": str(guard.socket),
            "run_dir": str(guard.run_dir),
            "planner": guard.planner,
            "cap": cap,
            "without_jobs_w": math.ceil(without_jobs_w),
            "away_s": config.away_s,
            **({} if guard.limits_socket is None else {"limits_socket": str(guard.limits_socket)}),
            "free": sorted(free),
            "node_w": dict(sorted(node_w.items())),
            "slurm": {name: str(value) for name, value in slurm.items() if value is not None},
            **({} if consent is None else {"consent": asdict(consent)}),
        }
    )


def limits_text(
    config: LiveConfig,
    guard: GuardSection,
    broker: BrokerSection,
    node_w: Mapping[str, float],
    without_nodes_w: float,
    cap_w: float,
    *,
    keeps_cap: bool,
) -> str:
    """Return a configuration for what publishes limits, for an administrator to read before it is used.

    ``node_w``: the most that a node draws, by lists of nodes; ``without_nodes_w``: what counts of the cap beside them.
    ``cap_w`` as in ``guard_text``. ``keeps_cap``: whether the row keeps the cap by limits.
    """
    cap = config.cap if math.isnan(cap_w) else "none" if math.isinf(cap_w) else f"{cap_w:.0f}W"
    where = {"host": broker.host, "port": broker.port, "cluster": broker.cluster, "password_file": "limits.password"}
    return dumps(
        {
            "socket": str(guard.limits_socket),
            "planner": guard.planner,
            "guard": config.user,
            "cap": cap,
            "keeps_cap": keeps_cap,
            "without_nodes_w": without_nodes_w,
            "other_w": config.telemetry.other_w,
            "hold_s": config.limits.hold_s,
            "silence_s": config.limits.silence_s,
            "away_s": config.away_s,
            "node_w": dict(node_w),
            "broker": {**where, **({} if broker.ca_file is None else {"ca_file": str(broker.ca_file)})},
        }
    )


def write_units(folder: Path, config: LiveConfig, file: Path) -> list[str]:
    """Write the units into a folder; returns what was done. Raises OutputError where it cannot be written."""
    require_usable(config, file)
    program, done = executable(), []
    own = [] if config.guard is None else [GUARD_UNIT]
    own += [LIMITS_UNIT] if config.guard is not None and config.guard.limits_socket is not None else []
    own += [PAGE_UNIT] if "page" in config.model_fields_set else []
    if config.budgets is not None and config.budgets.file.exists():
        own += [BUDGETS_UNIT] if any(one.qos for one in read_budgets(config.budgets.file)) else []
    for name in (*UNITS, *own):
        atomic_text(folder / name, render(name, config, file.resolve(), program), mode=0o644)
        done.append(f"wrote {folder / name}")
    return done


def units_in(folder: Path) -> list[Path]:
    """Return the units of this package in a folder, with those of a guard and a page."""
    return [
        path for name in (*UNITS, GUARD_UNIT, LIMITS_UNIT, PAGE_UNIT, BUDGETS_UNIT) if (path := folder / name).exists()
    ]
