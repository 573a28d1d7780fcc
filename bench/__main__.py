"""``python -m bench [NAME...]``: run benchmarks; the exit status is 1 where an answer is wrong."""

from __future__ import annotations

import argparse
import sys

from bench import harness


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of benchmarks; all if none")
    parser.add_argument("--list", action="store_true", help="name them and leave")
    parser.add_argument("--accept", action="store_true", help="take today's digests as the right ones")
    given = parser.parse_args()
    if given.list:
        harness.load_cases()
        print("\n".join(harness.REGISTERED))
        return 0
    return 1 if harness.run_all(given.names, accept=given.accept) else 0


if __name__ == "__main__":
    sys.exit(main())
