"""The study of paper 5: two experiments, five windows of saving, shares of consent, both readings of its rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats
from wattqueue.report.document import Block
from wattqueue.report.figure import Drawn
from wattqueue_studies.demand_response.depth import FITTED, STEP_SHARES, depth_cases, depth_table
from wattqueue_studies.demand_response.pictures import figure_6, figure_7
from wattqueue_studies.demand_response.tables import (
    announced_table,
    field_table,
    indexes_table,
    shape_table,
    stop_table,
)
from wattqueue_studies.demand_response.trial import KW, PARKING, WITHOUT, SavingCase, named
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples, sweep

TOLD = published("wattqueue_studies.demand_response")
"""What the paper prints (claims.toml)."""
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of allowed jobs; the text names 75 and 100 % only."""
WINDOWS_H = ((0.0, 24.0), (8.0, 20.0), (9.0, 17.0), (13.0, 16.0), (18.0, 21.0))
"""When saving is on, in hours of the day: not in the text."""
LIMIT_W = 407e3
"""The limit of the text; about 80 % of 509 kW."""
LIMITS_W = (458e3, LIMIT_W, 356e3)
"""90, 80 and 70 % of 509 kW."""
CUBIC, ALPHAS = 3.0, (1.0, 2.0, 3.0)
"""Exponents of watts above idle in frequency: not in the text."""
FIELD = ((13.0, 16.0, 353e3), (8.0, 18.0, 329e3))
"""3 h at 25 % and 10 h at 30 % below what the busy machine draws on average without saving: about 470 kW."""
RULES = ("dr-fcfs", "dr-fcfs-at-start", "dr-running")
"""Both readings of the paper, and ours, which also slows running jobs."""
EASY_RULES = ("dr-easy", "dr-easy-ahead", "dr-easy-ramp")
"""Ours, which order by the flag; the second knows an announced target before it begins, the third also rises slowly."""
ANNOUNCED_H = ((9.0, 17.0), (13.0, 16.0))
"""Windows in which these are compared."""
NOTICE_S, RAMP_W_PER_S = 21_600.0, 30.0
"""Notice and ramp of the targets there: assumed. 102 kW take 57 minutes at that ramp."""
OFF, BOTH, DRAIN = named("dr-fcfs-off", 0.0), named("dr-fcfs-both", 0.75), named("dr-fcfs-drain", 0.0)


