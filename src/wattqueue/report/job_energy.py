"""The energy of jobs in words: a line for one job, a line for a month, and the month's page.

Jobs are counted in the month in which they ended. Sums keep their parts apart: what was measured, attributed, modelled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from wattqueue.errors import InputError
from wattqueue.live.files.energy_records import EnergyRecord
from wattqueue.report import words
from wattqueue.report.document import Document, Prose, Table

AMOUNTS = ("cost", "carbon")
MOST = 100
"""Jobs that the page lists, those with most energy."""
READ = (
    (
        "Measured: by meters of nodes that the job had alone. Attributed: the job's share of what meters of shared "
        "nodes counted, by its CPUs among those of all jobs there. Modelled: from the predicted watts, or from idle "
        "and maximum watts of the nodes. The interval is what the energy can be at least and at most: what no meter "
        "covered lies between idle and maximum watts, and of a shared node a job may have caused all that is above "
        "idle, or nothing."
    ),
    (
        "Cost is at the site's price of each hour, carbon at each hour's intensity; both are left out where the "
        "site's series does not cover a job. An avoidable wait is the time for which watts alone kept a job from "
        "starting, to the minute."
    ),
    "A lower clock: what the site's model of the application expects; a job without such a model has none.",
)
"""How to read the figures."""


def month_of(text: str, zone: str) -> tuple[float, float]:
    """Return begin and end of a month (``2026-11``) in a time zone, seconds since the epoch; clock changes included.

    Raises: InputError for another text.
    """
    try:
        begin = datetime.strptime(text, "%Y-%m").replace(tzinfo=ZoneInfo(zone))
        end = begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
        return begin.timestamp(), end.timestamp()
    except (ValueError, OverflowError) as error:
        raise InputError(f"{text!r} is no month", where="--month", hint="for example 2026-11") from error


def sentence(name: str, runs: Sequence[EnergyRecord]) -> str:
    """Return the runs of one job, or of what belongs together, as a line: with the weakest of their labels."""
    found = totals(runs)
    label = next(label for label in ("modelled", "attributed", "measured") if label in found["by_label_j"])
    interval = f"; {_interval(found)}" if found["high_j"] > 1.001 * found["low_j"] else ""
    parts = [f"{words.energy(found['energy_j'])} ({label}{interval})"]
    parts += [_amounts(found[kind]) for kind in AMOUNTS if found[kind] and not found[f"{kind}_lacking"]]
    wait_s = runs[0].start_s - runs[0].first_s
    if len(runs) == 1 and runs[0].watts_wait_s is not None and wait_s >= 60.0:
        share = words.percent(runs[0].watts_wait_s / wait_s)
        parts.append(f"{share} of a wait of {words.span(wait_s)} was for watts")
    if len(runs) == 1 and (clock := clock_of(runs[0])):
        parts.append(clock)
    count = f" ({words.count(len(runs), 'run')})" if len(runs) > 1 else ""
    return f"job {name}{count}: {', '.join(parts)}"


def clock_of(one: EnergyRecord) -> str:
    """Return what a lower clock would have saved; nothing where no model knows it."""
    if one.lower is None:
        return ""
    hertz, saved, longer = one.lower
    return (
        f"at {words.si(hertz, 'Hz')} {words.percent(saved)} less energy and {words.percent(longer)} longer (modelled)"
    )


def totals(records: Sequence[EnergyRecord]) -> dict[str, Any]:
    """Return the sums of a month; cost and carbon of the runs that have them, and how many lack them."""
    by_label = Counter[str]()
    for one in records:
        by_label[one.label] += round(one.energy_j)
    found: dict[str, Any] = {
        "jobs": len({one.job for one in records}), "runs": len(records), "by_label_j": dict(by_label),
        **{name: sum(getattr(one, name) for one in records) for name in ("energy_j", "low_j", "high_j")},
        "avoidable_wait_s": sum(one.watts_wait_s or 0.0 for one in records),
    }  # fmt: skip
    for name in AMOUNTS:
        sums: dict[str, float] = {}
        for one in records:
            if (amount := getattr(one, name)) is not None:
                unit = getattr(one, f"{name}_unit")
                sums[unit] = sums.get(unit, 0.0) + amount
        lacking = sum(getattr(one, name) is None for one in records)
        found |= {name: sums, f"{name}_lacking": lacking}
    return found


def summary(title: str, records: Sequence[EnergyRecord]) -> str:
    """Return a month as a line."""
    if not records:
        return f"{title}: no job ended"
    found = totals(records)
    shares = [f"{words.percent(j / max(found['energy_j'], 1.0))} {label}" for label, j in found["by_label_j"].items()]
    energy = f"{words.energy(found['energy_j'])} ({', '.join(shares)}; {_interval(found)})"
    parts = [words.count(found["jobs"], "job"), energy]
    for name in AMOUNTS:
        lacking = f" ({words.count(found[f'{name}_lacking'], 'run')} without)" if found[f"{name}_lacking"] else ""
        parts += [f"{words.figures(amount)} {unit}{lacking}" for unit, amount in found[name].items()]
    parts.append(f"avoidable waits {words.span(found['avoidable_wait_s'])}")
    return f"{title}: {', '.join(parts)}"


def document(title: str, who: str, records: Sequence[EnergyRecord], names: Callable[[int], str]) -> Document:
    """Return the page of a month. ``names`` returns the name of a user id."""
    groups = [
        _grouped("Accounts", "Account", records, lambda one: one.account or "none"),
        _grouped("Projects", "Project", records, lambda one: one.project or "none"),
        _grouped("Users", "User", records, lambda one: names(one.uid)),
    ]
    largest = sorted(records, key=lambda one: (-one.energy_j, one.key))[:MOST]
    clocks = any(map(clock_of, largest))
    heads = ["Job", "Energy", "At least", "At most", "Label", "Cost and\ncarbon", "Run time", "Waited\nfor watts"]
    rows = [
        [
            one.job, words.energy(one.energy_j), words.energy(one.low_j), words.energy(one.high_j), one.label,
            _amounts(sums["cost"] | sums["carbon"]), words.span(one.end_s - one.start_s),
            "–" if one.watts_wait_s is None else words.span(one.watts_wait_s), *([clock_of(one)] if clocks else []),
        ]
        for one, sums in ((one, totals([one])) for one in largest)
    ]  # fmt: skip
    shown = f"The {MOST:,} jobs with most energy" if len(records) > MOST else "Jobs"
    jobs = Table(
        [*heads, *(["A lower clock"] if clocks else [])], rows, shown, key="jobs", words=(4, 5, 8), answer=(1,)
    )
    return Document(
        title=title,
        eyebrow=who,
        lede=summary(who, records),
        blocks=[*(table for table in groups if len(table.rows) > 1), jobs, Prose("How to read this", READ, "notes")],
        links=(("jobs", "Jobs"), ("notes", "Notes")),
        folds=True,
    )


def _grouped(title: str, head: str, records: Iterable[EnergyRecord], name: Callable[[EnergyRecord], str]) -> Table:
    """Return the sums of each group, the largest first."""
    groups: dict[str, list[EnergyRecord]] = {}
    for one in records:
        groups.setdefault(name(one), []).append(one)
    found = sorted(
        ((totals(ones), key) for key, ones in groups.items()), key=lambda pair: (-pair[0]["energy_j"], pair[1])
    )
    rows = [
        [
            key, words.energy(sums["energy_j"]), f"{sums['jobs']:,}", _amounts(sums["cost"]), _amounts(sums["carbon"]),
            words.span(sums["avoidable_wait_s"]),
        ]
        for sums, key in found
    ]  # fmt: skip
    return Table((head, "Energy", "Jobs", "Cost", "Carbon", "Avoidable\nwaits"), rows, title, key=head, answer=(1,))


def _interval(sums: Mapping[str, Any]) -> str:
    return f"{words.energy(sums['low_j'])} to {words.energy(sums['high_j'])}"


def _amounts(sums: dict[str, float]) -> str:
    return ", ".join(f"{words.figures(amount)} {unit}" for unit, amount in sums.items()) or "–"


def as_json(records: Iterable[EnergyRecord]) -> list[dict[str, Any]]:
    """Return records as JSON values."""
    return [asdict(one) for one in records]
