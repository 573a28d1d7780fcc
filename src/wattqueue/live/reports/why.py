"""Say of each waiting job why it waits and when it may start at the earliest (``wattqueue live why JOB``).

Of a parked job it says why and since when, and of every job whether its user consents, where the site asks for it.

The controller writes ``why.json`` into its run folder (``why_file``), readable by every account, so that users can ask
about their own jobs. It holds no more than squeue shows to everybody: job ids, nodes, watts and times, no names, users
or applications. A record is a list, its first item a code; :func:`sentence` makes a text of it.

*At the earliest*: when so many nodes and watts are free, if every running job ends as it is planned (at its limit, or
when its run time is predicted to be over) and nobody else starts. A policy may start another job on them, so the time
is a bound and not a promise. It is computed when somebody
asks: the file holds what a job needs, and when running jobs end, so that a round does not compute it for every job.
"""

from __future__ import annotations

import json
import math
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.live.files.reading import as_written
from wattqueue.live.reports.waits import Waits, waits_of

WHY = "why.json"
Record = list[Any]
HINT = "is the controller running, with this configuration?"


def read_why(folder: Path, job: str) -> list[tuple[str, Record]]:
    """Return the records of a job, or of the waiting tasks of an array; empty for one that does not wait.

    Raises: InputError where the controller has written no records.
    """
    values = _values(folder)
    with written(folder):
        turns = _turns(values, job) if "turns" in values else {}
        return list((turns | _of_job(values.get("jobs", {}), job)).items())


def read_mode(folder: Path) -> str:
    """Return the mode of the controller that wrote the records. Raises: InputError as ``read_why``."""
    return str(_values(folder).get("mode", "control"))


def waits_in(folder: Path) -> Waits | None:
    """Return the jobs that wait for their turn; None where the file is missing or damaged, or of another version."""
    try:
        values = json.loads((folder / WHY).read_text())
        return waits_of(values) if "turns" in values else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def written(folder: Path) -> AbstractContextManager[None]:
    """Raise InputError where the block finds that the records in a folder are not what a controller writes."""
    return as_written(folder / WHY, "file of explanations of the controller", HINT)


def read_consent(folder: Path, job: str) -> list[tuple[str, Record]]:
    """Return the consent of a job, or of the tasks of an array; empty where the site does not ask for it.

    Raises: InputError where the controller has written no records.
    """
    values = _values(folder)
    with written(folder):
        return list(_of_job(values.get("consent", {}), job).items())


def _values(folder: Path) -> dict[str, Any]:
    """Return what the controller wrote. Raises: InputError where it has written nothing."""
    try:
        values: dict[str, Any] = json.loads((folder / WHY).read_text())
    except (OSError, ValueError) as error:
        raise InputError("no explanations of the controller", where=folder / WHY, hint=HINT) from error
    return values


def _of_job(records: dict[str, Record], job: str) -> dict[str, Record]:
    """Return the records of a job, and of the waiting tasks of an array."""
    return {name: record for name, record in records.items() if names_job(job, name)}


def names_job(job: str, name: str) -> bool:
    """Whether a name is that of a job, of a task of an array, or of a component."""
    return name == job or name.startswith((f"{job}_", f"{job}+"))


def _turns(values: dict[str, Any], job: str) -> dict[str, Record]:
    """Return the records of a job in the policy's order: place, needs, what is free, and the earliest start."""
    waits, domains = waits_of(values), values.get("domains") or {}
    found = {}
    for k, name in enumerate(waits.names):
        if names_job(job, name):
            held = domain_record(waits, k, domains) if domains else None
            found[name] = held or turn_record(waits, k)
    return found


def turn_record(waits: Waits, k: int) -> Record:
    """Return the record of the k-th job that waits for its turn."""
    at_s = float(waits.at_s[k])
    nodes, watts, free = int(waits.nodes[k]), int(waits.watts[k]), waits.free[int(waits.partition[k])]
    when = round(at_s) if math.isfinite(at_s) else None
    return ["turn", k + 1, len(waits.names), nodes, free, watts, waits.free_w, when]


def domain_record(waits: Waits, k: int, domains: dict[str, Any]) -> Record | None:
    """Return the record of the k-th job that waits if a power domain alone holds it back now; else None.

    ``domains`` as ``LiveDomains.explained`` gives them, those below others first. Named is the highest without whose
    limit the job would fit; where there is none, the one that forbids most units.
    """
    nodes, watts, p = int(waits.nodes[k]), int(waits.watts[k]), int(waits.partition[k])
    if waits.free[p] < nodes or (waits.free_w is not None and waits.free_w < watts):
        return None
    each, names = watts / max(nodes, 1), list(domains)
    fit, forbidden = _fit(domains, str(p), each, -1)
    if fit >= nodes or max(forbidden) <= 0:
        return None
    alone = [at for at in reversed(range(len(names))) if forbidden[at] and _fit(domains, str(p), each, at)[0] >= nodes]
    at = alone[0] if alone else int(np.argmax(forbidden))
    return [
        "domain",
        k + 1,
        len(waits.names),
        nodes,
        watts,
        int(fit),
        names[at],
        round(max(0.0, domains[names[at]][1])),
    ]


