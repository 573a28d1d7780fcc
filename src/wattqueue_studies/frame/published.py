"""Claims of a study that runs policies on seeded workloads: read from its ``claims.toml`` and measured from samples.

The file has ``title`` and ``paper`` (heading of the page), ``draws`` (what intervals are over), ``metrics`` (names of
metrics in words), ``findings`` (what is known about causes, by key), ``notes`` (how to read the figures) and
``claims``: lists of inline tables. A claim names a ``policy`` and a ``metric``. With ``over`` ours is the change of
means against that policy in per cent, paired by draw; without it the metric itself. ``on`` lists the settings that
the text can mean, none means all. Of several settings the extreme in the published direction counts for a change ("up
to"), the mean over them for a metric itself, unless ``pick = "extreme"``; ``statistic = "median"`` takes the median
over all runs instead. ``statement`` names the sentence of the paper that several rows belong to, so that it counts
once; ``by_construction`` and ``fitted`` say why a row confirms less (``claim``).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from wattqueue.report.compare.stats import Estimate, estimate
from wattqueue.report.document import Block, Prose
from wattqueue.report.figure import Drawn
from wattqueue_studies.frame.claim import Claim, ClaimTable, Judged, known
from wattqueue_studies.frame.report import StudyReport
from wattqueue_studies.frame.samples import (
    DIFFERENT_WORK,
    Samples,
    change,
    extreme,
    never_ran_rows,
    never_ran_tables,
    resampled,
)

OF_CLAIM = {f.name for f in fields(Claim)}
"""Keys of an entry that describe the claim; the others say how ours is measured."""


@dataclass(frozen=True, slots=True)
class SampledClaim:
    """A claim and how ours is measured from samples.

    Attributes:
        claim: What the paper says.
        policy: The policy.
        metric: The metric.
        over: Policy of comparison; empty for the metric itself.
        on: Settings that the text can mean; empty for all.
        pick: ``extreme`` where "up to" is said of a metric itself.
        statistic: ``median`` over all runs instead of the mean.
    """

    claim: Claim
    policy: str
    metric: str
    over: str = ""
    on: tuple[str, ...] = ()
    pick: str = ""
    statistic: str = ""

    def judge(self, samples: Samples) -> Judged:
        """Return the claim with ours; with several settings also ours in each of them."""
        settings = list(self.on or samples.settings)
        each = {setting: self._in(samples, setting) for setting in settings}
        if self.over or self.pick == "extreme":
            ours = extreme(each.values(), greatest=((self.claim.published or self.claim.direction) > 0))
        else:
            grid = np.stack([samples.of(setting, self.policy, self.metric) for setting in settings], axis=1)
            ours = resampled(grid, _median) if self.statistic == "median" else estimate(grid.mean(axis=1))
        of_each = [{"on": setting, **known(e)} for setting, e in each.items()]
        where = {"policy": self.policy, "metric": self.metric, "over": self.over or None}
        more = {**where, "settings": of_each} if self.on else where
        # Without a figure the reason stands in its place, unless the claim states one of its own.
        closed = np.isnan(ours.mean) and not self.claim.forbids
        return Judged(replace(self.claim, forbids=self._why(samples)) if closed else self.claim, ours, more=more)

    def _why(self, samples: Samples) -> str:
        """Return why there is no figure: which jobs of which policy never ran, where two policies are compared."""
        gates = [samples.gate(s, self.policy, self.over) for s in self.on or samples.settings if self.over]
        return next((found.why for found in gates if not found.open), DIFFERENT_WORK)

    def _in(self, samples: Samples, setting: str) -> Estimate:
        """Return ours in one setting."""
        own = samples.of(setting, self.policy, self.metric)
        return estimate(own) if not self.over else change(*samples.pair(setting, self.policy, self.over, self.metric))


@dataclass(frozen=True, slots=True)
class Published:
    """The published figures of a study.

    Attributes:
        name: Name of the study, as in ``wattqueue study NAME``.
        title: Heading of its page.
        paper: The paper and its sections.
        claims: The claims in the order of the file.
        draws: What intervals are over.
        labels: Metrics in words.
        notes: How to read the figures, paragraph by paragraph.
    """

    name: str
    title: str
    paper: str
    claims: Sequence[SampledClaim]
    draws: str
    labels: dict[str, str]
    notes: Sequence[str] = ()

    def judge(self, samples: Samples) -> ClaimTable:
        """Return the claims whose policies and settings were run, with ours."""
        ran, on = set(samples.policies), set(samples.settings)
        mine = [c for c in self.claims if {c.policy, c.over or c.policy} <= ran and on.issuperset(c.on)]
        return ClaimTable([c.judge(samples) for c in mine], self.draws)

    def report(
        self,
        claims: ClaimTable,
        *,
        about: str,
        lede: str,
        parts: Sequence[Block],
        figures: Mapping[str, Any],
        simulated: Sequence[Samples] = (),
        drawn: Iterable[Drawn] = (),
        more: Sequence[Block] = (),
        notes: Sequence[str] | None = None,
        origin: str = "generated workload",
    ) -> StudyReport:
        """Return the report: ``parts``, the claims, ``more``, then how to read them (``notes``, or the file's).

        ``simulated`` are all runs that figures are of: those that left jobs are named in a table of their own.
        """
        read = Prose("How to read the figures", self.notes if notes is None else notes, "notes")
        whole = [*parts, claims, *more, *never_ran_tables(simulated), read]
        found = {**figures, "never_ran": never_ran_rows(simulated)}
        head = (self.title, self.paper)
        return StudyReport.of(self.name, head, about, lede, claims, whole, found, drawn=drawn, origin=origin)

    def named(self, metrics: Iterable[str]) -> dict[str, str]:
        """Return some metrics with their names in words."""
        return {metric: self.labels[metric] for metric in metrics}

    def figure(self, setting: str, policy: str, metric: str, over: str = "") -> float | None:
        """Return the figure of exactly one setting; None if there is none, or the text names no single setting."""
        wanted = ((setting,), policy, metric, over)
        found = [c.claim.published for c in self.claims if (c.on, c.policy, c.metric, c.over) == wanted]
        return found[0] if found else None


def claims_file(package: str) -> dict[str, Any]:
    """Return the content of ``claims.toml`` of a study, a folder of the package."""
    return tomllib.loads(files(package).joinpath("claims.toml").read_text(encoding="utf-8"))


def stated_design(package: str) -> dict[str, Any]:
    """Return the table ``design`` of a study's ``claims.toml``, its lists as tuples."""
    design: dict[str, Any] = claims_file(package)["design"]
    return {name: tuple(value) if isinstance(value, list) else value for name, value in design.items()}


@lru_cache
def published(package: str) -> Published:
    """Read ``claims.toml`` of a study, a folder of the package."""
    document = claims_file(package)
    labels, findings = document["metrics"], document.get("findings", {})
    entries = [entry for group in document["claims"].values() for entry in group]
    return Published(
        package.rpartition(".")[2],
        document["title"],
        document["paper"],
        [_claim(entry, labels, findings) for entry in entries],
        document["draws"],
        labels,
        document.get("notes", ()),
    )


def _claim(entry: dict[str, Any], labels: dict[str, str], findings: dict[str, str]) -> SampledClaim:
    """Return one entry of the file."""
    on, over = tuple(entry.get("on", ())), entry.get("over", "")
    what = entry["policy"] + (f" over {over}" if over else "")
    statistic, figure = entry.get("statistic", "mean"), entry.get("published", "")
    told = {
        "key": "/".join(map(str, (*on, entry["policy"], entry["metric"], statistic, over, figure))),
        "text": f"{what}: {labels[entry['metric']]}" + (f" ({'; '.join(on)})" if on else ""),
        "reference": 0.0 if over else None,
        **{key: value for key, value in entry.items() if key in OF_CLAIM},
        "finding": findings.get(entry.get("finding", ""), ""),
    }
    measure = {key: value for key, value in entry.items() if key not in OF_CLAIM}
    return SampledClaim(Claim(**told), **{**measure, "on": on})


def _median(values: Any) -> float:
    """Return the median over all runs."""
    return float(np.median(values))
