"""Install job_submit.lua and the TaskProlog into Slurm's configuration folder, and check what is installed there.

job_submit.lua is what makes the cap hold without the controller: it gives every job its watts, limits its nodes,
and refuses changes by users. It is generated from a template (``share/job_submit.lua``) with a block of settings,
because slurmctld calls it for each submission under its locks: it reads the heartbeat and the first line of its data
file (``live.slurm.submit_data``), and never waits or starts a command.

The settings are a copy of the configuration at the time of the installation: what must hold where the data file is
missing. If the configuration changes afterwards, script and controller disagree, and some disagreements are dangerous:

=====================  ==============================================================================================
setting                what happens where it differs from the controller's configuration
=====================  ==============================================================================================
``OPERATORS``          the script refuses the controller's own updates: no job is ever released
``BEAT``               the script never sees the heartbeat: jobs are not held, the policy decides nothing
``DATA``               the script never sees other nodes: what it counts is not what jobs can draw
``DEAREST``            jobs declare less than they can draw while the data file is missing: the cap does not hold
``VERSION``            the template is that of another release of WattQueue
``WHOLE_POOL_W``       jobs are refused that would fit, or accepted that never start
``AWAY_S``             jobs are held when the release timer already lets Slurm schedule alone
=====================  ==============================================================================================

:func:`differences` compares the installed script with the configuration. ``live install`` prints the result, and
the controller refuses to start in control mode on the first four.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from wattqueue.errors import OutputError
from wattqueue.formats.atomic_write import atomic_text
from wattqueue.live.driver import Finding
from wattqueue.live.files.supply_limits import GATE, counters
from wattqueue.live.goal import counted_text
from wattqueue.live.slurm.submit_data import SubmitData, body_of, write_data
from wattqueue.live.slurm.submit_text import SUBMIT_DATA, read_data
from wattqueue.model.plain_numbers import is_whole

LUA = "job_submit.lua"
SITE_LUA = "job_submit.site.lua"
PROLOG, EPILOG = "wattqueue_task_prolog.sh", "wattqueue_task_epilog.sh"
MARK = "WattQueue: every job carries watts"
"""First words of our script: a file without them is a site's own and is never overwritten."""
SETTINGS = re.compile(r"-- \[\[wattqueue settings\n.*?-- wattqueue settings\]\]", re.DOTALL)


class Settings(NamedTuple):
    """What is installed: the script's settings, and the first content of its data file."""

    data: SubmitData
    operators: Sequence[int]
    """Accounts (uid) that may change watts, size and holds of jobs, the controller's first; root always may."""
    beat: Path | None
    """Where the controller writes its heartbeat."""
    away_s: int
    whole_pool_w: int
    domains: Mapping[str, int] = {}
    """Licences of power domains, with what each counts."""
    hres: bool = False
    """Whether Slurm counts power domains by itself, as a hierarchical resource."""

    @property
    def data_file(self) -> Path | None:
        """The data file, beside the heartbeat."""
        return None if self.beat is None else self.beat.with_name(SUBMIT_DATA)


def script(settings: Settings, site: Path | None = None) -> str:
    """Return job_submit.lua with these settings; ``site`` is a script of the site that is called first.

    Raises: OutputError for paths that a script must not hold (they would be code).
    """
    operators = ", ".join(f"[{uid}] = true" for uid in settings.operators)
    domains = ", ".join(f'["{name}"] = true' for name in counters(settings.domains, hres=settings.hres))
    lines = [
        "-- [[wattqueue settings",
        f'local VERSION = "{version()}"',
        f"local DATA = {quoted(settings.data_file)}",
        f"local DEAREST = {settings.data.dearest_w}",
        f"local OPERATORS = {{ {operators} }}",
        f"local BEAT = {quoted(settings.beat)}",
        f"local AWAY_S = {settings.away_s}",
        f"local SITE = {quoted(site)}",
        f"local WHOLE_POOL_W = {settings.whole_pool_w}",
        f"local DOMAINS = {{ {domains} }}",
        "-- wattqueue settings]]",
    ]
    return SETTINGS.sub(lambda _: "\n".join(lines), shared(LUA))


def version() -> str:
    """Return the version mark of this release's template: a hash, so that it changes exactly when the script does."""
    return hashlib.sha256(shared(LUA).encode()).hexdigest()[:12]


