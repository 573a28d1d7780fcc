"""``make mutate N=40``: change N places of the source, and print which the tests notice.

Places are drawn by seed, as many of each package; equivalent.toml lists what is left out, with reasons. Results are
printed, and written as JSON. The exit status is 1 where fewer than 90 % were killed.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from tools.mutation.places import PACKAGES, Place, draw, places_of
from tools.mutation.tests_of import FOLDERS, RelevantTests
from tools.mutation.trial import Outcome, Trial

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".mutation"
WANTED_PERCENT = 90.0


def excluded(root: Path = ROOT) -> list[Place]:
    """Return the mutations that are left out: equivalent ones, each with its reason in equivalent.toml."""
    listed = tomllib.loads((Path(__file__).parent / "equivalent.toml").read_text()).get("mutation", [])
    return [find(root, entry) for entry in listed]


def find(root: Path, entry: dict[str, object]) -> Place:
    """Return the place that an entry of a list means. Raises: SystemExit if the source has it no more."""
    keys = [key for key in ("scope", "text", "before", "after", "nth") if key in entry]
    for place in places_of(root, str(entry["file"])):
        if all(getattr(place, key) == entry[key] for key in keys):
            return place
    sys.exit(f"mutation: no such place any more: {entry}")


def outcomes(places: Sequence[Place], tests: RelevantTests, workers: int) -> Iterator[Outcome]:
    """Yield what became of each mutation, as they end."""
    trials: queue.Queue[Trial] = queue.Queue()
    for k in range(workers):
        trials.put(Trial(ROOT, FOLDER / f"tree{k}"))

    def run(place: Place) -> Outcome:
        trial = trials.get()
        try:
            return trial.of(place, tests.of(place))
        finally:
            trials.put(trial)

    with ThreadPoolExecutor(workers) as pool:
        for done in as_completed([pool.submit(run, place) for place in places]):
            yield done.result()


def line_of(outcome: Outcome) -> str:
    """Return an outcome as one line."""
    place = outcome.place
    verdict = f"by {outcome.killed_by}" if outcome.killed_by else f"{outcome.tests} tests pass"
    change = f"{place.text!r}: {place.before!r} -> {place.after!r}"
    word = "killed  " if outcome.killed_by else "SURVIVED"
    return f"{word} {place.file}:{place.line} {place.scope} ({place.kind}) {change} {verdict} ({outcome.seconds:.0f} s)"


def main() -> int:
    """Draw, try, print. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    parser.add_argument("--places", type=int, default=40, help="how many places are changed")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--packages", nargs="+", default=PACKAGES)
    parser.add_argument("--tests", nargs="+", default=FOLDERS, help="folders of tests")
    parser.add_argument("--again", type=Path, help="try the places of such a JSON file once more")
    parser.add_argument("--list", action="store_true", help="list the places, and try none")
    parser.add_argument("--fresh", action="store_true", help="record anew which tests run which functions")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "mutation.json")
    asked = parser.parse_args()
    if asked.again:
        places = [find(ROOT, entry) for entry in json.loads(asked.again.read_text())["places"]]
    else:
        places = draw(ROOT, asked.places, asked.seed, excluded(), asked.packages)
    if asked.list:
        print(
            "\n".join(f"{p.file}:{p.line} {p.scope} ({p.kind}) {p.text!r}: {p.before!r} -> {p.after!r}" for p in places)
        )
        return 0
    tests = RelevantTests(ROOT, FOLDER)
    tests.update(asked.tests, fresh=asked.fresh, workers=asked.workers)
    done: list[Outcome] = []
    for outcome in outcomes(places, tests, asked.workers):
        done.append(outcome)
        print(line_of(outcome), flush=True)
        _write(asked.out, asked.seed, done)
    killed = sum(bool(outcome.killed_by) for outcome in done)
    percent = 100.0 * killed / max(len(done), 1)
    print(f"{killed} of {len(done)} mutations killed ({percent:.1f} %), seed {asked.seed}; see {asked.out}")
    return int(percent < WANTED_PERCENT)


def _write(file: Path, seed: int, done: Sequence[Outcome]) -> None:
    """Write the outcomes so far."""
    rows = [
        asdict(o.place) | {"killed_by": o.killed_by, "tests": o.tests, "seconds": round(o.seconds, 1)} for o in done
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"seed": seed, "places": rows}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
