"""What differs between releases of Slurm in a way that the power budget depends on."""

from __future__ import annotations

import re


def loses_licences_at_requeue(version: str) -> bool:
    """Whether this release of Slurm frees a job's licences when it is requeued and does not restore them.

    25.05.x and 25.11.0 to 25.11.6; corrected in 25.11.7 and 26.05.0. On such a release a requeued job runs without
    watts, unless they are written again before it can start.
    """
    found = re.match(r"([0-9]+)\.([0-9]+)(?:\.([0-9]+))?", version)
    if found is None:
        return False
    major, minor, patch = int(found[1]), int(found[2]), int(found[3] or 0)
    return (major, minor) == (25, 5) or ((major, minor) == (25, 11) and patch <= 6)


def requeue_text(version: str) -> str:
    """What a person should know about a release that loses licences at a requeue."""
    return (
        f"Slurm {version} frees a job's licences when it is requeued and does not restore them: "
        "set JobRequeue=0, or move to 25.11.7 or 26.05.0"
    )
