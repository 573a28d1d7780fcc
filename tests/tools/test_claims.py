"""What the documents say of the five papers follows from the claims files and the recorded outcomes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tools.claims import (
    BEGIN,
    END,
    EVERY,
    OUTCOMES,
    OWN,
    PAGES,
    SUMMARIES,
    count,
    judged,
    outcomes,
    record,
    studies,
    written,
)
from tools.packages import ROOT
from wattqueue_studies.frame.claim import Verdict

TOLD = studies()


def test_every_study_of_a_paper_has_a_page_and_an_outcome() -> None:
    assert set(TOLD) == {*PAGES, *OWN}
    assert {path.stem for path in (ROOT / OUTCOMES).glob("*.json")} == {*PAGES, *OWN}


@pytest.mark.parametrize("name", [*PAGES, *OWN])
def test_an_outcome_has_the_claims_of_its_study(name: str) -> None:
    """A claim that is added, or taken away, asks for another run of the study."""
    for outcome in outcomes(name, TOLD[name]):
        assert [row.claim.key for row in outcome.table.rows] == [c.claim.key for c in TOLD[name].claims], outcome.label


def test_the_documents_say_what_follows() -> None:
    """``python -m tools.claims`` renews them."""
    for path, text in written().items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, path
    assert {*SUMMARIES, EVERY} < set(written())


def test_a_changed_tolerance_changes_the_count(tmp_path: Path) -> None:
    """Verdicts are not recorded: they follow from the claims as they are."""
    told = TOLD["epas"]
    claim = next(c.claim for c in told.claims if c.claim.published == -15)
    row = {"key": claim.key, "ours": -10.0, "low": -11.0, "high": -9.0, "draws": 5}
    assert count([judged(told, [row])]) == Counter({Verdict.SAME_DIRECTION: 1})
    assert count([judged(told, [{**row, "ours": -15.0, "low": -15.5, "high": -14.5}])])[Verdict.REPRODUCED] == 1
    none = {"key": claim.key, "ours": None, "low": None, "high": None, "draws": 5, "reason": "other work"}
    (judgement,) = judged(told, [none]).rows
    assert (judgement.verdict, judgement.reason) == (Verdict.NOT_COMPARABLE, "Other work")


def test_a_run_is_recorded_beside_its_variants(tmp_path: Path) -> None:
    row = {"key": "k", "ours": 1.0, "low": None, "high": None, "draws": None, "reason": "within", "claim": "text"}
    record({"study": "s", "claims": [row], "claims_easy": [{**row, "ours": None}]}, root=tmp_path)
    record({"study": "s", "claims": [{**row, "ours": 2.0}]}, "whole nodes", root=tmp_path)
    kept = json.loads((tmp_path / OUTCOMES / "s.json").read_text(encoding="utf-8"))
    assert list(kept) == ["", "EASY", "whole nodes"]
    assert kept[""] == [{"key": "k", "ours": 1.0, "low": None, "high": None, "draws": None}]
    assert kept["EASY"][0]["reason"] == "within"
    assert kept["whole nodes"][0]["ours"] == 2.0


def test_text_around_a_block_stays() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert written()[Path("README.md")].partition(BEGIN)[0] == text.partition(BEGIN)[0]
