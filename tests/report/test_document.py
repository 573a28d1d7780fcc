"""The page as text: complete, self-contained, safe, small."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.report.cases import by_hand, generated, generated_record
from wattqueue.formats.rundir.folder import read_run, write_run
from wattqueue.model.jobs import Labels
from wattqueue.model.machine import plain_machine
from wattqueue.model.signals import Cap
from wattqueue.report import provenance
from wattqueue.report.figures import gantt
from wattqueue.report.load import load, of_record
from wattqueue.report.payload import encode_grid, pack
from wattqueue.report.run import RunData
from wattqueue.report.run_page import report


class Outline(HTMLParser):
    """Tags that were opened, ids, and what the page would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.described: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        have = dict(attrs)
        if have.get("id"):
            self.ids.append(str(have["id"]))
        self.fetched += [str(v) for k, v in attrs if k in ("src", "srcset", "data", "poster")]
        if tag == "link":
            self.fetched.append(str(have.get("href")))
        if tag == "a":
            self.links.append(str(have["href"]))
        if have.get("aria-describedby"):
            self.described.append(str(have["aria-describedby"]))


def payload(page: str) -> dict[str, Any]:
    hit = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert hit is not None
    found: dict[str, Any] = json.loads(hit[1])
    return found


@pytest.fixture(scope="module")
def page() -> str:
    return report(by_hand(Cap.constant(2500.0)))


def test_nothing_is_fetched_and_every_link_has_a_target(page: str) -> None:
    outline = Outline(page)
    assert outline.fetched == []
    assert len(set(outline.ids)) == len(outline.ids)
    assert {link.removeprefix("#") for link in outline.links} <= set(outline.ids)
    assert set(outline.described) <= set(outline.ids)
    assert "default-src 'none'" in page


def test_every_picture_has_labels_units_a_sentence_and_data(page: str) -> None:
    figures = payload(page)["figures"]
    assert [f["key"] for f in figures] == ["power", "gantt", "queue", "wait", "slowdown", "prediction", "users"]
    for figure in figures:
        assert figure["x"]["label"], figure["key"]
        assert figure["y"]["label"], figure["key"]
        assert figure["says"].endswith((".", "it.")), figure["key"]
        assert figure["columns"], figure["key"]
        assert any(name in figure["columns"] for name in figure["heads"]), figure["key"]
    assert figures[0]["y"]["label"] == "power (kW)"


def test_the_page_says_what_was_measured_generated_and_predicted(page: str) -> None:
    for kind in ("generated", "simulated", "predicted", "stated"):
        assert f'<span class="kind {kind}">' in page
    assert '<span class="kind measured">' not in page  # by_hand is labelled generated
    assert "estimator history-mean" in page
    assert "two-speeds: typed in for a test" in page


def test_a_run_without_watts_has_no_picture_of_them_and_says_so() -> None:
    record = generated_record(300, 16)
    none = np.zeros_like(record.power.time_s)
    dark = replace(record.power, jobs_w=none, other_w=none, busy_idle_w=none)
    bare = replace(
        record,
        jobs=replace(record.jobs, mean_power_w=None),
        machine=plain_machine(16),
        cap=Cap.none(),
        schedule=replace(record.schedule, energy_j=np.zeros(300)),
        power=dark,
    )
    page = report(of_record(bare))
    found = {figure["key"]: figure for figure in payload(page)["figures"]}
    assert list(found) == ["gantt", "queue", "wait", "slowdown"]
    assert found["gantt"]["extra"]["power"] is None
    assert " W" not in found["gantt"]["says"]
    assert '<span class="kind unknown">' in page
    assert "--node-watts IDLE:MAX" in page
    assert '<span class="kind predicted">' not in page


def test_watts_are_called_the_machines_where_the_trace_has_none(tmp_path: Path) -> None:
    record = generated_record(50, 16)
    bare = replace(record, jobs=replace(record.jobs, mean_power_w=None, origin="measured"))
    write_run(tmp_path / "bare", bare)
    write_run(tmp_path / "full", replace(record, jobs=replace(record.jobs, origin="measured")))
    # jobs.csv holds what each job drew in either case; the word in run.toml tells whose figure it was.
    kinds = {name: {s.what: s.kind for s in provenance.sources(load(tmp_path / name))} for name in ("bare", "full")}
    assert kinds["bare"]["Watts of jobs"] == "stated"
    assert kinds["full"]["Watts of jobs"] == "measured"
    assert {s.what: s.kind for s in provenance.sources(of_record(bare))} == kinds["bare"]
    write_run(tmp_path / "again", read_run(tmp_path / "bare"))
    assert provenance.sources(load(tmp_path / "again")) == provenance.sources(load(tmp_path / "bare"))


