"""Properties are tried on the same examples in every run of the fast suite."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profiles import PROFILE


def drawn() -> list[int]:
    """The examples of a property."""
    found: list[int] = []

    @settings(max_examples=400)
    @given(st.integers(0, 2**40))
    def note(value: int) -> None:
        found.append(value)

    note()
    return found


@pytest.mark.skipif(not settings.get_profile(PROFILE).derandomize, reason="this profile draws other examples each time")
def test_examples_are_the_same_whatever_was_imported_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    (tmp_path / "full_of_numbers.py").write_text(f"NUMBERS = {list(range(1_000_003, 1_003_000, 7))}\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("full_of_numbers")
    assert drawn() == before
