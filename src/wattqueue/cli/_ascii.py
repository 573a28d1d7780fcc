"""Print to a stdout that cannot encode every character: replace signs by what ASCII has for them.

Under ``LC_ALL=C``, in a cron job or on an old terminal, Python opens stdout with an encoding that lacks ``±`` or ``–``,
and printing one of them raises. Tables use such signs, so every verb is concerned.
"""

from __future__ import annotations

import codecs
import sys

SIGNS = {
    "–": "-", "—": "-", "−": "-", "‑": "-", "±": "~", "×": "x", "·": "-", "…": "...", "≤": "<=", "≥": ">=", "≈": "~",
    "“": '"', "”": '"', "‘": "'", "’": "'", "\u00a0": " ", "\u202f": " ", "µ": "u", "μ": "u", "→": "->", "←": "<-",
    "°": " deg", "²": "2", "∞": "inf", "✓": "ok", "✗": "x", "─": "-", "│": "|",
    "━": "-", "┃": "|", **dict.fromkeys("┏┳┓┡╇┩└┴┘", "+"),
}  # fmt: skip
"""ASCII texts of the characters that tables and sentences use; everything else becomes a question mark."""
HANDLER = "wattqueue-ascii"
"""Name under which ``codecs`` knows the error handler."""


def replace_signs(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement of what could not be encoded, and where to go on (a handler of ``codecs``)."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(SIGNS.get(c, "?") for c in error.object[error.start : error.end]), error.end


def accept_every_character() -> None:
    """Let stdout and stderr replace what their encoding lacks instead of raising UnicodeEncodeError."""
    codecs.register_error(HANDLER, replace_signs)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        # Streams that a test or another program put in place may have no reconfigure; handlers other than Python's own
        # (surrogateescape in the C locale) were chosen by the user (PYTHONIOENCODING).
        own = stream.errors == "strict" or (stream.errors == "surrogateescape" and stream.encoding == "ascii")
        if reconfigure is not None and own:
            reconfigure(errors=HANDLER)
