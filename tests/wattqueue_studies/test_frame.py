"""The frame of studies: the rule of the verdicts by hand, intervals, corrections, and tables that fit a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.wattqueue_studies.equal_work import equal_work
from wattqueue.errors import InputError
from wattqueue.report.compare.stats import Estimate, with_interval
from wattqueue.report.document import Prose, Table, wrapped
from wattqueue_studies import POLICIES
from wattqueue_studies.frame.claim import Claim, ClaimTable, Judged, Verdict
from wattqueue_studies.frame.compare import ComparisonTable, compare, holm
from wattqueue_studies.frame.published import Published, published
from wattqueue_studies.frame.samples import Trial, change, resampled, sweep

MINUS_20 = Claim("k", "policy over base: energy", "5.1", -20.0)  # band: -22.5 to -17.5


def verdict(claim: Claim, low: float | None, high: float | None, mean: float | None = None) -> Verdict:
    middle = mean if mean is not None else ((low or 0.0) + (high or 0.0)) / 2
    return Judged(claim, Estimate(1 if low is None else 30, middle, low, high)).verdict


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-21.0, -18.0, Verdict.REPRODUCED),
        (-22.6, -18.0, Verdict.SAME_DIRECTION),  # one end outside the band
        (-10.0, -5.0, Verdict.SAME_DIRECTION),
        (-60.0, -50.0, Verdict.SAME_DIRECTION),
        (-30.0, 5.0, Verdict.UNDECIDED),  # reaches the band, and includes no change
        (-10.0, 5.0, Verdict.NOT_REPRODUCED),  # neither in the band nor on one side
        (5.0, 10.0, Verdict.NOT_REPRODUCED),
    ],
)
def test_the_verdict_depends_on_where_the_whole_interval_lies(low: float, high: float, expected: Verdict) -> None:
    assert verdict(MINUS_20, low, high) is expected
    mirrored = Claim("k", "t", "5", 20.0)
    assert verdict(mirrored, -high, -low) is expected


def test_a_single_draw_shows_nothing_whatever_its_sign() -> None:
    assert verdict(MINUS_20, None, None, mean=-20.0) is Verdict.UNDECIDED
    assert Judged(MINUS_20, Estimate(1, -20.0), certain=True).verdict is Verdict.REPRODUCED
    assert Judged(MINUS_20, Estimate(1, 3.0), certain=True).verdict is Verdict.NOT_REPRODUCED


def test_a_share_has_no_direction() -> None:
    share = Claim("k", "t", "5", 55.0, reference=None, tolerance=3.0)
    assert verdict(share, 54.0, 57.0) is Verdict.REPRODUCED
    assert verdict(share, 57.0, 59.0) is Verdict.UNDECIDED
    assert verdict(share, 70.0, 75.0) is Verdict.NOT_REPRODUCED


def test_no_effect_has_no_side() -> None:
    comparable = Claim("k", "t", "5.3, comparable", 0.0, tolerance=5.0)
    assert verdict(comparable, -4.0, 4.9) is Verdict.REPRODUCED
    assert verdict(comparable, -21.0, -18.0) is Verdict.NOT_REPRODUCED
    assert verdict(comparable, -8.0, -2.0) is Verdict.UNDECIDED


def test_a_direction_without_a_figure() -> None:
    better = Claim("k", "t", "6", direction=-1)
    assert verdict(better, -5.0, -1.0) is Verdict.REPRODUCED
    assert verdict(better, 1.0, 5.0) is Verdict.NOT_REPRODUCED
    assert verdict(better, -1.0, 5.0) is Verdict.UNDECIDED
    assert Judged(better, Estimate(3, -3.0, -5.0, -1.0)).difference is None


def test_what_cannot_be_compared_is_not_and_says_why() -> None:
    fitted = Claim("k", "t", "5", -20.0, forbids="fitted to it", finding="unknown")
    judged = Judged(fitted, Estimate(30, -20.0, -20.1, -19.9))
    assert judged.verdict is Verdict.NOT_COMPARABLE
    assert judged.reason == "Fitted to it. unknown"


def claim_table() -> ClaimTable:
    far = Claim("b", "a <b> over the base: response, on a workload with a long name", "5.2, up to", -2.0, finding="why")
    return ClaimTable(
        [Judged(MINUS_20, Estimate(5, -20.0, -21.0, -19.0)), Judged(far, Estimate(5, 8.0, 7.0, 9.5))], "seeds"
    )


def test_one_table_has_three_forms() -> None:
    table = claim_table()
    text = "\n".join(table.lines())
    assert "reproduced" in text
    assert "-20.0 ±1.0" in text
    assert "+8.0 [+7.0, +9.5]" in text
    assert "why" in text
    assert text.count("Within") == 0  # of what is reproduced no reason is printed
    page = table.html()
    assert "a &lt;b&gt; over" in page
    assert page.count("<tr>") == 3
    rows = json.loads(json.dumps(table.document(), allow_nan=False))
    assert [row["verdict"] for row in rows] == ["reproduced", "not reproduced"]
    assert [row["difference"] for row in rows] == [0.0, 10.0]
    assert rows[0]["tolerance"] == 2.5
    assert rows[1]["reason"].endswith("why")
    assert table.summary == "2 claims: 1 reproduced, 1 not reproduced"


def rows_of(*claims: tuple[Claim, float]) -> ClaimTable:
    return ClaimTable([Judged(claim, Estimate(5, at, at - 0.1, at + 0.1)) for claim, at in claims], "seeds")


def test_a_claim_with_several_rows_counts_once_with_the_least_favourable() -> None:
    row = replace(MINUS_20, statement="all points")
    table = rows_of((row, -20.0), (replace(row, key="l"), -10.0), (replace(MINUS_20, key="m"), -20.0))
    assert [(len(rows), verdict) for rows, verdict in table.counted()] == [
        (2, Verdict.SAME_DIRECTION),
        (1, Verdict.REPRODUCED),
    ]
    assert table.summary == "2 claims: 1 reproduced, 1 same direction"
    assert 'One claim, "all points" (2 rows): same direction.' in " ".join(" ".join(table.lines()).split())
    assert rows_of((row, -20.0), (replace(row, key="l"), 10.0)).counted()[0][1] is Verdict.NOT_REPRODUCED


def test_what_holds_by_construction_is_shown_and_not_counted() -> None:
    sure = replace(MINUS_20, by_construction="calibrated on it")
    table = rows_of((sure, -20.0), (replace(MINUS_20, key="l", forbids="another machine"), -20.0))
    assert [row.verdict for row in table.rows] == [Verdict.BY_CONSTRUCTION, Verdict.NOT_COMPARABLE]
    assert table.summary == "0 claims (not counted: 1 not comparable, 1 by construction)"
    assert "Calibrated on it" in "\n".join(table.lines())
    # beside a row that can fail, that row decides
    both = rows_of((replace(sure, statement="s"), -20.0), (replace(MINUS_20, key="l", statement="s"), 3.0))
    assert [verdict for _, verdict in both.counted()] == [Verdict.NOT_REPRODUCED]


def test_a_fitted_constant_is_no_reproduction() -> None:
    plain, fitted = replace(MINUS_20, statement="s"), replace(MINUS_20, key="f", statement="s", fitted="load 1")
    assert rows_of((plain, -10.0), (fitted, -20.0)).summary == "1 claim: 1 with a fitted constant"
    assert rows_of((plain, -20.0), (fitted, -20.0)).summary == "1 claim: 1 reproduced"
    assert rows_of((plain, -10.0), (fitted, 10.0)).summary == "1 claim: 1 same direction"
    assert rows_of((fitted, -10.0)).counted()[0][1] is Verdict.SAME_DIRECTION


def test_tables_fit_a_terminal() -> None:
    names = ["a-policy-with-a-long-name over another one, on this machine", "b"]
    rows = [[name, *(f"{k}.123 ±4.5" for k in range(9))] for name in names]
    table = Table(["policy", *(f"metric {k}" for k in range(9))], rows, "A title " * 20, "A note. " * 20)
    lines = list(table.lines())
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("policy") for line in lines) == 3
    assert all(sum(f" {k}.123" in line for line in lines) == 2 for k in range(9))


def test_lines_are_not_broken_between_a_number_and_its_unit() -> None:
    assert wrapped("x" * 5 + " 13 %", 8) == ["xxxxx", "13 %"]


@pytest.mark.parametrize(
    ("found", "sign", "text"),
    [
        (Estimate(4, -0.01, -0.03, 0.01), "", "0.0 ±0.0"),
        (Estimate(4, -0.01, -0.03, 0.01), "+", "+0.0 ±0.0"),
        (Estimate(4, 1.0, -0.01, 4.0), "+", "+1.0 [+0.0, +4.0]"),
        (Estimate(4, -3.0, -3.5, -2.5), "+", "-3.0 ±0.5"),
        (Estimate(1, -0.02, None, None), "", "0.0"),
    ],
)
def test_a_mean_that_rounds_to_nothing_has_no_minus(found: Estimate, sign: str, text: str) -> None:
    assert with_interval(found, sign) == text


def test_a_sweep_is_the_same_with_any_number_of_threads() -> None:
    def draw(scale: float, seed: int) -> Trial:
        base = float(np.random.default_rng(seed).normal()) * scale

        def trial(policy: str) -> Mapping[str, float]:
            return {"m": base + len(policy), "n": 1.0}

        return trial

    seen: list[tuple[int, int]] = []
    settings = {"one": 1.0, "ten": 10.0}
    one = sweep(draw, settings, ("a", "bb"), range(4), threads=1, progress=lambda *at: seen.append(at), scores=True)
    two = sweep(draw, settings, ("a", "bb"), range(4), threads=3, scores=True)
    assert seen[-1] == (16, 16)
    assert list(one.values) == list(two.values)
    assert all((one.values[key] == two.values[key]).all() for key in one.values)
    np.testing.assert_allclose(one.of("ten", "bb", "m") - one.of("ten", "a", "m"), 1.0)
    assert one.grid("a", "m").shape == (4, 2)
    with pytest.raises(InputError):
        sweep(draw, settings, ("a",), ())


def test_a_change_is_that_of_the_means_with_the_interval_of_the_pairs() -> None:
    base, own = np.array([10.0, 20.0, 30.0]), np.array([9.0, 19.0, 27.0])
    found = change(own, base)
    assert found.mean == pytest.approx(100 * (55 / 60 - 1))
    pairs = np.array([-10.0, -5.0, -10.0])
    half = 4.302653 * pairs.std(ddof=1) / np.sqrt(3)  # Student's t, 2 degrees of freedom
    assert found.low == pytest.approx(found.mean - half, rel=1e-6)
    assert found.high == pytest.approx(found.mean + half, rel=1e-6)
    assert change(own[:1], base[:1]).low is None


def test_a_bootstrap_resamples_whole_draws() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(40, 1)) + np.zeros((40, 13))  # settings of a draw are copies: they add no knowledge
    found = resampled(values, lambda v: float(np.median(v)))
    alone = resampled(values[:, :1], lambda v: float(np.median(v)))
    assert found == alone
    assert found.low is not None
    assert found.low < found.mean < (found.high or -9)


def test_holm_by_hand() -> None:
    assert holm([0.01, None, 0.04, 0.03, 0.005]) == pytest.approx([0.03, None, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]


def test_a_comparison_among_many_needs_more() -> None:
    rng = np.random.default_rng(5)
    base = rng.normal(100.0, 5.0, 10)
    values = {("s", "base", "m"): base, ("s", "sure", "m"): base - 3 + rng.normal(0, 0.3, 10)}
    names = [f"noise-{k}" for k in range(60)]
    values |= {("s", name, "m"): base + rng.normal(0, 1.0, 10) for name in names}
    rows = compare(equal_work(values), [("sure", "base"), *((name, "base") for name in names)], ["m"])
    assert sum((row.changes["m"].p or 1) < 0.05 for row in rows) > 2  # some of the noise, uncorrected
    table = ComparisonTable.of(rows, {"m": "metric"}, ["m"], "t")
    assert [row.policy for row in table.rows if row.better(["m"]) == "yes"] == ["sure"]
    assert "61 tests" in " ".join(" ".join(table.lines()).split())
    assert table.document()[0]["m"]["p"] < table.document()[0]["m"]["p_holm"]


def test_a_report_is_text_page_and_json() -> None:
    claims = claim_table()
    table = Table(("policy", "x"), [["a & b", "1"]], "Of policies")
    notes = Prose("Notes", ["n"])
    study = Published("s", "T", "Paper 0", [], "seeds", {})
    report = study.report(
        claims, about="a machine", lede="Found.", parts=[table], more=[notes], figures={"x": 1}, notes=["read"]
    )
    lines = list(report.lines())
    assert lines[0] == "Paper 0: a machine"
    assert lines.index("Of policies") < lines.index(next(line for line in lines if line.startswith("Published")))
    page = report.html()
    assert page.index('id="claims"') < page.index("a &amp; b")
    assert report.document()["claims"] == claims.document()
    assert report.document()["x"] == 1


@pytest.mark.parametrize("package", [path.parent.name for path in sorted(POLICIES.parent.glob("*/claims.toml"))])
def test_claims_of_every_study_can_be_read(package: str) -> None:
    told = published(f"wattqueue_studies.{package}")
    keys = [c.claim.key for c in told.claims]
    assert len(set(keys)) == len(keys) > 2
    assert all(c.claim.source and c.claim.text for c in told.claims)
    assert all((c.claim.published is None) == bool(c.claim.direction) for c in told.claims)
