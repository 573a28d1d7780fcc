"""Certificates as plain values: what is stored, and how it is proven again with numpy alone."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue_studies.bound.certificate import Certificate, Objective, OwnPrices, proven_bill
from wattqueue_studies.bound.instance import Instance, plain_values
from wattqueue_studies.bound.makespan import makespan_ticks

FORMAT = "wattqueue-bound-2"
"""Version of the stored form."""
STRICT, ADMISSION = "strict", "admission"
"""Schedules for which a bound holds: those that never exceed the cap; those that ask it when a job starts."""
TURNAROUND, WAIT, MAKESPAN, ENERGY = "turnaround_s_mean", "wait_s_mean", "makespan_s", "job_energy_j"
BILL = "bill"
"""Name of the certificate of a bill, whose instance has prices of energy."""
MEASURES = (TURNAROUND, WAIT, MAKESPAN, ENERGY)


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """What was proven of one instance.

    Attributes:
        window: What identifies the window: seed, first instant, number of jobs.
        scope: Which schedules it holds for: ``strict`` or ``admission``.
        instance: The instance.
        certificates: Prices by the name of the metric.
    """

    window: dict[str, Any]
    scope: str
    instance: Instance
    certificates: dict[str, Certificate]

    def values(self) -> dict[str, Any]:
        """Return plain values, with the numbers that are proven and the hash of the instance."""
        return {
            "window": self.window,
            "scope": self.scope,
            "sha256": self.instance.digest(),
            "instance": self.instance.values(),
            "makespan_ticks": makespan_ticks(self.instance),
            "certificates": {
                name: {**plain_values(asdict(each)), "value": each.value(self.instance)}
                for name, each in self.certificates.items()
            },
        }

    def figures(self) -> dict[str, Any]:
        """Return what identifies the proof, and the bounds by measure in seconds and joules."""
        return {**self.window, "scope": self.scope, **bound_figures(self.instance, self.certificates)}

    def line(self) -> str:
        """Return the bounds as a sentence."""
        found = bound_figures(self.instance, self.certificates)
        seed = f"seed {self.window['seed']}, " if "seed" in self.window else ""
        if BILL in found:
            unit, limit_h = str(self.window["tariff"]).partition("/")[0], self.window["wait_limit_s"] / 3_600.0
            return f"{seed}{len(self.instance):,} jobs, waits up to {limit_h:g} h: bill >= {found[BILL]:,.2f} {unit}"
        return (
            f"{seed}{len(self.instance):,} jobs, {self.scope}: mean turnaround >= {found[TURNAROUND]:,.2f} s, "
            f"mean wait >= {found[WAIT]:,.2f} s, makespan >= {found[MAKESPAN]:,.2f} s"
        )

    @classmethod
    def of_values(cls, values: Mapping[str, Any], where: str) -> Proof:
        """Return a proof from plain values, after every number in it has been proven again.

        Raises: InputError for values that are damaged: another hash, or a number that the prices do not prove.
        """
        try:
            instance = Instance.of_values(values["instance"])
            found = cls(dict(values["window"]), str(values["scope"]), instance, {})
            stated = {"makespan_ticks": values["makespan_ticks"]}
            proven: dict[str, Any] = {"makespan_ticks": makespan_ticks(instance)}
            digest = values["sha256"]
            for name, each in values["certificates"].items():
                found.certificates[name] = _certificate(each)
                stated[name], proven[name] = each["value"], found.certificates[name].value(instance)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            raise InputError(f"is damaged: {error}", where=where, hint="compute the bound again") from error
        wrong = [name for name, value in stated.items() if proven[name] != value]
        if instance.digest() != digest or wrong:
            what = f"its prices do not prove {wrong[0]}" if wrong else "its instance has another hash"
            raise InputError(f"is damaged: {what}", where=where, hint="compute the bound again")
        return found


def bound_figures(instance: Instance, certificates: dict[str, Certificate]) -> dict[str, float]:
    """Return the proven bounds by measure, in seconds and joules; of an instance with prices that of the bill."""
    if instance.billing is not None:
        return {BILL: proven_bill(instance, certificates[BILL])}
    ticks = len(instance) * instance.tick_hz
    least, released = int(instance.least(instance.run).sum()), int(instance.release_up.sum())
    ends = max(certificates[TURNAROUND].ticks(instance), int(instance.release.sum()) + least)
    starts = certificates[WAIT].ticks(instance) if WAIT in certificates else ends - least
    return {
        TURNAROUND: (ends - released) / ticks,
        WAIT: max(starts - released, 0) / ticks,
        MAKESPAN: makespan_ticks(instance) / instance.tick_hz,
        ENERGY: int(instance.least(instance.energy_mj).sum()) / 1_000,
    }


def stored(proofs: Sequence[Proof]) -> dict[str, Any]:
    """Return the content of a file of certificates."""
    return {"format": FORMAT, "proofs": [proof.values() for proof in proofs]}


def proven_again(content: Any, where: str) -> list[Proof]:
    """Return the proofs of a file, each number proven again. Raises: InputError for a file that is none, or damaged."""
    if not isinstance(content, dict) or content.get("format") != FORMAT or not isinstance(content.get("proofs"), list):
        raise InputError("holds no certificates of bounds", where=where, hint="wattqueue bound JOBS --out FILE")
    return [Proof.of_values(_mapping(each, where), where) for each in content["proofs"]]


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Return a mapping. Raises: InputError for anything else."""
    if not isinstance(value, dict):
        raise InputError("is damaged: a proof is no table", where=where, hint="compute the bound again")
    return value


def _certificate(values: Mapping[str, Any]) -> Certificate:
    """Return a certificate from plain values."""
    own: dict[str, Any] = {
        key: operator.index(value) if key in ("resource", "unit") else _whole(value)
        for key, value in values["own"].items()
    }
    price = _whole(values["price"])
    return Certificate(
        int(values["shift"]), _whole(values["edge"]), price, OwnPrices(**own), Objective(**values["objective"])
    )


def _whole(values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return whole numbers as an array. Raises: ValueError for others."""
    found = np.array(values)
    if found.size and found.dtype != np.int64:
        raise ValueError("numbers must be whole, and fit 64 bits")
    return found.astype(np.int64)