@dataclass(frozen=True, slots=True)
class DemandResponseStudy:
    """The study of paper 5.

    Attributes:
        seeds: Draws of the workloads.
        windows_h: Windows of saving, in hours of the day.
        limits_w: Limits while saving; the tables show ``LIMIT_W``.
        node_stop: Whether node stop is simulated, whose control runs in Python.
        threads: Simulations at a time.
        announced: Whether the rules that look ahead, and rise at a ramp, are compared with the others.
        depth: Whether it is varied how far DVFS goes.
    """

    seeds: int = 30
    windows_h: tuple[tuple[float, float], ...] = WINDOWS_H
    limits_w: tuple[float, ...] = LIMITS_W
    node_stop: bool = True
    threads: int = 2
    announced: bool = True
    depth: bool = True

    def grid(self, progress: Progress | None = None) -> Samples:
        """Simulate every window, limit, share and seed of both experiments with watts cubic in frequency."""
        rules = [WITHOUT, *(named(RULES[0], share) for share in SHARES)]
        return self._sweep(self._cases("12", self.limits_w, (CUBIC,)), rules, progress)

    def simulate(self, progress: Progress | None = None) -> Samples:
        """Simulate everything. Raises: InputError for no seed, or no window."""
        if not self.windows_h or not self.limits_w:
            raise InputError("a study needs a window and a limit", where="windows_h, limits_w", hint="name one each")
        submission, at_start, running = ([named(rule, share) for share in SHARES] for rule in RULES)
        field = {c.name: c for e in "12" for c in (SavingCase(e, *each, CUBIC) for each in FIELD)}
        more: list[tuple[Mapping[str, SavingCase], list[str]]] = [
            (self._cases("2", (LIMIT_W,), ALPHAS[:-1]), [*submission, *at_start]),
            (self._cases("2", (LIMIT_W,), (CUBIC,)), [*at_start, *running]),
            (field, [*submission, *running]),
        ]
        if self.node_stop:
            more.append((self._cases("1", (LIMIT_W,), (CUBIC,)), [OFF, BOTH, DRAIN]))
        if self.announced:
            more.append((announced_cases(), announced_rules()))
        if self.depth:
            more.append(
                (depth_cases(LIMIT_W, ALPHAS), [named(rule, share) for rule in RULES[:2] for share in STEP_SHARES])
            )
        found = self.grid(progress)
        for cases, rules in more:
            found = found.joined(self._sweep(cases, rules, progress))
        return found.joined(Samples(shapes(found)))

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Simulate, and compare with the paper. Raises: InputError as ``simulate``."""
        return self.report(self.simulate(progress))

    def report(self, samples: Samples) -> StudyReport:
        """Return tables and claims."""
        whole = set(samples.settings)
        keys = {(setting, policy) for setting, policy, _ in samples.values}
        claims = [c for c in TOLD.claims if set(c.on) <= whole and all((on, c.policy) in keys for on in c.on)]
        judged = replace(TOLD, claims=claims).judge(samples)
        names = [named(RULES[0], share) for share in SHARES]
        shown = [c.name for e in "21" for c in self._cases(e, (LIMIT_W,), (CUBIC,)).values()]
        parts: list[Block] = [indexes_table(samples, setting, names) for setting in shown if setting in whole]
        other = {**announced_cases(), **depth_cases(LIMIT_W, ALPHAS)}
        plain = [s for s in samples.settings if s not in other]
        parts.append(shape_table(samples, RULES, plain))
        field = [s for s in plain if (s, names[0]) in keys and (s, named(RULES[2], 1.0)) in keys]
        parts.append(field_table(samples, field, [*names, *(named(RULES[2], share) for share in SHARES[1:])]))
        if self.node_stop:
            first = [c.name for c in self._cases("1", (LIMIT_W,), (CUBIC,)).values()]
            parts.append(stop_table(samples, first, (names[0], OFF, DRAIN, BOTH)))
        if self.announced:
            parts += [announced_table(samples, setting, announced_rules()) for setting in announced_cases()]
        if self.depth:
            parts.append(depth_table(samples, [*depth_cases(LIMIT_W, ALPHAS).values()], RULES[:2]))
        runs = sum(len(v) for (_, _, metric), v in samples.values.items() if metric == "added_wait_s")
        return TOLD.report(
            judged,
            about=(
                f"{runs:,} simulations: {self.seeds} seeds of 100 and 3,000 jobs on 151 nodes, {len(self.windows_h)} "
                f"windows of saving, limits of {', '.join(f'{w / KW:g}' for w in self.limits_w)} kW."
            ),
            lede=f"What consent to a slow-down changes while power is saved. {judged.summary}.",
            parts=parts,
            figures={"generated": True, "seeds": self.seeds, "results": samples.rows()},
            simulated=[samples],
            drawn=self._pictures(samples),
        )

    def _pictures(self, samples: Samples) -> Iterator[Drawn]:
        """Yield Figure 6 in the first window, and Figure 7 there and with the fitted clock."""
        yield figure_6(next(iter(self._cases("1", (LIMIT_W,), (CUBIC,)).values())))
        cases = [*self._cases("2", (LIMIT_W,), ALPHAS).values(), *depth_cases(LIMIT_W, ALPHAS).values()]
        first = (cases[0].begin_h, cases[0].end_h)
        shown = [c for c in cases if (c.begin_h, c.end_h) == first and (not c.clock or (c.alpha, c.clock) == FITTED)]
        yield from figure_7(samples, [c for c in shown if c.name in samples.settings], RULES[0], SHARES)

    def _cases(self, experiments: str, limits_w: Sequence[float], alphas: Sequence[float]) -> dict[str, SavingCase]:
        """Return the settings by name."""
        found = [
            SavingCase(experiment, *window, limit_w, alpha)
            for experiment in experiments
            for window in self.windows_h
            for limit_w in limits_w
            for alpha in alphas
        ]
        return {case.name: case for case in found}

    def _sweep(self, cases: Mapping[str, SavingCase], rules: Sequence[str], progress: Progress | None) -> Samples:
        """Simulate some settings under some rules."""
        return sweep(SavingCase.draw, cases, rules, range(self.seeds), threads=self.threads, progress=progress)


def announced_cases() -> dict[str, SavingCase]:
    """Return the settings in which targets are announced, by name."""
    found = [
        SavingCase(experiment, *window, LIMIT_W, CUBIC, NOTICE_S, RAMP_W_PER_S)
        for experiment in "21"
        for window in ANNOUNCED_H
    ]
    return {case.name: case for case in found}


def announced_rules() -> list[str]:
    """Return the rules that are compared there, with their shares of consent."""
    others = [named(RULES[0], 0.0), OFF, DRAIN]
    return [*others, *(named(rule, share) for rule in (*RULES, PARKING, *EASY_RULES) for share in SHARES[1:])]


def shapes(samples: Samples) -> dict[tuple[str, str, str], Floats]:
    """Return how the added wait changes up to 75 % of consent and from there on, by rule. Shapes (draws,)."""
    found = {}
    for setting in samples.settings:
        for rule in RULES if setting not in announced_cases() else ():
            wait = [samples.values.get((setting, named(rule, share), "added_wait_s")) for share in STEP_SHARES]
            if wait[0] is not None and wait[1] is not None and wait[2] is not None:
                found[setting, rule, "to_75_s"] = wait[1] - wait[0]
                found[setting, rule, "from_75_s"] = wait[2] - wait[1]
    return found
