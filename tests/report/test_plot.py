"""Figures for papers: SVG, PDF and PNG of every kind, the data beside them, identical files when repeated."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from tests.report.cases import by_hand, generated
from wattqueue.errors import InputError
from wattqueue.model.signals import Cap
from wattqueue.report import plot
from wattqueue.report.run_page import pictures

pytest.importorskip("matplotlib", reason="needs matplotlib (extra plot)")
RUNS = {"few": by_hand(Cap.constant(2500.0)), "many": generated(11_000, 32, cap_share=0.9)}


def words_of(svg: bytes) -> str:
    return " ".join(t for e in ET.fromstring(svg).iter() for t in [e.text or ""] if t.strip())  # noqa: S314  our own


@pytest.mark.parametrize("name", RUNS)
def test_every_figure_is_drawn_with_its_labels(name: str) -> None:
    for figure, kind in pictures(RUNS[name]):
        svg = plot.render(figure, kind, "svg")
        text = words_of(svg)
        assert figure.x.label in text, figure.key
        assert figure.y.label in text, figure.key
        assert len(svg) < 3_000_000, figure.key
        assert svg == plot.render(figure, kind, "svg"), f"{figure.key}: other bytes the second time"


@pytest.mark.parametrize(("form", "magic"), [("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_other_formats(form: str, magic: bytes) -> None:
    figure, kind = pictures(RUNS["few"])[0]
    assert plot.render(figure, kind, form).startswith(magic)


def test_data_beside_a_figure_is_its_columns() -> None:
    cap = Cap(np.array([-np.inf, 1150.0]), np.array([2500.0, np.inf]))
    figure, _ = pictures(by_hand(cap))[0]
    rows = list(csv.DictReader(io.StringIO(plot.data_csv(figure))))
    assert list(rows[0]) == list(figure.columns)
    assert [float(r["power_max_w"]) for r in rows] == figure.columns["power_max_w"].tolist()
    assert [r["cap_w"] for r in rows] == ["2500.0", "2500.0", "2500.0", "inf", "inf"]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        plot.chosen("power,pie", ("power", "gantt"), "figure")
    assert caught.value.where == "--only"
    assert "'pie'" in caught.value.what
    assert plot.chosen("svg, pdf", plot.FORMATS, "format") == ["svg", "pdf"]


def test_matplotlib_is_not_loaded_for_the_page() -> None:
    look = "import sys, wattqueue.report.run_page, wattqueue.report.plot; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
