"""The configuration of what publishes limits of nodes: written by ``live install``, compared by ``doctor --live``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.formats.cap import names_file, parse_cap
from wattqueue.formats.slurm.hostlist import compress
from wattqueue.live.agents import BrokerSection
from wattqueue.live.config import GuardSection, LiveConfig
from wattqueue.live.doctor import NO, PART, YES, Check
from wattqueue.live.features.agent_controls import load_live_policy
from wattqueue.live.guard.client import GuardConnection
from wattqueue.live.guard.wire import Packet
from wattqueue.live.limits_guard.client import ASK_S, UNIT
from wattqueue.live.limits_guard.settings import LimitsSettings, parse_limits_settings, read_limits_settings
from wattqueue.live.managed import site_of
from wattqueue.live.slurm.commands import SlurmError
from wattqueue.live.slurm.guard import Guard, lines_of_file
from wattqueue.live.units import LIMITS_FILE, limits_text
from wattqueue.policy.interfaces import stated

AREA, NAME = "Live", "limits of nodes"
RESTART = f"systemctl restart {UNIT}"


def limits_lines(guard: Guard, config: LiveConfig, file: Path, *, write: bool) -> list[str]:
    """Write the configuration of what publishes limits where there is none, or return its lines.

    ``file``: the controller's configuration, beside which it stands. Nothing where the controller publishes itself.
    """
    if config.guard is None or config.guard.limits_socket is None or config.telemetry.broker is None:
        return []
    text = limits_file_text(guard, config, config.guard, config.telemetry.broker)
    lines = lines_of_file(text, file.parent / LIMITS_FILE, "what publishes limits", write=write)
    return [*lines, f"note: {file.parent / 'limits.password'} holds the password of the broker's user limits"]


def limits_file_text(guard: Guard, config: LiveConfig, section: GuardSection, broker: BrokerSection) -> str:
    """Return what that configuration should say. Raises: InputError or PolicyError for a row that cannot be read."""
    layout, machine = guard.layout, guard.layout.machine
    policy, _ = load_live_policy(config.policy, site=site_of(config, machine))
    cap_w = math.nan if names_file(config.cap) else float(parse_cap(config.cap, machine).cap_w.max())
    by_watts: dict[float, list[str]] = {}
    for name in layout.names:
        most_w = machine.partitions[layout.row_of(layout.unit[name])].max_w
        by_watts.setdefault(0.0 if most_w is None else float(most_w), []).append(name)
    idle_w = float(layout.idle_uw.sum()) / 1e6 if machine.cap_scope == "dynamic" else 0.0
    return limits_text(
        config, section, broker, {compress(names): watts for watts, names in sorted(by_watts.items())},
        guard.shared_most_w - idle_w, cap_w,
        keeps_cap=any(stated(control, "holds_budget", False) for control in policy.controls),
    )  # fmt: skip


def examine_limits(config: LiveConfig, guard: Guard, file: Path) -> Iterator[Check]:
    """Check whether what publishes limits answers, what nodes it cannot limit, and its settings."""
    section, broker = config.guard, config.telemetry.broker
    if section is None or broker is None:
        return
    if section.limits_socket is None:
        cost = (
            "who takes it over may slow all nodes down: [guard] limits_socket, and a user of the broker that only reads"
        )
        yield Check(AREA, NAME, PART, "the controller itself has the broker's right to set them", cost)
        return
    connection = GuardConnection(section.limits_socket, ASK_S, "what publishes limits", UNIT)
    try:
        told = connection.ask(Packet({"do": "status"})).header
    except SlurmError as error:
        yield Check(AREA, NAME, NO, error.what, f"limits expire after hold_s, and none is set: {error.hint}")
        return
    finally:
        connection.close()
    why = told.get("why") or {}
    text = f"answers at {section.limits_socket}, {len(told.get('node_w', ())) - len(why)} nodes can be limited"
    yield Check(AREA, NAME, YES, text)
    if problem := told.get("problem"):
        yield Check(AREA, NAME, PART, str(problem), "limits cannot be set, or are held to the last cap that was read")
    for node, reason in list(why.items())[:3]:
        yield Check(AREA, NAME, PART, f"{node}: {reason}", f"{len(why)} nodes count at their maximum")
    path = file.absolute().parent / LIMITS_FILE
    try:
        there = read_limits_settings(path)
        wanted = parse_limits_settings(limits_file_text(guard, config, section, broker).encode(), path)
    except InputError as error:
        yield Check(AREA, NAME, NO, str(error), f"it does not start: correct it, then {RESTART}")
        return
    found = list(_differences(there, wanted))
    for what in found:
        yield Check(AREA, NAME, PART, f"{path.name}: {what}", f"limits follow that file: correct it, then {RESTART}")
    stated_now = there.told()
    if stated_now != {key: told.get(key) for key in stated_now}:
        yield Check(AREA, NAME, PART, f"{path.name} was changed since it was read", RESTART)
    elif not found:
        yield Check(AREA, NAME, YES, f"{path} is as it would be written now")


def _differences(there: LimitsSettings, wanted: LimitsSettings) -> Iterator[str]:
    """Yield what the file says otherwise; a site may state lowest limits as it likes."""
    own, other = there.told(), wanted.told()
    for name in sorted(own.keys() - {"node_w", "least_w"}):
        if own[name] != other[name]:
            yield f"{name} is {own[name]}, this configuration gives {other[name]}"
    if there.cap != wanted.cap:
        yield f"cap is {there.cap}, this configuration gives {wanted.cap}"
    for node in sorted(there.node_w.keys() | wanted.node_w.keys()):
        if there.node_w.get(node) != wanted.node_w.get(node):
            yield f"node_w of {node} is {there.node_w.get(node)}, the machine file has {wanted.node_w.get(node)}"
