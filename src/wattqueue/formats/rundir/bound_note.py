"""What ``wattqueue bound`` found about a run, in the run's folder: a sentence for reports, beside the certificates."""

from __future__ import annotations

from pathlib import Path

from wattqueue.formats.json_text import clean, load_json
from wattqueue.formats.source import sha256_of

BOUND, JOBS = "bound.json", "jobs.csv"
"""Names of files in the folder of a run."""
NOTE = "note"
"""Key of the note: ``sentence``, and the SHA-256 of the jobs that it is about (``jobs``)."""


def bound_note(folder: Path, sentence: str) -> dict[str, dict[str, str]]:
    """Return the note of a run, as it is written into the file."""
    return {NOTE: {"sentence": sentence, "jobs": sha256_of(folder / JOBS)}}


def read_bound_note(folder: Path) -> str:
    """Return the sentence about a run; empty where there is none, or the run is another by now.

    Raises: InputError for a file that is no JSON.
    """
    path = folder / BOUND
    content = load_json(path) if path.is_file() else None
    note = content.get(NOTE) if isinstance(content, dict) else None
    if not isinstance(note, dict) or note.get("jobs") != sha256_of(folder / JOBS):
        return ""
    return clean(str(note.get("sentence", "")))
