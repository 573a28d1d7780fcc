"""The month's page of job energies in a headless Chromium."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.test_job_energy_cli import RECORD
from tests.report.chromium import Browser
from wattqueue.report.job_energy import document

pytestmark = [pytest.mark.browser, pytest.mark.compiled]  # what a browser shows depends on no kernel


@pytest.mark.parametrize("width", [1280, 400])
def test_a_month_on_a_telephone_is_a_line_for_each_and_folds_its_jobs(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    """As seen: 150 jobs were 9,900 px of a telephone, two lines for each."""
    records = [replace(RECORD, job=str(k), project="climate" if k % 2 else "", account="ab"[k % 2]) for k in range(40)]
    (tmp_path / "month.html").write_text(document("Energy", "all users", records, str).html(), encoding="utf-8")
    browser.open(tmp_path / "month.html", width=width)
    assert browser.errors() == []
    assert browser.js("[...document.querySelectorAll('h2')].map((e) => e.textContent.trim())")[:2] == [
        "Accounts", "Projects",
    ]  # fmt: skip
    assert browser.js("[...document.querySelectorAll('#jobs thead th')].at(-1).textContent") == "A lower clock"
    assert browser.js("document.documentElement.scrollWidth") <= width
    rows = "[...document.querySelectorAll('.figures > :first-child tbody tr')].map((e) => e.offsetHeight)"
    if width == 400:
        assert browser.js("document.body.scrollHeight") < 1_000
        assert all(height < 60 for height in browser.js(rows))