def _fit(domains: dict[str, Any], partition: str, each_w: float, without: int) -> tuple[float, list[float]]:
    """Return how many units of so many watts fit, and how many each domain forbids; ``without`` one domain's limit."""
    units, forbidden, total = [0.0] * len(domains), [0.0] * len(domains), 0.0
    for at, (parent, left_w, gain, free) in enumerate(domains.values()):
        units[at] += free.get(partition, 0)
        bound = left_w is not None and each_w > 0.0 and at != without
        fit = min(units[at], max(0.0, left_w) // (each_w * gain)) if bound else units[at]
        forbidden[at] = units[at] - fit
        if parent >= 0:
            units[parent] += fit
        else:
            total += fit
    return total, forbidden


def consent_sentence(name: str, record: Record) -> str:
    """Return the consent of a job as a sentence for its user."""
    allowed, source, slowdown, until_s, price, checkpoint_s = record
    if source == "wrong":
        return f"job {name}: its comment holds a wrong consent tag, so it is neither slowed down nor parked"
    by = "its comment says so" if source == "job" else f"a default of its {source}"
    done = "slowed down or parked" if checkpoint_s is None else "slowed down or requeued"
    text = f"may be {done}" if allowed else "is neither slowed down nor parked"
    limits = [f"run time at most {slowdown:g} times that at full speed"] if slowdown is not None else []
    limits += [f"end by {_at(until_s)}"] if until_s is not None else []
    limits += [f"{price:g} for an added hour"] if price is not None else []
    limits += [f"a checkpoint every {checkpoint_s:g} s"] if checkpoint_s is not None else []
    return f"job {name}: {text} during a load target ({'; '.join([by, *limits])})"


def sentence(name: str, record: Record) -> str:
    """Return a record as a sentence for the job's user."""
    match record:
        case ["turn", place, count, nodes, free, needs_w, free_w, when]:
            text = (
                f"place {place:,} of {count:,} in the order of the policy; it needs {nodes:,} nodes and {needs_w:,} W"
            )
            if free < nodes:
                text += f", {max(free, 0):,} nodes are free"
            elif free_w is not None and free_w < needs_w:
                text += f", {max(free_w, 0):,} W of the power budget are free"
            else:
                text += ", which are free: jobs before it, or a reservation for one of them, come first"
            start = "with no limits of running jobs that would free them" if when is None else f"not before {_at(when)}"
            return f"job {name}: {text}; {start}"
        case ["refused" | "impossible" as kind, times, reason, until_s]:
            text = f"did not start {times} times ({reason})"
            if kind == "impossible":
                text = impossible_text(times, reason)
            return f"job {name}: {text}; tried again at {_at(until_s)}"
        case ["later", start_s]:
            return f"job {name}: its user asked for a start at {_at(start_s)}"
        case ["elsewhere" | "shared" as kind, partition, *held]:
            outside = "and does not wait for watts: its nodes count their maximum whatever runs there"
            if kind == "elsewhere":
                outside = (
                    f"under the power budget, of which it takes {held[0]:,} W" if held else "without a power budget"
                )
            return f"job {name}: partition {partition} is scheduled by Slurm alone, {outside}"
        case ["parked", since_s, watts, why]:
            text = f"parked since {_at(since_s)} with the consent of its user: {why}"
            return f"job {name}: {text}; it continues as soon as the limit has its {watts:,} W"
        case ["starting", reason]:
            return f"job {name}: released, and about to start (Slurm says {reason})"
        case ["slurm", reason]:
            return f"job {name}: scheduled by Slurm alone, under the power budget (Slurm says {reason})"
    text = PLAIN.get(str(record[0]), "the policy has not decided about it yet")
    return f"job {name}: {text.format(*record[1:])}"


PLAIN = {
    "site": "kept from starting now by the site's own rules: {}",
    "never": "{}; it is set aside, and looked at again when the highest limit to come rises",
    "failed": "its launch failed on a node, and an administrator has to release it",
    "user": "its user holds it: scontrol release lets it take its turn",
    "budget": "kept from starting now: {}",
    "depends": "it depends on another job",
    "domain": "place {:,} of {:,} in the order of the policy; it needs {:,} nodes and {:,} W, {:,} nodes fit: "
    "power domain {} has {:,} W left for jobs",
    "would": "the policy would start it now",
}
"""Sentences without figures, some with a reason."""
NO_CONTROL = "in {mode} mode Slurm alone starts jobs; this is what the policy would do"
"""Said before the sentences where nothing is held."""


def impossible_text(times: int, reason: str) -> str:
    """Return the message to the owner of a job that no nodes could serve."""
    way_out = "cancel it and submit it with what its partition has"
    return f"impossible: Slurm refused {times} starts ({reason}), no nodes could serve this job: {way_out}"


def _at(time_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_s))
