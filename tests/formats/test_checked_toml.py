"""TOML read into models: the nearest key of the very table in which a misspelt one stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import Field

from wattqueue.errors import InputError
from wattqueue.formats.checked_toml import Section, StrictTable, known_keys, read_model


class Window(StrictTable):
    begins: list[float] = Field(default_factory=list)
    length: float = 1.0


class Source(StrictTable):
    path: str
    window: Window | None = None
    weight: float = 1.0


class Whole(StrictTable):
    name: str
    sources: list[Source] = Field(default_factory=list)
    by_name: dict[str, Source] = Field(default_factory=dict)


class Loose(Section):
    period_s: float


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("nam = 'a'", "unknown key nam", "did you mean name?"),
        ("name = 'a'\n[[sources]]\npth = 'x'", "unknown key sources[1].pth", "did you mean path?"),
        (
            "name = 'a'\n[by_name.one]\npath = 'x'\nwegiht = 1.0",
            "unknown key by_name.one.wegiht",
            "did you mean weight?",
        ),
        (
            "name = 'a'\n[by_name.name]\npath = 'x'\n[by_name.name.window]\nlenght = 1.0",
            "lenght",
            "did you mean length?",
        ),
        (
            "name = 'a'\n[[sources]]\npath = 'x'\nweight = nan",
            "sources[1].weight = nan: must be finite",
            "correct the value",
        ),
        (
            "name = 'a'\n[[sources]]\npath = 'x'\nweight = '1'",
            "sources[1].weight = '1': must be a number",
            "correct the value",
        ),
        ("name = 5", "name = 5: must be a text", "correct the value"),
        ("name = 'a'\nsources = 5", "sources = 5: must be a list", "correct the value"),
        ("", "no name", "add the key"),
    ],
)
def test_what_is_wrong_is_said_with_file_key_and_hint(tmp_path: Path, text: str, what: str, hint: str) -> None:
    path = tmp_path / "file.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_model(path, Whole)
    assert error.value.where == path
    assert what in str(error.value)
    assert error.value.hint == hint


def test_a_section_takes_data_that_the_caller_completed_and_does_not_change_afterwards(tmp_path: Path) -> None:
    found = read_model(tmp_path / "none.toml", Loose, {"period_s": 5})
    assert found.period_s == 5.0
    with pytest.raises(ValueError, match="frozen"):
        found.period_s = 6.0
    assert known_keys(Loose, ("other", "key")) == ["period_s"]
