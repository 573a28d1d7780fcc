"""All runs of a question, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from wattqueue.whatif.run import Ran, run_cap

if TYPE_CHECKING:
    from wattqueue.whatif.ask import Setup

Name = tuple[str, str | None]


def run_grid(
    setup: Setup, cells: Sequence[tuple[Name, float]], *, workers: int, tell: Callable[[int, int], None] | None = None
) -> list[Ran]:
    """Runs in the order of ``cells``: a configuration and a cap each."""

    def one(cell: tuple[Name, float]) -> Ran:
        policy = setup.policy(cell[0])
        return run_cap(setup.jobs, setup.machine, policy, cell[1], breaks=setup.breaks, zero_s=setup.zero_s)

    done: list[Ran] = []
    with ThreadPoolExecutor(max(workers, 1)) as pool:
        for ran in pool.map(one, cells):
            done.append(ran)
            if tell:
                tell(len(done), len(cells))
    return done
