"""The page of the interaction matrix, ``docs/interactions.md``: ``python -m tests.interactions.page`` renews it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from tests.interactions.features import FEATURES
from tests.interactions.matrix import BROKEN, HELD, NOT_APPLICABLE, REFUSED, TRIES, UNMET, Cell, cell
from tests.interactions.oracles import ORACLES, QUICK

PAGE = Path(__file__).parents[2] / "docs" / "interactions.md"
TRIPLES = 200
SEED = 26
HELD_MARK, CHOICE_MARK, BROKEN_MARK = "+", ".", "!"
HEAD = f"""# Feature interactions

Each feature of the simulator meets each other one in small worlds: six nodes or two small partitions, 16 jobs, a cap
that binds. A world counts only if **both** features acted in it, by the counters at the end of this page; worlds are
drawn until they did, at most {TRIES}. Oracles then look at the run, after each of its instants:

| oracle | holds |
|---|---|
| conservation | units, jobs and watts are neither lost nor counted twice; energy is the integral of power |
| cap | what starts fits beside what is counted, with the ledger's margin by its definition; where predictions are \
never too low, true power does not rise above the cap |
| progress | something runs where an eligible job's maximum fits each limit to come |
| consent | in a load target no job without consent is slowed, suspended, requeued, or starts lower for it |
| equal bytes | the same world gives the same outputs again, unobserved |
| whole passes | passes over the whole queue at each instant give the same outputs as those that begin at arrivals |
| snapshots | a pass that decides each instant anew from a snapshot (`policy.decide`) starts the same jobs, where a \
snapshot has all that the pass depends on |

`tests/interactions` draws the worlds, and holds that this page is what they give; `python -m tests.interactions.page`
renews it. The slow tests look at every pair, with every oracle. The fast ones look at one pair of three and at all
drawn triples, without the last oracle, which takes most of the time. A planted defect for each oracle is found
(`test_planted.py`).

## Pairs

