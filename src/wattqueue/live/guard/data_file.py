"""What the guard takes of the planner's lines for the data file of job_submit.lua (``live.slurm.submit_data``).

Three kinds of lines can make the script count fewer watts, or keep it from refusing a change: the watts of a
partition's nodes, a partition whose jobs carry none, and an account whose changes are not refused. They are checked
against the guard's own settings and its own reading of the accounting. What is not safe is left out or raised, so that
one wrong line keeps nothing else from being written, and the script counts the dearest node for what is left out.

The other lines decide how many nodes a job is counted for. The script states that number to Slurm as the job's
maximum, so a wrong one delays or refuses jobs, and starts none on more nodes than were counted.
"""

from __future__ import annotations

from collections.abc import Collection

from wattqueue.live.guard.settings import GuardSettings
from wattqueue.model.plain_numbers import is_whole

MOST_TOLD = 10
"""Lines that are named in an answer at most."""


def safe_lines(body: str, settings: GuardSettings, staff: Collection[int]) -> tuple[str, list[str]]:
    """Return the lines as far as they are safe, and what was not. Words are separated as the script separates them."""
    kept, told = [], list[str]()
    for line in body.split("\n"):
        words = [word for word in line.split(" ") if word]
        kind, name, value = (*words, "", "", "")[:3]
        if kind == "partition":
            most_w = settings.most_w(name, 1)
            if not is_whole(value) or int(value) < most_w:
                told.append(
                    f"partition {name[:80]}: its nodes count {most_w} W, not {value[:20]} W ([node_w] of guard.toml)"
                )
                words[2:3] = [str(most_w)]
        elif kind == "free" and name not in settings.free:
            told.append(f"partition {name[:80]}: its jobs carry watts (`free` of guard.toml does not name it)")
            continue
        elif kind == "staff" and not (is_whole(name) and int(name) in staff):
            told.append(f"account {name[:20]} is no operator of Slurm")
            continue
        kept.append(" ".join(words))
    return "\n".join(kept), told[:MOST_TOLD]
