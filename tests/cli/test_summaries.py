"""The list of verbs reads as one: each line is a sentence about what the verb does."""

from __future__ import annotations

import pytest

from wattqueue.cli import _app


@pytest.mark.parametrize("verb", _app.verbs())
def test_a_summary_begins_with_what_the_verb_does(verb: str) -> None:
    """It is the first line of the module's docstring: complete in itself, without markup."""
    text = _app.verbs()[verb].summary
    assert text.endswith(".")
    assert "``" not in text
    assert not text.startswith("The verb")