def differences(installed: str, settings: Settings) -> list[Finding]:
    """Compare the text of an installed script with what this configuration would install.

    The order is that of importance. A script that is not ours is one fatal difference.
    """
    if MARK not in installed:
        return [Finding("job_submit.lua is not WattQueue's: jobs carry no watts", fatal=True)]
    found, wanted = _settings_of(installed), _settings_of(script(settings))
    out = []
    allowed = set(re.findall(r"\[([0-9]+)\]", found.get("OPERATORS", "")))
    missing = [uid for uid in settings.operators if uid != 0 and str(uid) not in allowed]
    if missing:
        text = f"it refuses the controller's own account (uid {missing[0]}): it was installed for another `user`"
        out.append(Finding(text, fatal=True))
    if found.get("BEAT") != wanted["BEAT"]:
        text = f"it looks for the heartbeat in {found.get('BEAT')}, the controller writes {wanted['BEAT']}"
        out.append(Finding(text, fatal=True))
    if "DATA" not in found:
        text = "it is of an earlier version and holds the nodes itself, as they were at its installation: install again"
        return [*out, Finding(text, fatal=True)]
    if found["DATA"] != wanted["DATA"]:
        text = f"it looks for nodes and staff in {found['DATA']}, the controller writes {wanted['DATA']}"
        out.append(Finding(text, fatal=True))
    dearest = found.get("DEAREST", "")
    if not is_whole(dearest) or int(dearest) < settings.data.dearest_w:
        text = f"it declares {dearest} W for a node that can draw {settings.data.dearest_w} W, without its data file"
        out.append(Finding(text, fatal=True))
    if found.get("DOMAINS", "{  }") != wanted["DOMAINS"]:
        text = "it was installed for other power domains: held jobs could start on nodes that nobody chose"
        out.append(Finding(text, fatal=True))
    names = {"VERSION": "its version is that of another release", "WHOLE_POOL_W": "the whole pool", "AWAY_S": "away_s"}
    for key, what in names.items():
        if found.get(key) != wanted[key]:
            text = f"{what}: {found.get(key, 'not stated')} installed, {wanted[key]} configured"
            out.append(Finding(text, fatal=False))
    return out


def _settings_of(text: str) -> dict[str, str]:
    """The one-line settings of a script by name."""
    block = SETTINGS.search(text)
    return dict(re.findall(r"^local (\w+) = (.*)$", block[0], re.MULTILINE)) if block else {}


def prolog(folder: Path) -> str:
    """Return the TaskProlog that reads per-job frequencies from ``folder``. Raises OutputError for an odd path."""
    return _of_folder("task_prolog.sh", folder)


def epilog(folder: Path) -> str:
    """Return the TaskEpilog that prints a job's energy from ``folder``. Raises OutputError for an odd path."""
    return _of_folder("task_epilog.sh", folder)


def task_scripts(frequencies: Path | None, energy: Path | None) -> dict[str, str]:
    """Return what runs before and after tasks, by name: as far as frequencies are set, and energies recorded."""
    found = {} if frequencies is None else {PROLOG: prolog(frequencies)}
    return found if energy is None else found | {EPILOG: epilog(energy)}


def _of_folder(name: str, folder: Path) -> str:
    if not re.fullmatch(r"[\w./\-]+", str(folder)):
        raise OutputError(f"{str(folder)!r} cannot stand in a script", hint="letters, digits, _ . / -")
    return shared(name).replace("@FOLDER@", str(folder))


def shared(name: str) -> str:
    """Return a file that comes with the package."""
    return (files("wattqueue.live.slurm") / "share" / name).read_text()


def quoted(path: Path | None) -> str:
    """Return a path as a Lua string. Raises OutputError for one that would need escapes."""
    text = "" if path is None else str(path)
    if not re.fullmatch(r"[\w./\- ]*", text):
        raise OutputError(f"{text!r} cannot stand in a script", hint="letters, digits, blanks, _ . / -")
    return f'"{text}"'