`{HELD_MARK}` both acted and all oracles hold; `{CHOICE_MARK}` both decide the same thing, so that they cannot meet; a
small letter: refused with an error that says so; a capital: not applicable, or a part
that the run itself names as without effect; `{BROKEN_MARK}` a known defect, named
below. The diagonal is a feature by itself.
"""


def columns(row: str, each: int = 1) -> list[int]:
    """The columns of a row: each feature before it, or one of so many of them, and itself."""
    number = list(FEATURES).index(row)
    return [column for column in range(number + 1) if column == number or (column + number) % each == 0]


def pair_cells(row: str, oracles: Sequence[str] = tuple(ORACLES), each: int = 1) -> list[Cell]:
    """The cells of a row, in the order of ``columns``."""
    names = list(FEATURES)
    return [cell({row, names[column]}, oracles) for column in columns(row, each)]


class Marks:
    """Letters for the reasons of refusals, and of cells that cannot be."""

    def __init__(self) -> None:
        self.letters: dict[tuple[str, str], str] = {}

    def of(self, found: Cell) -> str:
        if found.outcome == HELD:
            return HELD_MARK
        if found.outcome in (BROKEN, UNMET):
            return BROKEN_MARK
        if found.outcome == NOT_APPLICABLE and found.reason.startswith("both choose"):
            return CHOICE_MARK
        key = (found.outcome, found.reason)
        used = sum((outcome == REFUSED) == (found.outcome == REFUSED) for outcome, _ in self.letters)
        return self.letters.setdefault(key, chr(ord("a" if found.outcome == REFUSED else "A") + used))


def triples(held: Mapping[frozenset[str], bool]) -> list[tuple[str, str, str]]:
    """Drawn triples of features of which each pair holds; always the same ones."""
    rng, names = np.random.default_rng(SEED), list(FEATURES)
    found: dict[tuple[str, str, str], None] = {}
    while len(found) < TRIPLES:
        a, b, c = sorted(rng.choice(len(names), 3, replace=False).tolist())
        picked = (names[a], names[b], names[c])
        if all(held.get(frozenset(pair)) for pair in itertools.combinations(picked, 2)):
            found[picked] = None
    return list(found)


def grid_of(page: str) -> dict[str, str]:
    """Return the marks of each row of a page."""
    block = page.split("```text\n", 2)[1].split("```", 1)[0].splitlines()[3:]
    names = list(FEATURES)
    return {name: line.split()[-1] for name, line in zip(names, block, strict=True)}


def held_pairs(grid: Mapping[str, str]) -> dict[frozenset[str], bool]:
    """Return which pairs hold by the rows of a page."""
    names = list(FEATURES)
    return {
        frozenset((row, other)): mark == HELD_MARK
        for row, marks in grid.items()
        for other, mark in zip(names, marks, strict=False)
    }


def legend(page: str) -> dict[str, str]:
    """Return the reason of each letter of a page."""
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    return {row[1].strip().strip("`"): row[2].strip() for row in rows if len(row[1].strip()) == 3}


def triple_line(found: Cell) -> str:
    """Return the line of a triple that did not hold."""
    return f"- {', '.join(found.names)}: {found.outcome}, {found.reason}"


def written(rows: Mapping[str, Sequence[Cell]], threes: Iterable[Cell]) -> str:
    """Return the page."""
    marks, names = Marks(), list(FEATURES)
    width = max(map(len, names))
    grid = [f"{k + 1:3d} {name:{width}s} {''.join(map(marks.of, rows[name]))}" for k, name in enumerate(names)]
    numbers = [f"{k + 1:3d}" for k in range(len(names))]
    head = [" " * (width + 5) + "".join(number[digit] for number in numbers) for digit in range(3)]
    counts: dict[str, int] = {}
    for found in itertools.chain(*rows.values()):
        mark = marks.of(found)
        word = {HELD_MARK: "held", CHOICE_MARK: "one choice", BROKEN_MARK: "known defect"}.get(mark, found.outcome)
        counts[word] = counts.get(word, 0) + 1
    three = list(threes)
    lines = [HEAD, "```text", *head, *grid, "```", ""]
    lines += [", ".join(f"{count} {word}" for word, count in sorted(counts.items())) + ".", ""]
    lines += ["| mark | reason |", "|---|---|"]
    lines += [f"| `{letter}` | {outcome}: {reason} |" for (outcome, reason), letter in sorted(marks.letters.items())]
    broken = [found for found in itertools.chain(*rows.values()) if found.outcome in (BROKEN, UNMET)]
    if broken:
        lines += ["", "Known defects:", "", *(f"- {' with '.join(c.names)}: {c.reason}" for c in broken)]
    held = sum(found.outcome == HELD for found in three)
    lines += [
        "",
        "## Triples",
        "",
        f"Of {len(three)} drawn triples of features, each pair of which holds, {held} hold.",
    ]
    if held < len(three):
        lines += ["The others:", "", *(triple_line(found) for found in three if found.outcome != HELD)]
    lines += ["", "## Counters", "", "| | feature | acted: the number of |", "|---|---|---|"]
    lines += [f"| {k + 1} | {f.name} | {f.counts} |" for k, f in enumerate(FEATURES.values())]
    return "\n".join([*lines, ""])


def main() -> None:
    with ProcessPoolExecutor(2) as pool:
        rows = dict(zip(FEATURES, pool.map(quick_row, FEATURES), strict=True))
        held = {frozenset(c.names): c.outcome == HELD for c in itertools.chain(*rows.values())}
        threes = list(pool.map(quick_cell, triples(held), chunksize=5))
    PAGE.write_text(written(rows, threes), encoding="utf-8")


def quick_row(name: str) -> list[Cell]:
    return pair_cells(name, QUICK)


def quick_cell(names: Sequence[str]) -> Cell:
    return cell(names, QUICK)


if __name__ == "__main__":
    main()
