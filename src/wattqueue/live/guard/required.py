"""What a guard has to accept for the row of a controller: asked when the controller starts, and by ``doctor``.

A guard that accepts less than a row needs would refuse its writes in every round. What a row needs shows in its parts
and in the configuration. Of a control of the site's own it cannot be known whether it stops jobs whose users do not
consent: the guard refuses those alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from wattqueue.errors import InputError
from wattqueue.live.config import LiveConfig
from wattqueue.live.guard.client import connection_to
from wattqueue.live.guard.wire import Packet
from wattqueue.live.watts.bound import AcceptedOvershoot
from wattqueue.live.watts.lowering import conditions_of, parse_overshoot
from wattqueue.model.machine import Machine
from wattqueue.policy.interfaces import stated
from wattqueue.policy.registry import Policy, part_name

RESTART = "systemctl restart wattqueue-guard.service"


class Lack(NamedTuple):
    """Something that a guard would refuse in every round, and what a person does about it."""

    what: str
    remedy: str


def require_accepted(config: LiveConfig, policy: Policy, machine: Machine) -> float:
    """Ask the guard of a controller, where it has one, whether it accepts what the policy writes.

    Returns what it counts of the cap without any job; 0 without a guard.

    Raises: InputError naming the first thing that it would refuse, SlurmError where it gives no answer.
    """
    if config.guard is None or config.mode != "control":
        return 0.0
    told = connection_to(config.guard.socket).ask(Packet({"do": "status"})).header
    for lack in lacking(config, policy, machine, told):
        raise InputError(lack.what, where="guard.toml", hint=lack.remedy)
    return float(told.get("without_jobs_w", 0.0))


def lacking(config: LiveConfig, policy: Policy, machine: Machine, told: Mapping[str, Any]) -> Iterator[Lack]:
    """Yield what a guard would refuse of a policy under a configuration. ``told``: What it says of itself."""
    accepted, resorts = told.get("accepted", ()), told.get("last_resort", ())
    if not stated(policy.estimator, "machine_figures", False) and "estimates" not in accepted:
        name = part_name(type(policy.estimator))
        yield _not_accepted("estimates", f"estimator {name} starts jobs below the maximum of their nodes")
    if chooses_frequencies(policy, machine) and "frequencies" not in accepted:
        name = part_name(type(policy.frequency))
        yield _not_accepted("frequencies", f"frequency {name} starts jobs below the maximum of their nodes")
    sets = config.frequency_dir is not None and not all(map(math.isnan, machine.option_frequency_hz.tolist()))
    if sets and "frequency" not in resorts:
        yield Lack(
            "frequency_dir sets the frequency of each job, and the guard sets none without the user's consent",
            f'state last_resort = ["frequency"] in guard.toml and {RESTART}, or leave frequency_dir out, which only a '
            "row that chooses frequencies needs",
        )
    if sets and str(config.frequency_dir) != told.get("frequency_dir"):
        yield Lack(
            f"frequency_dir is {config.frequency_dir}, and the guard writes frequencies into another folder, or none",
            f'state frequency_dir = "{config.frequency_dir}" in [slurm] of guard.toml, and {RESTART}',
        )
    if config.telemetry.track_running and config.telemetry.any_node_source and "limits" not in accepted:
        yield from _of_lowering(config, policy, AcceptedOvershoot(*told.get("overshoot", ())))
    if config.consent is not None and policy.controls:
        own = asdict(config.consent.defaults())
        allows = own["others"] or any((*own["users"].values(), *own["accounts"].values()))
        if allows and own != told.get("consent"):
            yield Lack(
                "jobs without a tag consent by [consent] of live.toml, and not by that of the guard",
                f"state the same [consent] in guard.toml, and {RESTART}",
            )


def chooses_frequencies(policy: Policy, machine: Machine) -> bool:
    """Return whether a policy may start jobs at another frequency than the highest."""
    several = len(machine.option_partition) > len(machine.partitions)
    return several and not stated(policy.frequency, "highest_only", False)


def _not_accepted(word: str, what: str) -> Lack:
    return Lack(
        f"{what}, which the guard does not accept",
        f'state accepted = ["{word}"] in guard.toml and {RESTART}, or use a row that starts jobs at that maximum',
    )


def _of_lowering(config: LiveConfig, policy: Policy, overshoot: AcceptedOvershoot) -> Iterator[Lack]:
    """Yield what a guard that accepts no lower licences, but an overshoot, refuses of licences that are lowered."""
    own = parse_overshoot(config.telemetry.accepted_overshoot)
    met = conditions_of(policy, own, agents=config.telemetry.broker is not None)
    if met.limits or met.promise:
        what = "track_running lowers licences of running jobs, which the guard does not accept"
        yield Lack(what, f'state accepted = ["limits"] in guard.toml and {RESTART}, or leave track_running out')
    elif overshoot.watts < own.watts or overshoot.share < own.share:
        what = f"accepted_overshoot is {own}, and the guard accepts {overshoot}"
        yield Lack(what, f'state overshoot = "{config.telemetry.accepted_overshoot}" in guard.toml, and {RESTART}')
