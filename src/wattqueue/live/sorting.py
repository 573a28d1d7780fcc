"""Which jobs run, are under way, wait for us, or are none of ours.

A row that Slurm shows unchanged is the same object as in the round before, so only rows that are
new or gone are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from wattqueue.live.predictor import Asked
from wattqueue.live.queue import Queue
from wattqueue.live.slurm.snapshot import Details, JobKey, JobRow, Snapshot
from wattqueue.live.state.memory import Placed, Refused
from wattqueue.live.world import Layout

MARK = "wattqueue:"
"""What job_submit.lua writes on each job that it holds begins with this."""
USER_HELD = "wattqueue:user-held"
Mode = Literal["observe", "advise", "control"]
Kind = Literal["running", "free", "waiting", "hand_over", "ignored", "unknown"]
_PLAIN = Details("", "", "", "", "", 0, 1, 0)


@dataclass
class Sorted:
    """Rows of a snapshot by what is to be done with them.

    ``waiting`` in order of submission; ``adopt`` were released behind our back and are held again;
    ``late`` were released by us and did not start in time; ``hand_over`` are for Slurm alone
    (heterogeneous jobs); ``foreign`` are pending, free, and not ours.
    """

    running: list[JobRow] = field(default_factory=list)
    under_way: list[JobRow] = field(default_factory=list)
    waiting: Sequence[JobKey] = ()
    adopt: list[JobRow] = field(default_factory=list)
    late: list[JobRow] = field(default_factory=list)
    hand_over: list[JobRow] = field(default_factory=list)
    foreign: list[JobRow] = field(default_factory=list)
    refused: int = 0


@dataclass
class Sorter:
    """Sorts snapshots. ``ask`` says what a row's user asked for; ``foreign_since`` when a free job not ours came."""

    layout: Layout
    mode: Mode
    start_timeout_s: float
    ask: Callable[[JobRow, Details | None], Asked]
    queue: Queue = field(default_factory=Queue)
    foreign_since: dict[JobKey, float] = field(default_factory=dict)
    asked: dict[JobKey, Asked] = field(default_factory=dict)
    fresh: list[Asked] = field(default_factory=list)
    """Jobs first seen in this round."""
    _rows: dict[int, JobRow] = field(default_factory=dict)
    _kind: dict[int, Kind] = field(default_factory=dict)
    _lists: dict[Kind, dict[int, JobRow]] = field(default_factory=dict)
    _throttles: dict[tuple[str, float], int] = field(default_factory=dict)

    def sort(
        self,
        snapshot: Snapshot,
        placed: Mapping[JobKey, Placed],
        refused: Mapping[JobKey, Refused],
        origin: Mapping[JobKey, float],
    ) -> Sorted:
        """Each row into one list."""
        self._update(snapshot, origin)
        now_s, details = snapshot.taken_s, snapshot.details
        out = Sorted(running=sorted(self._of("running"), key=_age), hand_over=list(self._of("hand_over")))
        for row in sorted(self._of("free"), key=_age):
            self._free(row, details.get(row.key, _PLAIN), placed.get(row.key), now_s, out)
        free = {row.key for row in out.foreign}
        self.foreign_since = {k: v for k, v in self.foreign_since.items() if k in free}
        barred = {k for k, r in refused.items() if now_s < r.until_s and k in self.queue.slot}
        out.refused = len(barred)
        barred |= self._throttled(out, barred)
        keys = self.queue.keys()
        out.waiting = tuple(key for key in keys if key not in barred) if barred else keys
        return out

    def _of(self, kind: Kind) -> Iterable[JobRow]:
        return self._lists.get(kind, {}).values()

    def _update(self, snapshot: Snapshot, origin: Mapping[JobKey, float]) -> None:
        """Take in what is new, let go of what is gone."""
        rows = {id(row): row for row in snapshot.jobs}
        gone = self._rows.keys() - rows.keys()
        new = [number for number in rows if number not in self._rows]
        new += [number for number, kind in self._kind.items() if kind == "unknown" and number not in gone]
        for number in gone:
            row, kind = self._rows[number], self._kind.pop(number)
            self._lists[kind].pop(number, None)
            if kind == "waiting" and self.queue.row.get(row.key) is row:
                self.queue.remove(row.key)
        self._rows = rows  # the old rows stayed alive until here, so no id stood for two
        self.fresh = []
        for number in new:
            self._take_in(number, rows[number], snapshot.details.get(rows[number].key), origin)
        if len(self.asked) > 2 * len(rows) + 1000:
            keep = {row.key for row in rows.values()}
            self.asked = {key: value for key, value in self.asked.items() if key in keep}

    def _take_in(self, number: int, row: JobRow, details: Details | None, origin: Mapping[JobKey, float]) -> None:
        kind = self._kind_of(row, details)
        old = self._kind.get(number)
        if old is not None:
            self._lists[old].pop(number, None)
        self._kind[number] = kind
        self._lists.setdefault(kind, {})[number] = row
        if kind in ("ignored", "unknown", "hand_over"):
            return
        asked = self.asked.get(row.key)
        if asked is None or row.pending:
            asked = self.asked[row.key] = self.ask(row, details)
        self.fresh.append(asked)
        if details is not None and details.throttle > 0 and "_" in row.key.name:
            self._throttles[_array(row.key)] = details.throttle
        if kind == "waiting":
            self.queue.add(row, asked, self.layout.allowed(row.partition), origin.get(row.key))

    def _kind_of(self, row: JobRow, details: Details | None) -> Kind:
        if row.active:
            return "running"
        if not row.pending or not self.layout.allowed(row.partition):
            return "ignored"
        if self.mode != "control":
            return "waiting" if row.eligible and not row.held else "ignored"
        if details is None:
            return "free" if not row.held else "unknown"
        if not row.held:
            return "free"
        if not details.mark.startswith(MARK) or not row.eligible:
            return "ignored"
        if details.mark == USER_HELD and row.reason == "JobHeldUser":
            return "ignored"
        return "hand_over" if details.parts > 1 else "waiting"

    def _free(self, row: JobRow, details: Details, placed: Placed | None, now_s: float, out: Sorted) -> None:
        if details.parts > 1 or not details.mark.startswith(MARK):
            since_s = self.foreign_since.setdefault(row.key, now_s)
            out.foreign.append(row)
            if now_s - since_s > self.start_timeout_s:
                return
        elif placed is None:
            out.adopt.append(row)
        elif now_s - placed.since_s > self.start_timeout_s:
            out.late.append(row)
        out.under_way.append(row)

    def _throttled(self, out: Sorted, barred: set[JobKey]) -> set[JobKey]:
        """Of an array with a limit, no more tasks wait than may start now."""
        if not self._throttles:
            return set()
        room = dict(self._throttles)
        for row in (*out.running, *out.under_way):
            if _array(row.key) in room:
                room[_array(row.key)] -= 1
        more: set[JobKey] = set()
        for _, key in self.queue.places:
            array = _array(key)
            if key not in barred and array in room:
                room[array] -= 1
                if room[array] < 0:
                    more.add(key)
        return more


def _age(row: JobRow) -> tuple[float, int]:
    """The order of rows that run or are about to, whatever order Slurm lists them in."""
    return row.key.submit_s, row.job_id


def _array(key: JobKey) -> tuple[str, float]:
    return key.name.partition("_")[0], key.submit_s
