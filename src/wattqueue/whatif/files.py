"""The files of an answer by name: what ``--out`` of the command line and ``save`` of the Python API write."""

from __future__ import annotations

from wattqueue.whatif.answer import Answer
from wattqueue.whatif.document import payer_rows, rows, to_csv, to_json
from wattqueue.whatif.page import html


def files(answer: Answer) -> dict[str, str]:
    """Return the text of every file by its name: two CSV tables, one JSON document, one self-contained page."""
    return {
        "whatif.csv": to_csv(rows(answer)),
        "payers.csv": to_csv(list(payer_rows(answer))),
        "whatif.json": to_json(answer),
        "report.html": html(answer),
    }
