"""Names of jobs: what an action calls a job, the same in every round.

Rows of a job table are positions. The simulator's table never changes, but a live controller has another one in each
round, so a part that remembers row 7 remembers a stranger. A name is the text of ``job_id`` and means the same job
everywhere.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray


class JobNames:
    """Names of the jobs of one table, and back.

    Where ids repeat (some archives count them again for each system), the later ones get ``#2``, ``#3``: a name is one
    job. Nothing is computed before the first name is asked for, and rising whole numbers need no index.
    """

    __slots__ = ("_distinct", "_first", "_ids", "_last", "_names", "_ready", "_rows")

    def __init__(self, job_id: NDArray[Any], *, distinct: bool = False) -> None:
        """Take the ids of a table, integers or text. Shape (n,). ``distinct``: none repeats, and nobody need look."""
        self._ids, self._distinct = job_id, distinct
        self._ready = False
        self._first = 0
        """First id, where ids are consecutive numbers."""
        self._names: list[str] | None = None
        """All names, where they are not."""
        self._rows: dict[str, int] | None = None
        self._last: tuple[object, int] = (object(), -1)
        """The last name that was given and its row: most actions are about the job whose name was asked for last."""

    def name(self, row: int) -> str:
        """Return the name of the job in a row."""
        if self._distinct:
            return str(self._ids[row])
        if not self._ready:
            self._prepare()
        if self._names is not None:
            return self._names[row]
        text = str(self._first + row)
        if 0 <= row < len(self._ids):
            self._last = (text, row)
        return text

    def row(self, name: str) -> int:
        """Return the row of a name, -1 where the table has no such job.

        Raises: TypeError for anything but a text, such as a row.
        """
        last = self._last
        if name is last[0]:
            return last[1]
        if not isinstance(name, str):
            raise TypeError(f"a job is named by a text, not by {name!r}")
        if not self._ready:
            self._prepare()
        if self._names is not None:
            if self._rows is None:
                self._rows = {text: row for row, text in enumerate(self._names)}
            return self._rows.get(name, -1)
        try:
            row = int(name) - self._first
        except ValueError:
            return -1
        return row if 0 <= row < len(self._ids) and str(self._first + row) == name else -1

    def _prepare(self) -> None:
        """Find out whether ids are consecutive numbers; list the names otherwise, each once."""
        ids, self._ready = self._ids, True
        # Two ids first: of most other traces they tell without a look at all of them.
        rising = len(ids) > 0 and ids.dtype.kind in "iu" and int(ids[-1]) - int(ids[0]) == len(ids) - 1
        if rising and bool((ids[1:] > ids[:-1]).all()):
            self._first = int(ids[0])
            return
        texts = [str(number) for number in ids.tolist()]
        taken = set(texts)
        if len(taken) < len(texts):
            again: dict[str, int] = {}
            for row, text in enumerate(texts):
                count = again[text] = again.get(text, 0) + 1
                while count > 1 and (other := f"{text}#{count}") in taken:
                    count = again[text] = count + 1
                if count > 1:
                    texts[row] = other
        self._names = texts