def install(folder: Path, settings: Settings, frequencies: Path | None, energy: Path | None = None) -> list[str]:
    """Write both files into Slurm's configuration folder, and the script's data file; returns what was done.

    A job_submit.lua of the site is moved to job_submit.site.lua (never over one that is there) and called before
    ours. slurmctld reads the script again when its modification time changes, so nothing has to be restarted. An
    account that may not write the run folder leaves the data file to the controller.

    Raises: OutputError where Slurm's folder cannot be written.
    """
    done: list[str] = []
    ours, site = folder / LUA, folder / SITE_LUA
    try:
        if ours.exists() and MARK not in ours.read_text(errors="replace"):
            if site.exists():
                raise OutputError(f"{ours.name} and {site.name} are both a site's own", where=folder, hint="join them")
            ours.rename(site)
            done.append(f"kept the site's own script as {site}")
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror}", where=folder, hint="run it as SlurmUser") from error
    if settings.data_file is not None:
        done.append(_write_first(settings.data_file, settings))
    # slurmctld may read the script at any moment, and half a script would end its plugin.
    atomic_text(ours, script(settings, site if site.exists() else None), mode=0o644)
    done.append(f"wrote {ours}")
    for name, text in task_scripts(frequencies, energy).items():
        atomic_text(folder / name, text, mode=0o755)
        done.append(f"wrote {folder / name}")
    return done


def _write_first(path: Path, settings: Settings) -> str:
    """Write the data file, in a folder of the controller's account; return what was done."""
    try:
        _make_folder(path.parent, settings.operators[0] if settings.operators else 0)
        write_data(path, settings.data, time.time())
    except (OSError, OutputError) as error:
        return f"left {path} to the controller, every partition counts at the dearest node until then: {error}"
    return f"wrote {path}"


def _make_folder(folder: Path, uid: int) -> None:
    """Make a folder that belongs to an account, with those above it that are missing."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir()
        one.chmod(0o711)  # slurmctld's account opens files by their names, nobody lists them
        if os.geteuid() == 0:
            os.chown(one, uid, -1)


def changes(folder: Path, settings: Settings, frequencies: Path | None, energy: Path | None = None) -> list[str]:
    """Return the difference that ``install`` would make to the files in a folder, as a unified diff.

    Empty where nothing would change. A script of the site is shown as renamed.
    """
    ours, site = folder / LUA, folder / SITE_LUA
    before = _text_of(ours)
    lines = []
    if before and MARK not in before:
        lines.append(f"rename {ours} to {site}")
        before, site_there = "", True
    else:
        site_there = site.exists()
    wanted = {ours: (before, script(settings, site if site_there else None))}
    if settings.data_file is not None:
        there = read_data(settings.data_file)
        wanted[settings.data_file] = ("" if isinstance(there, str) else there.body, body_of(settings.data))
    for name, text in task_scripts(frequencies, energy).items():
        wanted[folder / name] = (_text_of(folder / name), text)
    for path, (old, new) in wanted.items():
        source = str(path) if old else "/dev/null"
        lines += difflib.unified_diff(old.splitlines(), new.splitlines(), source, str(path), lineterm="")
    return lines


def uninstall(folder: Path, data_file: Path | None = None) -> list[str]:
    """Remove our files from Slurm's configuration folder and put the site's own script back; return what was done.

    A job_submit.lua that is not ours stays. Its data file goes after it. Raises: OutputError where a folder cannot be
    written.
    """
    done = []
    ours, site = folder / LUA, folder / SITE_LUA
    try:
        if ours.exists() and MARK in _text_of(ours):
            if site.exists():
                site.replace(ours)
                done.append(f"put the site's own script back as {ours}")
            else:
                ours.unlink()
                done.append(f"removed {ours}")
        for path in (folder / PROLOG, folder / EPILOG):
            if path.exists():
                path.unlink()
                done.append(f"removed {path}")
        if data_file is not None and data_file.exists():
            data_file.unlink()
            done.append(f"removed {data_file}")
    except OSError as error:
        where = error.filename or folder
        raise OutputError(f"cannot be written: {error.strerror}", where=where, hint="run it as SlurmUser") from error
    return done


def _text_of(path: Path) -> str:
    """Return the text of a file; empty where there is none."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def slurm_conf_lines(
    folder: Path, settings: Settings, frequencies: Path | None, energy: Path | None = None
) -> list[str]:
    """Return the lines that slurm.conf needs for all this."""
    counts = [("watts", settings.whole_pool_w), *settings.domains.items()]
    lines = [
        "JobSubmitPlugins=lua",
        f"Licenses={counted_text(counts + [(GATE, 1)] * bool(settings.domains or settings.hres))}",
    ]
    lines.append("SchedulerParameters=bf_licenses,bf_one_resv_per_job   # added to what stands there")
    if frequencies is not None:
        lines.append(f"TaskProlog={folder / PROLOG}")
    if energy is not None:
        lines.append(f"TaskEpilog={folder / EPILOG}")
    return lines
