"""The whole study of paper 1: choices, the check without scheduling, and every simulation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattqueue import SCHEMA_VERSION
from wattqueue.errors import InputError
from wattqueue.study.eamc.choices import SHARES, energy_ratios, frequency_rows, partition_rows, threshold_rows
from wattqueue.study.eamc.results import claim_rows, result_rows
from wattqueue.study.eamc.sweep import POLICIES, READINGS, Case, Progress, Sample, sweep
from wattqueue.study.eamc.systems import System, profiles_from, systems
from wattqueue.workload.cirne import CirneModel

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class StudyResult:
    """Everything that the study found; ``document`` is its JSON."""

    source: str
    seeds: int
    jobs: int
    frequencies: Rows
    partitions: Rows
    energy_ratios: Rows
    results: Rows
    thresholds: dict[str, Rows]
    claims: Rows
    samples: list[Sample]

    def document(self) -> dict[str, Any]:
        """The JSON of ``--json``; a figure that does not exist is null."""
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
) -> StudyResult:
    """Both systems, three shares, all policies and both weights, ``seeds`` workloads each.

    Raises: InputError for coefficients or applications that cannot be used.
    Reference: paper 1, section 5.
    """
    if seeds < 1:
        raise InputError(f"{seeds} seeds", mend="1 or more; the paper's figures are shown with 30")
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
    return StudyResult(
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
    """The paper's four workloads: three shares on p1/p2, the even draw on p1/p3."""
    return [*(Case(both["p1/p2"], share) for share in SHARES), Case(both["p1/p3"], 13)]