def test_generated_jobs_are_never_called_measured() -> None:
    for source in provenance.sources(by_hand()):
        assert source.kind != "measured", source


def test_the_headline_counts_what_ran_and_what_the_cap_did(page: str) -> None:
    text = page.replace("\u00a0", " ")
    assert "<h1>EASY under a cap of 2.5 kW, estimator history-mean</h1>" in text
    lede = re.search(r'<p class="lede">(.*?)</p>', text)
    assert lede is not None
    assert all(figure in lede[1] for figure in ("<strong>3 jobs</strong>", "10 nodes", "3 min 30 s", "30 s</strong>"))
    assert "<strong>was exceeded for 60 s</strong>" in text
    assert "<strong>1 of 4 jobs never ran (too wide).</strong>" in text


def test_names_from_outside_cannot_break_out_of_the_page() -> None:
    bad = "</script><script>alert(1)</script>"
    run = by_hand()
    jobs = replace(run.jobs, user=Labels.of([bad, "bob", bad, "x"]))
    page = report(replace(run, jobs=jobs, about=replace(run.about, workload=bad, policy=bad, machine=bad)))
    assert "<script>alert" not in page
    assert bad in payload(page)["figures"][1]["extra"]["users"]


def test_the_page_is_repeatable() -> None:
    assert report(generated(300)) == report(generated(300))


def test_a_run_in_which_nothing_ran_still_has_a_page() -> None:
    run = by_hand()
    nothing = np.full(len(run.jobs), np.nan)
    empty = replace(
        run,
        start_s=nothing,
        end_s=nothing,
        unit_w=nothing,
        state=np.zeros(len(run.jobs), np.int8),
        placed=replace(run.placed, job=run.placed.job[:0], low=run.placed.low[:0], high=run.placed.high[:0]),
    )
    page = report(empty)
    assert "None of 4 jobs ran." in page.replace("\u00a0", " ")
    assert "No job ran." in page


def test_vendored_echarts_carries_licence_and_notice() -> None:
    vendor = files("wattqueue.report").joinpath("vendor")
    assert "Apache License" in vendor.joinpath("echarts-LICENSE").read_text(encoding="utf-8")
    assert "Apache Software Foundation" in vendor.joinpath("echarts-NOTICE").read_text(encoding="utf-8")
    assert "Mike Bostock" in vendor.joinpath("echarts-LICENSE-d3").read_text(encoding="utf-8")
    library = vendor.joinpath("echarts.min.js").read_text(encoding="utf-8")
    assert "</script" not in library
    assert library.lstrip().startswith("/*")
    version = re.search(r'version="(\d+\.\d+\.\d+)"', library)
    assert version is not None
    assert f"ECharts](https://echarts.apache.org/) {version[1]}," in vendor.joinpath("README.md").read_text("utf-8")


def unpack(packed: dict[str, str]) -> np.ndarray:
    return np.frombuffer(b64decode(packed["data"]), "<" + packed["type"])


def test_packed_columns_come_back() -> None:
    watts = np.array([1.5, np.nan, 3e5])
    assert pack(watts)["type"] == "f4"
    np.testing.assert_allclose(unpack(pack(watts)), watts)
    late = np.array([1.2e9 + 0.125, 1.2e9 + 0.25])
    assert unpack(pack(late)).tolist() == late.tolist()
    assert unpack(pack(np.array([3, 70_000], np.int32))).tolist() == [3, 70_000]


def test_packed_grid_comes_back_within_a_level() -> None:
    run = generated(2_000, 16)
    figure = gantt.figure(run)
    grid = gantt.grid(run, gantt.rectangles(run), gantt.top_users(run))
    packed = encode_grid(grid, figure.extra)
    planes = np.frombuffer(zlib.decompress(b64decode(packed["planes_deflated"])), np.uint8)
    planes = planes.reshape(len(packed["planes"]), packed["rows"], packed["columns"])
    named = dict(zip(packed["planes"], planes, strict=True))
    busy = named["busy"] / packed["levels"]
    assert np.abs(busy - grid.busy).max() <= 1 / packed["levels"] + 1e-9
    assert ((busy > 0) == (grid.busy > 1e-9)).mean() > 0.999
    low, high = figure.extra["power"]
    seen = (named["unit_w"] > 0) & (grid.unit_w >= low) & (grid.unit_w <= high)
    watts = low + (named["unit_w"] - 1.0) / (packed["levels"] - 1) * (high - low)
    assert np.abs(watts - grid.unit_w)[seen].max() <= (high - low) / (packed["levels"] - 1)


@pytest.mark.slow
def test_half_a_million_jobs_fit_in_five_megabytes() -> None:
    run: RunData = generated(500_000, 980)
    page = report(run)
    assert len(page.encode()) < 5_000_000
    assert "500,000 jobs" in page.replace("\u00a0", " ")
