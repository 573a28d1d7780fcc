"""Tables of the study of paper 5."""

from __future__ import annotations

from collections.abc import Sequence

from wattqueue.report.compare.stats import Estimate, estimate, with_interval
from wattqueue.report.document import Table
from wattqueue_studies.frame.samples import Samples

INDEXES = (
    ("added_wait_s", "added\nwait s", 0),
    ("added_run_s", "added\nrun s", 0),
    ("freed_kwh", "freed\nkWh", 0),
    ("bound_cap_s", "disallowed:\nby limit s", 0),
    ("bound_fallback_s", "by\nfall-back s", 0),
    ("slowed_disallowed", "disallowed\nslowed", 0),
)
"""The three indexes of the paper by share, and what disallowed jobs bear: heading and digits."""
FIELD = (
    ("depth_percent", "depth\n%", 1),
    ("to_target_s", "time to\ntarget s", 0),
    ("held_percent", "within\nlimit %", 1),
    ("rebound_kw", "rebound\nkW", 1),
    ("unserved_kwh", "unserved\nkWh", 1),
)
"""The figures of field trials."""
ANNOUNCED = (
    ("bound_cap_s", "disallowed:\nby limit s", 0),
    ("bound_fallback_s", "by\nfall-back s", 0),
    ("allowed_turnaround_s", "allowed: added\nturnaround s", 0),
    ("unserved_kwh", "unserved\nkWh", 1),
    ("rebound_kw", "rebound\nkW", 1),
    ("rise_kw", "rise in\n10 min kW", 0),
)
"""What rules are compared by where targets are announced and state a ramp."""
STEPS = ("to_75_s", "from_75_s")
"""Steps of the added wait from 0 to 75 % consent, and from there to 100 %."""
SECONDS, PERCENT_3_H, PERCENT_10_H = 30.0, 25.0, 30.0
"""Field trials: 25 % for 3 h; over 30 % within 30 s for up to 10 h (the second from a news copy only)."""


def indexes_table(samples: Samples, setting: str, policies: Sequence[str]) -> Table:
    """Return the indexes of one setting by share."""
    heads = ("rule, share", *(head for _, head, _ in INDEXES))
    return Table(heads, _rows(samples, setting, policies, INDEXES), f"{setting} (±: 95 % over seeds)")


def shape_of(samples: Samples, setting: str, rule: str) -> str:
    """Return whether the added wait falls up to 75 % of consent and rises from there on: yes, no or ?."""
    to, back = (estimate(samples.of(setting, rule, m)) for m in STEPS)
    if _beyond(to, -1) and _beyond(back, 1):
        return "yes"
    return "no" if _against(to, -1) or _against(back, 1) else "?"


def shape_table(samples: Samples, rules: Sequence[str], settings: Sequence[str]) -> Table:
    """Return in which settings the added wait has the shape of Figure 7."""
    rows = []
    for setting, rule, metric in samples.values:
        if rule in rules and metric == STEPS[0] and setting in settings:
            steps = [with_interval(estimate(samples.of(setting, rule, m)), "+", 0) for m in STEPS]
            short = setting.replace("experiment ", "exp. ")
            rows.append([f"{rule}, {short}", *steps, shape_of(samples, setting, rule)])
    heads = ("rule, setting", "75 % less\n0 %, s", "100 % less\n75 %, s", "shape")
    note = "Shape: yes where both intervals lie on the side of Figure 7, no where one lies on the other side."
    return Table(heads, rows, "Added wait by consent: does it fall up to 75 % and rise after it?", note, key="shape")


def field_table(samples: Samples, settings: Sequence[str], policies: Sequence[str]) -> Table:
    """Return the figures of field trials by setting and share, and whether ours reach the published ones."""
    rows = []
    for setting in settings:
        for policy in policies:
            cells = _rows(samples, setting, (policy,), FIELD)[0][1:]
            depth, time = (float(samples.of(setting, policy, m).mean()) for m in ("depth_percent", "to_target_s"))
            reached = [
                word for word, met in (
                    ("25 %", depth >= PERCENT_3_H), ("30 %", depth >= PERCENT_10_H), ("30 s", time <= SECONDS)
                ) if met
            ]  # fmt: skip
            rows.append([f"{setting.replace('experiment ', 'exp. ')}, {policy}", *cells, ", ".join(reached) or "-"])
    heads = ("setting, rule, share", *(head for _, head, _ in FIELD), "reached")
    note = "Field trials: 25 % for 3 h; over 30 % within 30 s for up to 10 h. Means over seeds, ±: 95 %."
    return Table(heads, rows, "In the figures of field trials", note, key="field")


def announced_table(samples: Samples, setting: str, policies: Sequence[str]) -> Table:
    """Return what rules do with a target that is announced and states a ramp."""
    heads = ("rule, share", *(head for _, head, _ in ANNOUNCED))
    note = "Rules with EASY: against EASY without a target. Rise: greatest within 10 min in the 2 h after it."
    return Table(heads, _rows(samples, setting, policies, ANNOUNCED), setting, note, key=f"ahead {setting}")


def stop_table(samples: Samples, settings: Sequence[str], policies: Sequence[str]) -> Table:
    """Return both forms of node stop, and node stop with DVFS, by setting."""
    shown = (INDEXES[0], INDEXES[2], FIELD[1], FIELD[4])
    rows = [
        [f"{setting.replace('experiment ', 'exp. ')}, {row[0]}", *row[1:]]
        for setting in settings
        for row in _rows(samples, setting, policies, shown)
    ]
    heads = ("setting, rule, share", *(head for _, head, _ in shown))
    note = (
        "dr-fcfs 0 %: nodes idle for which there are no watts. dr-fcfs-off: they are off. dr-fcfs-drain: busy ones "
        "follow when their jobs end. Consent changes none of them."
    )
    return Table(heads, rows, "Node stop: idling, off, and off with DVFS at 75 % consent", note, key="stop")


def _rows(
    samples: Samples, setting: str, policies: Sequence[str], shown: Sequence[tuple[str, str, int]]
) -> list[list[str]]:
    """Return the rows of some rules in one setting."""
    return [
        [p, *(with_interval(estimate(samples.of(setting, p, m)), "", digits) for m, _, digits in shown)]
        for p in policies
    ]


def _beyond(found: Estimate, side: int) -> bool:
    """Return whether the whole interval lies on a side of 0: 1 above, -1 below."""
    low, high = found.low, found.high
    return low is not None and high is not None and (low > 0 if side > 0 else high < 0)


def _against(found: Estimate, side: int) -> bool:
    """Return whether the whole interval lies on the other side of 0, or is 0."""
    return _beyond(found, -side) or found.low == found.high == 0.0
