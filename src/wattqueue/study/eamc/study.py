"""The whole study of paper 1: choices, the check without scheduling, and every simulation.

30 seeds are 1,320 simulations of 5,000 jobs, a minute on two cores. Simulations run in threads: compiled kernels
release the interpreter's lock, and threads share the applications' profiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattqueue import SCHEMA_VERSION
from wattqueue.errors import InputError
from wattqueue.study.eamc.choices import SHARES, energy_ratios, frequency_rows, partition_rows, threshold_rows
from wattqueue.study.eamc.results import claim_rows, result_rows
from wattqueue.study.eamc.sweep import POLICIES, READINGS, Case, Progress, SeedValues, sweep
from wattqueue.study.eamc.systems import System, profiles_from, systems
from wattqueue.workload.cirne import CirneModel

MOST_SEEDS = 10_000
"""Workloads per setting; 30 take a minute, and every result is kept in memory."""
Rows = list[dict[str, Any]]
"""A table as JSON holds it."""


@dataclass(frozen=True, slots=True)
class EamcStudyResult:
    """Everything that the study computed; ``document`` is its JSON."""

    source: str
    """Where the applications' profiles come from."""
    seeds: int
    """Workloads per setting."""
    jobs: int
    """Jobs per workload."""
    frequencies: Rows
    """Chosen frequencies (``choices.frequency_rows``)."""
    partitions: Rows
    """Chosen partitions (``choices.partition_rows``)."""
    energy_ratios: Rows
    """The check without scheduling (``choices.energy_ratios``)."""
    results: Rows
    """Means, intervals and changes (``results.result_rows``)."""
    thresholds: dict[str, Rows]
    """Readings of the 35 % threshold by system (``choices.threshold_rows``)."""
    claims: Rows
    """Published figures beside ours (``results.claim_rows``)."""
    samples: list[SeedValues]
    """Every metric of every policy, seed by seed."""

    def document(self) -> dict[str, Any]:
        """Return the JSON of ``--json``; a figure that does not exist is null."""
        return {
            "schema_version": SCHEMA_VERSION,
            "study": "eamc",
            "source": self.source,
            "seeds": self.seeds,
            "jobs": self.jobs,
            "frequencies": self.frequencies,
            "partitions": self.partitions,
            "energy_ratios": self.energy_ratios,
            "results": self.results,
        }


def run_study(
    coefficients: Path | None = None,
    apps: Path | None = None,
    *,
    seeds: int = 30,
    threads: int = 2,
    model: CirneModel | None = None,
    progress: Progress | None = None,
) -> EamcStudyResult:
    """Simulate both systems, three shares, all policies and both weights.

    Args:
        coefficients: EAR's coefficients of p1 and p2 (CSV); None uses Table 1.
        apps: Metrics of the eight applications (CSV), given together with the coefficients.
        seeds: Workloads per setting.
        threads: Simulations at a time.
        model: Parameters of the workloads, instead of the frozen ones.
        progress: Called with (finished, all) simulations.

    Raises: InputError for coefficients or applications that cannot be used, or less than one seed.

    Reference: paper 1, section 5.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise InputError(
            f"{seeds} seeds", where="seeds", hint=f"take 1 to {MOST_SEEDS:,}; the paper's figures are shown with 30"
        )
    profiles = profiles_from(coefficients, apps)
    both = systems(profiles)
    samples = sweep(
        cases_of(both),
        (*POLICIES, *READINGS),
        range(seeds),
        threads=threads,
        model=model,
        progress=progress,
    )
    first = both["p1/p2"]
    return EamcStudyResult(
        source=profiles.source,
        seeds=seeds,
        jobs=(model or CirneModel()).jobs,
        frequencies=[
            *frequency_rows(first, "p1"),
            *frequency_rows(first, "p2"),
            *frequency_rows(both["p1/p3"], "p3"),
        ],
        partitions=partition_rows(first),
        energy_ratios=energy_ratios(first),
        results=result_rows(samples),
        thresholds={name: threshold_rows(system) for name, system in both.items()},
        claims=claim_rows(samples),
        samples=samples,
    )


def cases_of(both: dict[str, System]) -> list[Case]:
    """Return the paper's four workloads: three shares on p1/p2, the even draw on p1/p3."""
    return [*(Case(both["p1/p2"], share) for share in SHARES), Case(both["p1/p3"], 13)]
