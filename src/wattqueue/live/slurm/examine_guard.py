"""Report whether a controller's guard answers, and checks against what it should, for ``wattqueue doctor --live``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError, WattQueueError
from wattqueue.live.config import LiveConfig
from wattqueue.live.doctor import NO, PART, YES, Check
from wattqueue.live.features.agent_controls import load_live_policy
from wattqueue.live.guard.audit_check import check_audit
from wattqueue.live.guard.client import GuardConnection
from wattqueue.live.guard.own_cap import watts_of
from wattqueue.live.guard.required import lacking
from wattqueue.live.guard.settings import GuardSettings, parse_settings, read_settings
from wattqueue.live.guard.wire import Packet
from wattqueue.live.managed import site_of
from wattqueue.live.slurm.commands import SlurmError
from wattqueue.live.slurm.guard import Guard, guard_file_text
from wattqueue.live.units import GUARD_FILE
from wattqueue.model.machine import Machine

AREA = "Live"
ASK_S = 5.0
"""Longest wait for the guard's answer."""
RESTART = "correct it, then systemctl restart wattqueue-guard.service"


def examine_guard(socket: Path) -> tuple[dict[str, Any], list[Check]]:
    """Return what the guard says of itself, empty where it gives no answer, and what that means."""
    connection = GuardConnection(socket, ASK_S)
    try:
        answer = connection.ask(Packet({"do": "status"})).header
    except SlurmError as error:
        return {}, [Check(AREA, "guard", NO, error.what, f"nothing is written to Slurm: {error.hint}")]
    finally:
        connection.close()
    cap_w, silent_s = answer.get("cap_w"), answer.get("silent_s")
    text = f"answers at {socket}, cap {'none' if cap_w is None else f'{cap_w:,.0f} W'}"
    found = [Check(AREA, "guard", YES, text)]
    if problem := answer.get("problem"):
        cost = "the last cap that could be read stays in force; where there was none, the cap is 0 W"
        found.append(Check(AREA, "guard cap", PART, str(problem), cost))
    if silent_s is None:
        cost = "the guard writes nothing by itself: systemctl start wattqueue-live.service"
        found.append(Check(AREA, "planner", PART, "none is connected", cost))
    else:
        found.append(Check(AREA, "planner", YES, f"its last sign of life is {silent_s:.0f} s old"))
    return answer, found


def examine_audit(run_dir: Path) -> Check:
    """Check that the lines of the guard's audit files follow from each other; they are the guard's account's."""
    name = "guard audit"
    try:
        found = check_audit(run_dir)
    except OSError as error:
        cost = "whether it was changed is not known: root and the guard's account may read it"
        return Check(AREA, name, PART, f"cannot be read: {error.strerror}", cost)
    if found.problem:
        cost = "a line was changed or removed, or a power failure cut one short: see what stands around it"
        return Check(AREA, name, NO, found.problem, cost)
    return Check(AREA, name, YES, f"{found.lines:,} lines follow from each other")


def examine_accepted(config: LiveConfig, machine: Machine, answer: Mapping[str, Any]) -> Iterator[Check]:
    """Check whether the guard accepts what the configured row writes. ``answer``: What the guard says of itself."""
    name = "guard accepts"
    try:
        policy, _ = load_live_policy(config.policy, site=site_of(config, machine))
        found = list(lacking(config, policy, machine, answer))
    except WattQueueError as error:
        yield Check(AREA, name, PART, str(error), "not known: the row cannot be read")
        return
    for lack in found:
        yield Check(AREA, name, NO, lack.what, f"the controller does not start: {lack.remedy}")
    if not found:
        yield Check(AREA, name, YES, f"what policy {policy.name} writes")


def guard_warnings(guard: Guard, config: LiveConfig, file: Path) -> list[str]:
    """Return what the controller's guard would refuse of its row, by the guard's file, or by that which is written."""
    if config.guard is None or config.mode != "control":
        return []
    path = file.absolute().parent / GUARD_FILE
    text = path.read_bytes() if path.exists() else guard_file_text(guard, config, config.guard).encode()
    policy, _ = load_live_policy(config.policy, site=site_of(config, guard.layout.machine))
    try:
        told = parse_settings(text, path).told()
    except InputError as error:
        return [f"warning: {error}"]
    return [f"warning: {lack.what}: {lack.remedy}" for lack in lacking(config, policy, guard.layout.machine, told)]


def compare_settings(path: Path, text: str, answer: Mapping[str, Any]) -> Iterator[Check]:
    """Compare the guard's file with what ``live install`` would write, and with what the guard says.

    ``text``: What would be written. ``answer``: What the guard says of itself; empty where it said nothing.
    """
    name = "guard settings"
    try:
        wanted, there = parse_settings(text.encode(), path), read_settings(path)
    except InputError as error:
        hint = error.hint or "wattqueue live install --write makes a new one where there is none"
        yield Check(AREA, name, NO, str(error), f"the guard does not start: {hint}")
        return
    differences = list(_differences(there, wanted))
    for what, allows_more in differences:
        cost = "it lets jobs draw more than the cap leaves" if allows_more else "it refuses what the controller plans"
        yield Check(AREA, name, NO if allows_more else PART, f"{path.name}: {what}", f"{cost}: {RESTART}")
    stated = there.told()
    if answer and stated != {key: answer.get(key) for key in stated}:
        cost = "the guard checks against the file as it was: systemctl restart wattqueue-guard.service"
        yield Check(AREA, name, PART, f"{path.name} was changed since the guard started", cost)
    elif not differences:
        yield Check(AREA, name, YES, f"{path} is as it would be written now")


def _differences(there: GuardSettings, wanted: GuardSettings) -> Iterator[tuple[str, bool]]:
    """Yield what a guard's file says otherwise, and whether that lets jobs draw more."""
    for name, own_w, other_w in _figures(there, wanted):
        if own_w != other_w:
            more = own_w > other_w if name == "cap" else own_w < other_w
            yield f"{name} is {own_w:,.0f} W, this configuration gives {other_w:,.0f} W", more
    if _is_file(there.cap) != _is_file(wanted.cap) or (_is_file(there.cap) and there.cap != wanted.cap):
        yield f"cap is {there.cap}, this configuration gives {wanted.cap}", True
    for partition in sorted(there.free - wanted.free):
        yield f"partition {partition} is free of watts, and has managed nodes", True
    for partition in sorted(wanted.free - there.free):
        yield f"partition {partition} has no managed node, and `free` does not name it", False


def _figures(there: GuardSettings, wanted: GuardSettings) -> Iterator[tuple[str, float, float]]:
    if not (_is_file(there.cap) or _is_file(wanted.cap)):
        yield "cap", _cap_w(there.cap), _cap_w(wanted.cap)
    yield "without_jobs_w", there.without_jobs_w, wanted.without_jobs_w
    for partition in sorted((there.node_w.keys() | wanted.node_w.keys()) - (there.free ^ wanted.free)):
        # a partition that is not named counts as the dearest
        yield f"node_w.{partition}", there.most_w(partition, 1), wanted.most_w(partition, 1)


def _is_file(cap: str) -> bool:
    return cap.startswith("/")


def _cap_w(text: str) -> float:
    return math.inf if text == "none" else watts_of(text, "cap")
