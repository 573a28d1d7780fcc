"""Tables of the study: policies on each workload, and where predicted run times harm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from wattqueue.policy.oracles import marked_policy, oracles_of
from wattqueue.policy.policy import load_policy
from wattqueue.report.document import Table
from wattqueue_studies.frame.samples import Samples, change_percent
from wattqueue_studies.runtimes.choice import EASY
from wattqueue_studies.runtimes.trial import METRICS

HARM_PERCENT = 5.0
"""Increase of a figure over EASY's that is listed as harm."""
HARMED = {"wait_s_mean": "mean", "wait_s_p95": "p95", "wait_s_p99": "p99", "wait_s_max": "greatest"}
"""Figures that are looked at for harm."""


def setting_table(samples: Samples, setting: str, note: str = "") -> Table:
    """Return all policies on one workload; of several draws the means."""
    rows = []
    for policy in samples.policies:
        values = [float(samples.of(setting, policy, metric).mean()) for metric in METRICS]
        cells = [f"{v:,.1f}" if metric == "bounded_slowdown_mean" else f"{v:,.0f}" for metric, v in
                 zip(METRICS, values, strict=True)]  # fmt: skip
        rows.append([marked_policy(policy), *cells])
    return Table(("policy", *METRICS.values()), rows, f"{setting}: waits in seconds", note)


def harm_table(every: Iterable[Samples]) -> Table:
    """Return where a policy without knowledge of the future is worse than EASY by ``HARM_PERCENT`` or more."""
    rows = [
        [f"{policy}, {setting}", *("–" if np.isnan(value) else f"{value:+.0f}" for value in changes)]
        for samples in every
        for setting, policy, changes in _changes(samples)
        if max(changes, default=0.0, key=lambda value: -np.inf if np.isnan(value) else value) >= HARM_PERCENT
    ]
    title = f"Where it harms: {HARM_PERCENT:g} % or more above EASY in one of these, per cent of change"
    note = "" if rows else "Nowhere."
    return Table(("policy, workload", *HARMED.values()), rows, title, note, key="harm")


def _changes(samples: Samples) -> Iterator[tuple[str, str, list[float]]]:
    """Yield setting, policy and the changes of its waits over EASY, oracles left out."""
    for setting in samples.settings:
        for policy in samples.policies:
            if policy == EASY or oracles_of(load_policy(policy)):
                continue
            pairs = [samples.pair(setting, policy, EASY, m) for m in HARMED]
            means = [[float(values.mean()) for values in pair] for pair in pairs]
            yield setting, policy, [change_percent(*pair) for pair in means]
