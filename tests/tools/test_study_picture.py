"""The picture of the study of combined: it names what it shows, and is the same each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="needs the extra plot")

from tools.study_picture import draw
from wattqueue_studies.combined.ingredients import ALL, BASE, INGREDIENTS

ROWS = (BASE, *INGREDIENTS, ALL, *(f"all without {each}" for each in INGREDIENTS))


def study() -> dict[str, Any]:
    """Figures as ``study.json`` has them."""
    change = {"mean": -3.0, "low": -5.0, "high": -1.0}
    site = [
        {"policy": name, "metric": metric, "values": [unit * (1.0 + 0.1 * k), unit * (1.2 + 0.1 * k)]}
        for k, name in enumerate(ROWS)
        for metric, unit in (("energy_j", 3.6e9), ("wait_s", 3_600.0))
    ]
    return {"verdicts": [{"scenario": f"paper {k}: a", "change_percent": change} for k in range(1, 6)], "site": site}


def test_the_picture_names_what_it_shows(tmp_path: Path) -> None:
    draw(study(), tmp_path / "one.svg")
    draw(study(), tmp_path / "two.svg")
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert all(f">paper {k}<" in text for k in range(1, 6))
    assert all(f">{name}<" in text for name in (BASE, ALL, *INGREDIENTS, *(f"- {each}" for each in INGREDIENTS)))
    assert text == (tmp_path / "two.svg").read_text(encoding="utf-8")
