"""Run the public checks on parts of your own.

``wattqueue check my.py`` imports the file, finds the classes in it that implement one of the eight interfaces, and runs
``wattqueue.checks`` on each. It prints one line per check; the exit status is 1 if one fails, 2 if there is nothing to
check. Classes without an interface are listed as skipped, so that a misspelt method name cannot hide a part; if a name
is nearly that of an interface, it counts as a failure.

``wattqueue check FOLDER`` looks in the outputs of a run for jobs that were slowed, suspended or requeued for a load
target without the consent of their users (``checks.consent``).

The file is executed, as ``simulate --policy my.py:MyPart`` would do: the checks are for code that the user wrote or
trusts. Each check makes its own instances on small sample jobs and a sample machine (``checks.samples``), so that no
check depends on another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wattqueue.verbs import Printed, verb_of

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class CheckOutcome:
    """CheckOutcome of one check: of a class as one interface, or of its method names; an empty problem is a pass."""

    what: str
    check: str
    problem: str

    def __str__(self) -> str:
        """Return the line for people."""
        problem = f": {self.problem}" if self.problem else ""
        return f"{'FAILED' if problem else 'ok':<7} {self.what}: {self.check}{problem}"


@verb_of(Printed)
def run(
    printed: Printed,
    part: Annotated[
        str,
        typer.Argument(
            help="my.py:MyPart, or my.py for every part in it; or the directory of a run.",
            metavar="PART",
            show_default=False,
        ),
    ],
) -> None:
    """Run the public checks on parts of your own, or on a run: one line per check; exit status 1 if one fails."""
    from pathlib import Path

    from wattqueue.policy.interfaces import axes_of

    if Path(part).is_dir():
        check_run(Path(part), printed)
        return
    found, skipped = list[CheckOutcome](), list[str]()
    for each in classes_of(part):
        for name, meant in _misspelt(each):
            wrong = f"has {name}(), is {meant}() meant? A misspelt one is never called"
            found.append(_said(CheckOutcome(each.__name__, "method names", wrong), printed))
        axes = axes_of(each)
        if not axes:
            skipped.append(each.__name__)
            printed.say([f"skipped {each.__name__}: implements none of the eight interfaces"])
        # A class may implement several interfaces, and is then checked as each of them.
        for axis in axes:
            for check_name, wrong in outcomes(axis, each):
                found.append(_said(CheckOutcome(f"{each.__name__} as {axis}", check_name, wrong), printed))
    _require_parts(part, len(found))
    failed = sum(bool(one.problem) for one in found)
    printed.show(
        lambda: {"checks": [asdict(one) for one in found], "skipped": skipped, "failed": failed},
        lambda: [f"{failed} checks failed" if failed else "every check passed"],
    )
    if failed:
        raise typer.Exit(1)


def check_run(folder: Path, printed: Printed) -> None:
    """Check the outputs of a run: was a job slowed for a load target without the consent of its user?"""
    from wattqueue.checks.consent import consent_violations, outputs_of
    from wattqueue.formats.rundir.folder import read_run
    from wattqueue.runs.perform import prepared
    from wattqueue.runs.record import recorded_inputs

    recorded = read_run(folder)
    found = consent_violations(outputs_of(prepared(recorded_inputs(folder)), recorded.schedule, recorded.power))
    lines = [f"FAILED  job {one.job} {one.what} ({one.time_s:.15g} s)" for one in found[:MOST_LINES]]
    if len(found) > MOST_LINES:
        lines.append(f"and {len(found) - MOST_LINES:,} more")
    if found:
        lines.append(f"{len(found):,} violations of consent")
    passed = "ok      no job was slowed for a load target without consent"
    printed.show(lambda: {"violations": [one._asdict() for one in found]}, lambda: lines or [passed])
    if found:
        raise typer.Exit(1)


MOST_LINES = 20
"""Violations of a run that are printed."""


def _said(one: CheckOutcome, printed: Printed) -> CheckOutcome:
    """Print the line of a check when it is known, since some take seconds; return the outcome."""
    printed.say([str(one)])
    return one


def _require_parts(text: str, found: int) -> None:
    """Raise PolicyError if nothing was checked.

    ``text`` is the argument of the command, ``found`` the number of checks and complaints. An empty file must not
    count as a success.
    """
    from wattqueue.errors import PolicyError
    from wattqueue.policy.interfaces import METHODS

    if not found:
        methods = ", ".join(f"{names[0]}()" for names in METHODS.values())
        raise PolicyError("contains no part", where=text, hint=f"a part is a class with one of {methods}")


def _misspelt(found: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield methods whose names are nearly those of the interfaces (``checks.suite``).

    Each as (name that the class has, name of the interface that is probably meant).
    """
    from wattqueue.checks.suite import misspelt

    yield from misspelt(found)


def classes_of(text: str) -> list[type[Any]]:
    """Return the class of ``file.py:Class``, or all public classes that a file defines, in its order.

    Raises: PolicyError if the file or class is missing, or importing the file fails or exits.
    """
    from pathlib import Path

    from wattqueue.errors import PolicyError
    from wattqueue.policy.registry import class_from_file, part_file

    path, _, named = text.partition(":")
    try:
        if named:
            return [class_from_file(text)]
        module = part_file(Path(path))
    # A script without a main guard; without this the command would end with the status of the script.
    except SystemExit as error:
        raise PolicyError(
            f"calls sys.exit({error.code}) when it is imported",
            where=path,
            hint='put what runs as a program under: if __name__ == "__main__"',
        ) from None
    # A class that the file imports (a base class of another package, for example) is not its own.
    own = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]
    return [c for c in own if not c.__name__.startswith("_")]


def outcomes(axis: str, found: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of each check and what was wrong; an empty text for a pass.

    Whatever a part raises is a finding, a call of ``sys.exit`` included: it must not end the checks with success.

    ``axis`` is the interface as which the class ``found`` is checked. Checks run in a fixed order, and a failure does
    not end the others.
    """
    import secrets

    from wattqueue.checks.samples import sample_jobs, sample_machine
    from wattqueue.checks.suite import checks_of
    from wattqueue.errors import PolicyError

    try:
        found()
        # The registry makes parts without arguments where a row has no options, so this must succeed before any
        # check. A part must not know the size of the large sample.
        checks = list(checks_of(axis, found, secrets.randbelow(1_000_000)))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - see above
        yield "made without arguments", f"raised {type(error).__name__}: {error}"
        return
    for name, check in checks:
        try:
            check(found, sample_jobs(), sample_machine())
        except PolicyError as error:
            yield plain(name), str(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - see above
            yield plain(name), f"raised {type(error).__name__}: {' '.join(str(error).split())}"
        else:
            yield plain(name), ""


def plain(name: str) -> str:
    """Return the name of a check as it is printed: ``check_no_leak`` -> ``no leak``."""
    return name.removeprefix("check_").replace("_", " ")
