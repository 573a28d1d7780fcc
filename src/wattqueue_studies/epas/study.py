"""The study of paper 3: PAS and E-PAS, Algorithm 1, curves under a cap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError
from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Block, Table
from wattqueue.workload.lightesp import DIVIDE, LULESH, exponent_that_admits
from wattqueue_studies.epas.algorithm import growth_table
from wattqueue_studies.epas.cap_response import ResponseError, errors_on_other_half, read_capped_runs
from wattqueue_studies.epas.extensions import Extensions, ExtensionTables
from wattqueue_studies.epas.gains import gains_table, variants_table
from wattqueue_studies.epas.pictures import pictures
from wattqueue_studies.epas.submissions import submission_cases, submissions_table, window_cases, windows_table
from wattqueue_studies.epas.trial import BASE, CAPS_W, E_PAS, HIGHEST, ORACLE, EspCase, paper_machine
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples, sweep

TOLD = published("wattqueue_studies.epas")
"""What the paper prints (claims.toml)."""
BASES = {True: (BASE,), False: (BASE, HIGHEST)}
"""What E-PAS is compared with where submissions are varied, and where class Z is left out."""
IDLE_SHARES = (0.0, 0.3, 0.6)
"""Idle watts as shares of the maximum: not in the text, so a range is shown."""
SHOWN_SHARE = 0.3
"""The idle share at which other readings of E-PAS and pictures are shown, if it is among those of the study."""
SHOWN = (
    ("makespan_s", "workload\ns", 0),
    ("wait_s", "mean wait\ns", 0),
    ("energy_j", "energy\nMJ", 3),
    ("utilization_percent", "utilization\n%", 1),
    ("power_percent", "power/cap\n%", 1),
    ("gap_percent", "estimated less\nreal, % of cap", 1),
    ("over_s", "above the\ncap s", 1),
    ("over_w", "most above\nthe cap W", 1),
    ("never_ran", "jobs that\nnever run", 0),
)
"""Metrics of the tables: heading and digits."""


@dataclass(frozen=True, slots=True)
class EpasStudy:
    """The study of paper 3.

    Attributes:
        cells: Measured runs under caps (GridPilot's CSV), or None to leave the fitted curves out.
        seeds: Draws of the workload.
        idle_shares: Idle watts as shares of the maximum.
        divide: ESP's run times over those of the jobs: 12 or 1.
        threads: Simulations at a time.
        extensions: What goes beyond the paper, or None to leave it out.
        submissions: Whether submissions, and windows of the base, are varied.
    """

    cells: Path | None = None
    seeds: int = 30
    idle_shares: tuple[float, ...] = IDLE_SHARES
    divide: float = DIVIDE
    threads: int = 2
    extensions: Extensions | None = None
    submissions: bool = True

    def simulate(self, progress: Progress | None = None) -> Samples:
        """Simulate every policy on every draw.

        Raises: InputError for no seed, and idle shares out of range.
        """
        if not self.idle_shares or not all(0 <= share < 1 for share in self.idle_shares):
            raise InputError("idle watts are no share of the maximum", where="--idle", hint="0 to below 100 per cent")
        found, done = Samples({}), 0
        simulated = [*self.cases, *self.varied]
        runs = self.seeds * sum(len(policies) for _, policies in simulated)
        for case, policies in simulated:
            ahead = done

            def shown(finished: int, _: int, ahead: int = ahead) -> None:
                if progress:
                    progress(ahead + finished, runs)

            seeds = range(self.seeds)
            found = found.joined(
                sweep(EspCase.draw, {case.name: case}, policies, seeds, threads=self.threads, progress=shown)
            )
            done += self.seeds * len(policies)
        return found

    @property
    def shown_share(self) -> float:
        """Return the idle share at which other readings of E-PAS and pictures are shown."""
        return SHOWN_SHARE if SHOWN_SHARE in self.idle_shares else self.idle_shares[0]

    @property
    def cases(self) -> list[tuple[EspCase, tuple[str, ...]]]:
        """Return each setting and the names of its policies."""
        settings = [EspCase(m, share, self.divide) for m in CAPS_W for share in self.idle_shares]
        return [(case, case.policies(variants=case.idle_share == self.shown_share)) for case in settings]

    @property
    def varied(self) -> list[tuple[EspCase, tuple[str, ...]]]:
        """Return each setting with other submissions, or without class Z, and the names of its policies."""
        if not self.submissions:
            return []
        known = {case for case, _ in self.cases}
        cases = [*submission_cases(self.shown_share, self.divide), *window_cases(self.shown_share, self.divide)]
        return [(c, (*BASES[c.whole_machine], E_PAS[c.machine])) for c in cases if c not in known]

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Fit curves, simulate, and compare with the paper.

        Raises: InputError as ``simulate``, and for a file that cannot be used.
        """
        fitted = None if self.cells is None else errors_on_other_half(read_capped_runs(self.cells))
        more = None if self.extensions is None else self.extensions.found(self.seeds, self.threads)
        return self.report(self.simulate(progress), None if fitted is None else fitted[1], more)

    def report(
        self, samples: Samples, errors: Sequence[ResponseError] | None, more: ExtensionTables | None = None
    ) -> StudyReport:
        """Return tables and claims."""
        algorithm, grown = growth_table()
        whole = set(samples.settings)
        claims = replace(TOLD, claims=[c for c in TOLD.claims if set(c.on) <= whole]).judge(samples)
        shown = [case for case, _ in self.cases if case.idle_share == self.shown_share]
        own = [case.name for case, _ in self.cases]
        parts: list[Block] = [gains_table(samples, own)]
        parts += [variants_table(samples, case.name) for case in shown]
        if self.submissions:
            parts.append(submissions_table(samples, submission_cases(self.shown_share, self.divide)))
            parts.append(windows_table(samples, window_cases(self.shown_share, self.divide)))
        parts += [_policies(samples, setting) for setting in own]
        parts += [_whole_machine(self.idle_shares), algorithm]
        if errors is not None:
            parts.append(_errors(errors))
        if more is not None:
            parts += more.tables
        figures: dict[str, Any] = {
            **({} if more is None else more.figures),
            "generated": True,
            "seeds": self.seeds,
            "oracles": [ORACLE],
            "results": samples.rows(),
            "algorithm": [asdict(one) for one in grown],
            "fitted": [asdict(one) for one in errors or ()],
        }
        runs = self.seeds * sum(len(policies) for _, policies in (*self.cases, *self.varied))
        return TOLD.report(
            claims,
            about=(
                f"{runs:,} simulations: {self.seeds} seeds of the 230 jobs of LightESP on two machines of 520 cores. "
                f"{ORACLE} reads the truth (an oracle)."
            ),
            lede=f"PAS under a cap of 80 %, and E-PAS, which counts what is measured. {claims.summary}.",
            parts=parts,
            drawn=[picture for case in shown for picture in pictures(case)],
            figures=figures,
            simulated=[samples],
        )


def _policies(samples: Samples, setting: str) -> Table:
    """Return the figures of every policy in one setting."""
    rows = []
    for policy in dict.fromkeys(policy for where, policy, _ in samples.values if where == setting):
        cells = []
        for metric, _, digits in SHOWN:
            values = samples.of(setting, policy, metric)
            cells.append(with_interval(estimate(values / 1e6 if metric == "energy_j" else values), "", digits))
        rows.append([policy, *cells])
    title = f"{setting} (±: 95 % over seeds)"
    return Table(("policy", *(head for _, head, _ in SHOWN)), rows, title)


def _whole_machine(idle_shares: Sequence[float]) -> Table:
    """Return at which exponent the two jobs of class Z, on the whole machine, fit under the cap."""
    rows = []
    for name, cap_w in CAPS_W.items():
        for share in idle_shares:
            part = paper_machine(name, share).partitions[0]
            low = part.frequencies_hz[-1] / part.frequencies_hz[0]
            needed = exponent_that_admits(cap_w / ((part.max_w or 0.0) * part.units), share, low)
            rows.append([f"{name}, idle {100 * share:g} %", f"{needed:.2f}", "yes" if needed <= LULESH.alpha else "no"])
    heads = ("setting", "least alpha\nthat lets them in", f"admitted here\n(alpha {LULESH.alpha:g})")
    note = "At the lowest frequency of the window. What is not admitted is rejected at submission (rule 4)."
    return Table(heads, rows, "Jobs on the whole machine (class Z) under the cap", note, key="whole")


def _errors(errors: Sequence[ResponseError]) -> Table:
    """Return the error of fitted curves on the half of the measured runs that they have not seen."""
    rows = [
        [
            e.app,
            "binds" if e.cap else "does not",
            str(e.runs),
            *(f"{value:.1f}" for value in (e.watts_mean, e.watts_most, e.time_mean, e.time_most)),
        ]
        for e in errors
    ]
    heads = ("application", "cap", "runs", "watts:\nmean error", "most", "time:\nmean error", "most")
    title = "Watts and time against frequency and cap: fitted on half of the measured runs, error on the other half (%)"
    return Table(
        heads, rows, title, "Measured: one V100, four caps and three clocks (GridPilot).", words=(1,), key="fit"
    )
