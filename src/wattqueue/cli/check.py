"""Run the public checks on parts of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer


def run(
    part: Annotated[
        str,
        typer.Argument(help="my.py:MyPart, or my.py for every part in it.", metavar="PART", show_default=False),
    ],
) -> None:
    """Run the public checks on parts of one's own: a line for each check; the exit status is 1 where one fails."""
    failed = 0
    for name, axis, found in parts_of(part):
        for check_name, wrong in outcomes(axis, found):
            print(f"{'FAILED' if wrong else 'ok':<7} {name} as {axis}: {check_name}{': ' + wrong if wrong else ''}")
            failed += bool(wrong)
    print(f"{failed} checks failed" if failed else "every check passed")
    if failed:
        raise typer.Exit(1)


def parts_of(text: str) -> list[tuple[str, str, type[Any]]]:
    """(name, axis, class) of each part that was named. Raises: PolicyError if there is none."""
    from pathlib import Path

    from wattqueue.errors import PolicyError
    from wattqueue.policy.registry import axes_of, class_from_file, load_file

    path, _, named = text.partition(":")
    if named:
        classes = [class_from_file(text)]
    else:
        module = load_file(Path(path))
        classes = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]
    found = [(c.__name__, axis, c) for c in classes for axis in axes_of(c)]
    if not found:
        raise PolicyError("no part in it", where=text, mend="a part is a class with schedule(), act(), predict() ...")
    return found


def outcomes(axis: str, found: type[Any]) -> Iterator[tuple[str, str]]:
    """Name of each check and what was wrong; an empty text where nothing was."""
    from wattqueue.checks.samples import sample_jobs, sample_machine
    from wattqueue.checks.suite import checks_of
    from wattqueue.errors import PolicyError

    try:
        found()
    except Exception as error:  # noqa: BLE001 - as below
        yield "made without arguments", f"raised {type(error).__name__}: {error}"
        return
    checks = list(checks_of(axis, found))
    for name, check in checks:
        try:
            check(found, sample_jobs(), sample_machine())
        except PolicyError as error:
            yield plain(name), str(error)
        except Exception as error:  # noqa: BLE001 - whatever a stranger's part raises is a finding
            yield plain(name), f"raised {type(error).__name__}: {error}"
        else:
            yield plain(name), ""


def plain(name: str) -> str:
    """``check_no_leak`` -> ``no leak``."""
    return name.removeprefix("check_").replace("_", " ")
