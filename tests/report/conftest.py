"""A browser for all tests of pages, skipped with the reason where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.report import chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[chromium.Browser]:
    program = chromium.find()
    if program is None:
        pytest.skip(f"needs a Chromium: none of {', '.join(chromium.NAMES)} is installed")
    with chromium.browser(program) as opened:
        yield opened
