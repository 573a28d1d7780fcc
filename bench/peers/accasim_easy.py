"""EASY of accasim on an SWF file, as its own documentation starts it: TRACE NODES OUT.

Runs in an environment of its own (bench/cases/peers.py makes it), where our package is not installed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from accasim.base.allocator_class import FirstFit
from accasim.base.scheduler_class import EASYBackfilling
from accasim.base.simulator_class import Simulator


def main(trace: str, nodes: str, out: str) -> None:
    """One core a node, so that a processor of the trace is a node."""
    machine = Path(out) / "machine.json"
    machine.write_text(json.dumps({"groups": {"all": {"core": 1}}, "resources": {"all": int(nodes)}}))
    simulator = Simulator(
        trace,
        str(machine),
        EASYBackfilling(FirstFit()),
        RESULTS_FOLDER_PATH=str(Path(out) / "results"),
        statistics_output=False,
        show_statistics=False,
    )
    simulator.start_simulation()


if __name__ == "__main__":
    main(*sys.argv[1:])
