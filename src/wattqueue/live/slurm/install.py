"""Put job_submit.lua and the TaskProlog where a site wants them; a site's own script stays and is asked first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from wattqueue.errors import OutputError
from wattqueue.live.slurm.commands import WORD

LUA = "job_submit.lua"
SITE_LUA = "job_submit.site.lua"
PROLOG = "wattqueue_task_prolog.sh"
MARK = "WattQueue: every job carries watts"
SETTINGS = re.compile(r"-- \[\[wattqueue settings\n.*?-- wattqueue settings\]\]", re.DOTALL)


class NodeWatts(NamedTuple):
    """What one node of a Slurm partition declares in licences: at most, at least, and its CPUs."""

    watts: int
    least: int
    cpus: int


class Settings(NamedTuple):
    """What the script needs to know: figures by Slurm partition, and where the controller shows that it lives."""

    nodes: Mapping[str, NodeWatts]
    operators: Sequence[int]
    beat: Path | None
    away_s: int
    whole_pool_w: int


def script(settings: Settings, site: Path | None = None) -> str:
    """job_submit.lua with these settings. Raises OutputError for names that a script must not hold."""
    lines = ["-- [[wattqueue settings", "local NODE = {"]
    for name, node in settings.nodes.items():
        if not WORD.fullmatch(name):
            raise OutputError(f"partition {name!r} cannot stand in a script", mend="letters, digits, _ . -")
        lines.append(f'  ["{name}"] = {{ watts = {node.watts}, least = {node.least}, cpus = {node.cpus} }},')
    operators = ", ".join(f"[{uid}] = true" for uid in settings.operators)
    lines += ["}", f"local OPERATORS = {{ {operators} }}", f"local BEAT = {quoted(settings.beat)}"]
    lines += [f"local AWAY_S = {settings.away_s}", f"local SITE = {quoted(site)}"]
    lines += [f"local WHOLE_POOL_W = {settings.whole_pool_w}", "-- wattqueue settings]]"]
    return SETTINGS.sub(lambda _: "\n".join(lines), shared(LUA))


def prolog(folder: Path) -> str:
    """The TaskProlog that reads per-job frequencies from ``folder``. Raises OutputError for an odd path."""
    if not re.fullmatch(r"[\w./\-]+", str(folder)):
        raise OutputError(f"{str(folder)!r} cannot stand in a script", mend="letters, digits, _ . / -")
    return shared("task_prolog.sh").replace("@FOLDER@", str(folder))


def shared(name: str) -> str:
    """A file that comes with the package."""
    return (files("wattqueue.live.slurm") / "share" / name).read_text()


def quoted(path: Path | None) -> str:
    """A path as a Lua string. Raises OutputError for one that would need escapes."""
    text = "" if path is None else str(path)
    if not re.fullmatch(r"[\w./\- ]*", text):
        raise OutputError(f"{text!r} cannot stand in a script", mend="letters, digits, blanks, _ . / -")
    return f'"{text}"'


def install(folder: Path, settings: Settings, frequencies: Path | None) -> list[str]:
    """Write both files into Slurm's configuration folder; returns what was done and what slurm.conf still needs.

    A job_submit.lua of the site is moved to job_submit.site.lua (never over one that is there) and
    called before ours.

    Raises: OutputError where the folder cannot be written.
    """
    done: list[str] = []
    ours, site = folder / LUA, folder / SITE_LUA
    try:
        if ours.exists() and MARK not in ours.read_text():
            if site.exists():
                raise OutputError(f"{ours.name} and {site.name} are both a site's own", where=folder, mend="join them")
            ours.rename(site)
            done.append(f"kept the site's own script as {site}")
        _put(ours, script(settings, site if site.exists() else None), 0o644)
        done.append(f"wrote {ours}")
        if frequencies is not None:
            _put(folder / PROLOG, prolog(frequencies), 0o755)
            done.append(f"wrote {folder / PROLOG}")
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror}", where=folder, mend="run it as SlurmUser") from error
    return done


def slurm_conf_lines(folder: Path, settings: Settings, frequencies: Path | None) -> list[str]:
    """Lines that slurm.conf needs for all this."""
    lines = ["JobSubmitPlugins=lua", f"Licenses=watts:{settings.whole_pool_w}"]
    lines.append("SchedulerParameters=bf_licenses   # added to what stands there")
    if frequencies is not None:
        lines.append(f"TaskProlog={folder / PROLOG}")
    return lines


def _put(path: Path, text: str, mode: int) -> None:
    aside = path.with_name(f".{path.name}.part")
    aside.write_text(text)
    aside.chmod(mode)
    aside.replace(path)
