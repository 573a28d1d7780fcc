"""``python -m tools.kernels build``: write the compiled kernels into the package, for a wheel."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.kernels.build import build, objects

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["build"]:
            build()
        case ["build", *levels]:
            build(levels=tuple(levels))
        case ["objects", level, folder, only]:
            objects(level, Path(folder), only)
        case _:
            raise SystemExit(__doc__)
