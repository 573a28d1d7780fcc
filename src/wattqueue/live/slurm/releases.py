"""What differs between releases of Slurm in a way that the power budget depends on."""

from __future__ import annotations

import re


def loses_licences_at_requeue(version: str) -> bool:
    """Whether this release of Slurm frees a job's licences when it is requeued and does not restore them.

    25.05.x and 25.11.0 to 25.11.6; corrected in 25.11.7 and 26.05.0. On such a release a requeued job runs without
    watts, unless they are written again before it can start.
    """
    major, minor, patch = _numbers(version)
    return (major, minor) == (25, 5) or ((major, minor) == (25, 11) and patch <= 6)


def refuses_too_few_gres(version: str) -> bool:
    """Whether this release refuses a job that asks for more generic resources than its greatest number of nodes has.

    22.05 and 24.11 do (``-N1 --gpus=5`` on nodes of four); 26.05 starts it with four. False for releases between them,
    which were not tested, and where the release is not known: what Slurm might run is not refused.
    """
    return (0, 0, 0) < _numbers(version) < (25, 0, 0)


def _numbers(version: str) -> tuple[int, int, int]:
    """Return the numbers of a release; zeros where it is not known."""
    found = re.match(r"([0-9]+)\.([0-9]+)(?:\.([0-9]+))?", version)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else (0, 0, 0)


def requeue_text(version: str) -> str:
    """What a person should know about a release that loses licences at a requeue."""
    return (
        f"Slurm {version} frees a job's licences when it is requeued and does not restore them: "
        "set JobRequeue=0, or move to 25.11.7 or 26.05.0"
    )
