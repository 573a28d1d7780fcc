"""Misfits: found, matched with what the job really is, given its frequency, and followed up."""

from pathlib import Path

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue.formats.ear.files import read_apps_csv, read_coefficients_csv
from wattqueue.model.app_check import Consequence, Ladder, Tolerance, better_frequency, distances, judge
from wattqueue.model.ear import Coefficients, Signatures, at_frequency

COMPUTE = (0.6, 0.01, 350.0)
MEMORY = (4.5, 60.0, 380.0)


def metrics(*rows: tuple[float, float, float]) -> Signatures:
    cpi, tpi, power = np.array(rows).T
    return Signatures.of(np.ones(len(rows)), power, cpi, tpi)


def test_distance_is_the_worst_metric_in_tolerances() -> None:
    away = distances(metrics((0.66, 0.5, 385.0)), metrics(COMPUTE, MEMORY), Tolerance())
    assert away[0] == pytest.approx(max(0.06 / 0.12, 0.49 / 1.0, 35 / 70))
    assert away[1] == pytest.approx(max(3.84 / 0.9, 59.5 / 12, 5 / 76))


def test_a_job_that_is_what_it_says_fits() -> None:
    verdict = judge(metrics((0.62, 0.02, 340.0)), metrics(COMPUTE, MEMORY), claimed=0)
    assert verdict.fits
    assert verdict.found == 0


def test_a_job_that_claims_another_application_is_found_out() -> None:
    verdict = judge(metrics((4.4, 58.0, 376.0)), metrics(COMPUTE, MEMORY), claimed=0)
    assert not verdict.fits
    assert verdict.found == 1
    nothing_known = judge(metrics((2.0, 20.0, 376.0)), metrics(COMPUTE, MEMORY), claimed=0)
    assert not nothing_known.fits
    assert nothing_known.found == -1


def test_an_application_without_an_entry_claims_nothing() -> None:
    unknown = metrics((np.nan, np.nan, np.nan), MEMORY)
    assert judge(metrics((4.4, 58.0, 376.0)), unknown, claimed=0).fits
    named_none = judge(metrics((4.4, 58.0, 376.0)), unknown, claimed=-1)
    assert named_none.fits
    assert named_none.found == 1


def test_on_real_applications_each_fits_itself_at_every_frequency(data_dir: Path) -> None:
    table = read_coefficients_csv(data_dir / "eamc/eamc_coefficients_tidy.csv")["p1"]
    apps = read_apps_csv(data_dir / "eamc/eamc_apps.csv")[1][0]
    for hz in table.targets_hz(table.nominal_hz):
        expected = at_frequency(table, apps, table.nominal_hz, float(hz))
        for i in range(8):
            one = Signatures(*(getattr(expected, c)[i : i + 1] for c in ("time_s", "power_w", "cpi", "tpi")))
            assert judge(one, expected, claimed=i).fits
    stream = Signatures(*(getattr(apps, c)[7:] for c in ("time_s", "power_w", "cpi", "tpi")))
    # STREAM under the name of ep.D, which runs at 2.5 GHz: eq. 4 takes it down to 1.2.
    at_2_5 = at_frequency(table, stream, table.nominal_hz, 2.5e9)
    expected = at_frequency(table, apps, table.nominal_hz, 2.5e9)
    verdict = judge(at_2_5, expected, claimed=1)
    assert not verdict.fits
    assert verdict.found == 7
    assert better_frequency(at_2_5, table, 2.5e9) == pytest.approx(1.2e9)


def test_without_coefficients_the_frequency_stays() -> None:
    bare = Coefficients.of_pairs([2e9, 1e9], [2e9, 1e9], [1, 0], [[1.0, 0, 0, 1, 0, 0], [0.0] * 6])
    assert better_frequency(metrics(COMPUTE), bare, 1e9) == 1e9
    assert better_frequency(metrics(COMPUTE), bare, 2e9) == 2e9


def test_consequences_are_a_ladder_that_can_be_set() -> None:
    assert [Ladder().consequence(n) for n in range(5)] == [
        Consequence.NONE, Consequence.WARNING, Consequence.WARNING, Consequence.LOWER_PRIORITY,
        Consequence.LOWER_PRIORITY,
    ]  # fmt: skip
    strict = Ladder(warning=0, lower_priority=0, no_choice=2)
    assert [strict.consequence(n) for n in range(3)] == [Consequence.NONE, Consequence.NONE, Consequence.NO_CHOICE]
    assert Ladder(0, 0, 0).consequence(99) == Consequence.NONE


def test_figures_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        Tolerance(share=0.0)
    assert caught.value.where == "tolerances"
    with pytest.raises(InputError) as caught:
        Ladder(warning=-1)
    assert caught.value.where == "ladder of consequences"
