"""While the controller is away, on a real Slurm: `live release` withholds what is not counted, and gives it back.

``test_withheld.py`` has the rule in full, over the fake Slurm; ``test_install.py`` an expanded job.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.releases import COMMANDS
from tests.live.site import TOTAL_W, Site, cap_text
from tests.live.slurmlab import wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm-2")]


def goes_away(site: Site) -> None:
    """Kill the controller, and let the signs of its life grow old."""
    site.kill()
    site.set_beat(600.0)


def release(site: Site, config: Path) -> tuple[int, int]:
    """Call ``live release`` as its timer does; return the watts in use and those that are withheld."""
    done = site.release(config)
    assert done.returncode == 0, done.stderr
    return site.used_w()


def wait_without_watts(site: Site, job: str) -> None:
    wait_for(f"job {job} to wait for watts", lambda: site.lab.field(job, "Reason") == "Licenses", step_s=0.1)


def test_watts_of_a_suspended_job_are_withheld(site: Site) -> None:
    """Slurm may hand them out once more, though it still counts them here, and checks nothing when the job goes on."""
    config = site.begin(cap_text(400))
    jobs = [site.gated("-N1", "-p", "p1") for _ in range(2)]
    site.wait_running(jobs)
    goes_away(site)
    assert release(site, config) == (400, TOTAL_W - 400)
    site.lab.run(["scontrol", "suspend", jobs[0]])
    assert release(site, config) == (400, TOTAL_W - 200)
    waits = site.gated("-N1", "-p", "p2")
    wait_without_watts(site, waits)
    site.lab.run(["scontrol", "resume", jobs[0]])
    site.wait_used(400)
    assert release(site, config) == (400, TOTAL_W - 400)
    site.open_gate(jobs[0])
    site.wait_started([waits])
    site.open_gate(jobs[1], waits)


def test_watts_that_slurm_returns_twice_are_withheld_without_a_controller(site: Site, slurm_release: str) -> None:
    """As ``test_watts_that_slurm_returns_twice_are_withheld``, with nobody but ``live release`` to compare."""
    lost = 0 if slurm_release == "26.05" else 200
    config = site.begin(cap_text(400))
    completes, runs = site.gated("-N1", "-p", "p1"), site.gated("-N1", "-p", "p1")
    site.wait_running([completes, runs])
    node = site.lab.field(completes, "NodeList")
    goes_away(site)
    site.lab.kill_node(node)
    (site.root / "gates" / completes).touch()
    site.lab.wait_states([completes], ["COMPLETING"])
    assert release(site, config) == (400, TOTAL_W - 400), "its watts are counted while it completes"
    site.lab.restart_controller()
    site.lab.start_node(node)
    site.lab.wait_states([completes], ["COMPLETED"])
    wait_for("what Slurm counts then", lambda: site.used_w()[0] == 200 - lost, step_s=0.1)
    assert release(site, config) == (200 - lost, TOTAL_W - 400 + lost)
    wide = site.gated("-N2", "-p", "p2")
    wait_without_watts(site, wide)
    site.open_gate(runs)
    assert release(site, config)[1] == TOTAL_W - 400, "nothing is missed; the other may have started already"
    site.wait_started([wide])
    site.open_gate(wide)


def lie(site: Site, reads: int) -> str:
    """Make a folder of Slurm's commands in which the next readings of the pool count nothing; returns it."""
    folder, left, real = site.root / "lies", site.root / "live/lies", site.lab.bin_dir or "/usr/bin"
    folder.mkdir(exist_ok=True)
    for name in COMMANDS:
        (folder / name).write_text(f'#!/bin/sh\nexec {real}/{name} "$@"\n')
        (folder / name).chmod(0o755)
    (folder / "scontrol").write_text(f"""#!/bin/sh
left=$(cat {left})
[ "$*" = "-o show licenses" ] && [ "$left" -gt 0 ] || exec {real}/scontrol "$@"
echo $((left - 1)) >{left}
{real}/scontrol "$@" | sed "s/Used=[0-9]*/Used=0/"
""")
    left.write_text(f"{reads}\n")
    left.chmod(0o666)
    return str(folder)


def test_a_false_reading_closes_nothing_for_longer_than_until_the_next_release(site: Site) -> None:
    """The timer releases each half minute. A wide job starts while the controller is away."""
    config = site.begin(cap_text(800))
    runs = site.gated("-N1", "-p", "p1")
    site.wait_running([runs])
    goes_away(site)
    honest = config.read_text()
    for reads, withheld in ((2, 0), (4, 200)):  # one reading looks at the pool until it is the same twice
        config.write_text(honest.replace(f'bin_dir = "{site.lab.bin_dir}"', f'bin_dir = "{lie(site, reads)}"'))
        assert release(site, config) == (200, TOTAL_W - 800 + withheld), reads
    wide = site.gated("-N3", "-p", "p2")
    wait_without_watts(site, wide)
    assert release(site, config)[1] == TOTAL_W - 800, "the next one reads right; the wide job may have started already"
    site.wait_running([wide])
    site.open_gate(runs, wide)
