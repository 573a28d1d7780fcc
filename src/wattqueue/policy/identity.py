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

    __slots__ = ("_first", "_ids", "_names", "_rows")

    def __init__(self, job_id: NDArray[Any]) -> None:
        """Take the ids of a table, integers or text. Shape (n,)."""
        self._ids = job_id
        self._first: int | None = None
        """First id, where ids are consecutive numbers."""
        self._rows: dict[str, int] | None = None
        self._names: list[str] = []

    def name(self, row: int) -> str:
        """Return the name of the job in a row."""
        if self._first is None and self._rows is None:
            self._prepare()
        return self._names[row] if self._first is None else str(self._first + row)

    def row(self, name: str) -> int:
        """Return the row of a name, -1 where the table has no such job.

        Raises: TypeError for anything but a text, such as a row.
        """
        if not isinstance(name, str):
            raise TypeError(f"a job is named by a text, not by {name!r}")
        if self._first is None and self._rows is None:
            self._prepare()
        if self._first is None:
            return (self._rows or {}).get(name, -1)
        try:
            row = int(name) - self._first
        except ValueError:
            return -1
        return row if 0 <= row < len(self._ids) and str(self._first + row) == name else -1

    def _prepare(self) -> None:
        """Find out whether ids are consecutive numbers, and index them otherwise."""
        ids = self._ids
        # Two ids first: of most other traces they tell without a look at all of them.
        rising = len(ids) > 0 and ids.dtype.kind in "iu" and int(ids[-1]) - int(ids[0]) == len(ids) - 1
        if rising and bool((ids[1:] > ids[:-1]).all()):
            self._first = int(ids[0])
            return
        rows: dict[str, int] = {}
        count: dict[str, int] = {}
        for row, number in enumerate(ids.tolist()):
            text = str(number)
            while text in rows:
                count[str(number)] = count.get(str(number), 1) + 1
                text = f"{number}#{count[str(number)]}"
            rows[text] = row
        self._rows, self._names = rows, list(rows)
