"""A generated workload of Marconi100: users with habits that drift, under the real trace's marginals.

docs/marconi-generator.md lists what is published and what is assumed. In short: sizes, durations
and walltimes follow PM100's quantiles, conditioned on runs of a minute and more; watts follow paper 4
(section 6.1, Figure 2); how much of the spread lies within a user is assumed where no data says it.

Flow of ``generate``: users and sessions (``users``) give each job scores; ranks of the scores, mapped on the
marginals below, give sizes, limits, durations and watts (``_bodies``); the load fixes how many of the jobs are kept or
how long the trace is (``_reach``); the weekly cycle places the sessions in time (``_submit_s``); each job gets a power
pattern scaled to its watts (``_profiles``). Five independent random streams serve users, jobs, profiles, submissions
and processors, so that changing one part does not redraw the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.profiles import PowerProfiles
from wattqueue.workload.cycle import DAY_S, WeekCycle
from wattqueue.workload.limits import require, require_count, require_span
from wattqueue.workload.marginals import Menu, limited_by, lognormal_mixture, power_tail, ranks
from wattqueue.workload.phases import LENGTH, RAMP, SHAPES, VARIANTS, library
from wattqueue.workload.users import HabitDraws, Sessions, Shares, offsets_s, population, sessions

Floats = NDArray[np.float64]

USERS = 576  # paper 4, section 6.1: users left after filtering, January to September 2022
JOBS = 523_204  # same place
DAYS = 273.0  # 1 January to 30 September 2022
JOBS_PER_DAY = JOBS / DAYS  # 1,916
NODES = 980  # paper 4, section 6.1
NODE_MAX_W = 2100.0  # paper 4, section 6.4: highest power of a node in 2022
NODE_LEAST_W = 240.0  # lowest valid reading of a Marconi100 node in 2022: notebook of paper 4's artefact
# Readings of a node are whole multiples of 20 W: all ten maxima and all but one median of ten real Marconi100 jobs are
# (690 W is the middle of two readings); their means are not. So the maximum of a job is a reading of a single node.
READING_W = 20.0

# PM100, sample of 5,000 jobs, May to October 2020: run time 0, 13, 204, 2,185, 86,428 s (minimum, quartiles,
# maximum), mean 5,976.6 s, sd 16,760 s. Between the quartiles the distribution is taken log-linear, so 38.89 %
# run less than a minute; given a minute and more, 204 s stands at p = 0.1818 and 2,185 s at 0.5909. Above that
# a truncated Pareto tail and an atom at the 24 h limit: exponent and atom are the two unknowns that the sample's
# mean and sd fix (tests/workload/test_marconi.py solves for them again).
SHORT_S = 60.0
LIMIT_S = 86400.0
RUNTIME = power_tail({0.0: SHORT_S, 0.18184: 204.0, 0.59092: 2185.0}, LIMIT_S, exponent=0.33573, atom=0.03875)

# PM100: nodes 1, 1, 2 (quartiles), most 256, mean 4.126, sd 14.82. Weights: the sizes of 1,994 real Marconi100
# jobs of a minute and more (gridpilot), tilted by exp(a n + b n^2) to PM100's mean and sd.
SIZE = Menu.of({
    1: 0.7037, 2: 0.0865, 3: 0.0286, 4: 0.0395, 6: 0.0033, 8: 0.0567, 12: 0.0190, 16: 0.0166, 20: 0.0069,
    24: 0.0141, 32: 0.0185, 48: 0.0008, 64: 0.0019, 96: 0.0004, 128: 0.0010, 256: 0.0025,
})  # fmt: skip

# PM100: requested processors 24, 128, 128 (quartiles), mean 360.8, sd 1,442; a node has 32 cores of 4 threads. Which
# numbers of a node's 128 users ask for is assumed; with the sizes above their weights give 24, 128, 128 and mean 345.
PROCESSORS = Menu.of({1: 0.05, 4: 0.10, 8: 0.06, 16: 0.07, 24: 0.06, 32: 0.03, 64: 0.02, 128: 0.61})

# PM100: time limit 1, 50, 540, 1,440, 1,440 min (minimum, quartiles, maximum), mean 716.7, sd 635.5 min. Which
# round values users take is assumed; their weights are tilted to the quartiles, mean and sd.
WALLTIME_MIN = Menu.of({
    2: 0.0058, 5: 0.0215, 10: 0.0441, 15: 0.0325, 20: 0.0327, 30: 0.0778, 45: 0.0202, 50: 0.0203, 60: 0.0545,
    90: 0.0186, 120: 0.0420, 180: 0.0241, 240: 0.0295, 300: 0.0177, 360: 0.0279, 480: 0.0256, 540: 0.0117,
    600: 0.0154, 720: 0.0336, 900: 0.0077, 960: 0.0064, 1080: 0.0087, 1200: 0.0284, 1380: 0.0107, 1440: 0.3826,
})  # fmt: skip
WALLTIME_S = Menu(WALLTIME_MIN.x * 60.0, WALLTIME_MIN.mass)
# Jobs that run into whatever limit they have. 156 of the 1,994 real jobs of gridpilot's extract (7.82 %) ended at
# their limit; the remaining 24 h atom above adds jobs that would: x + (0.03875 - 0.3826 x) = 0.0782.
TIMEOUTS = 0.0639

# Mean watts of a node: most near 700 W, a clear share elsewhere (paper 4, Figure 2); the mixture's parts are
# assumed: (weight, median W, log-sd) of GPU-idle work, the peak, and GPU-heavy work.
MEAN_WATTS = lognormal_mixture(((0.15, 430.0, 0.18), (0.50, 700.0, 0.10), (0.35, 880.0, 0.32)), NODE_LEAST_W, 2000.0)

# Variance by origin (user, application, drift, session, job). Size and runtime: the real extract's (a user's
# next job has the same size in 90 %; log run time spreads 0.39 between users and 1.25 within). Walltime and
# watts: assumed.
SIZE_SHARES = Shares(0.70, 0.22, 0.03, 0.04, 0.01)
PROCESSORS_SHARES = SIZE_SHARES  # assumed: who repeats a job's size repeats its processors
WALLTIME_SHARES = Shares(0.20, 0.40, 0.05, 0.30, 0.05)
RUNTIME_SHARES = Shares(0.05, 0.10, 0.05, 0.15, 0.65)
WATTS_SHARES = Shares(0.25, 0.40, 0.10, 0.10, 0.15)

_NATURAL = limited_by(RUNTIME, WALLTIME_S, TIMEOUTS)
"""Durations that jobs would have without limits; under the limits their outcome follows ``RUNTIME``."""
_SPARE = 1.5
"""Jobs drawn for a load with fixed days, relative to the expected number: a surplus is cut off, a lack redrawn."""


@dataclass(frozen=True, eq=False)
class _Bodies:
    """Jobs without submit times, session by session. Shapes (n,)."""

    nodes: NDArray[np.int32]
    """Nodes requested and used."""
    walltime_s: Floats
    """Time limit."""
    runtime_s: Floats
    """Run time, at most the limit."""
    watts: Floats
    """Mean watts of one node."""


def generate(
    rng: np.random.Generator, *, jobs: int | None = None, days: float | None = None, load: float | None = None,
    users: int = USERS, nodes: int = NODES, drift: float = 1.0, spread: float = 1.0,
) -> Jobs:  # fmt: skip
    """Generate a workload of ``jobs`` jobs, or of ``days`` days, for ``nodes`` nodes.

    Second 0 is a Monday, 00:00 UTC. Without ``load`` 1,916 jobs a day are submitted, as in paper 4. With it,
    submissions come faster or slower (jobs keep their sizes and durations, the daily and weekly cycle stays) until
    node-seconds of work / (``nodes`` x length of the trace) is ``load``: exactly with ``jobs``, to within one job with
    ``days``. ``drift`` and ``spread`` scale how much habits move, and how much a user's jobs differ; 0 is none.
    Each job carries the power profile of its mean node, from which ``mean_power_w`` is computed; ``max_power_w`` is
    the highest reading of any of its nodes. The column ``processors`` says how many it asked for. Equal states of
    ``rng`` give equal tables.

    Raises: InputError for an option out of its range (``workload/limits.py``), both or neither of ``jobs`` and
    ``days``, or a load that needs more jobs or more time than a table can hold.

    Reference: Carastan-Santos et al., Euro-Par 2024, section 6.1 (paper 4).
    """
    check(jobs=jobs, days=days, load=load, users=users, nodes=nodes, drift=drift, spread=spread)
    who, what, how, when, asks = rng.spawn(5)
    cycle = WeekCycle.of()
    count = jobs if jobs is not None else _enough_jobs(days or 0.0, load, nodes)
    while True:
        require_count(count, "marconi")
        clock_days = days if days is not None else count / JOBS_PER_DAY
        people = population(who, users, clock_days)
        spells = sessions(who, people, count, clock_days, cycle)
        bodies = _bodies(what, HabitDraws(what, people, spells, drift=drift, spread=spread), nodes)
        keep, span_s = _reach(bodies, load, nodes, clock_days * DAY_S, fixed_span=days is not None)
        if keep <= count:
            break
        count *= 2  # a draw of small jobs: too little work for the load
    submit = _submit_s(when, spells, cycle, require_span(span_s, "marconi"))
    order = np.argsort(submit[:keep], kind="stable")
    score = HabitDraws(asks, people, spells, drift=drift, spread=spread).draw(PROCESSORS_SHARES)
    processors = PROCESSORS.value(ranks(score)).astype(np.int32) * bodies.nodes
    return _table(how, people.app_user, spells, bodies, processors[order], submit, order)


def check(
    *, jobs: int | None = None, days: float | None = None, load: float | None = None,
    users: int = USERS, nodes: int = NODES, drift: float = 1.0, spread: float = 1.0,
) -> None:  # fmt: skip
    """Check the options of ``generate`` without generating. Raises: InputError."""
    if (jobs is None) == (days is None):
        raise InputError("the marconi generator needs either jobs or days", hint="write marconi:days=7, for example")
    require(jobs=jobs, days=days, load=load, users=users, nodes=nodes, drift=drift, spread=spread)
    if days is not None:
        require_count(_enough_jobs(days, load, nodes), "marconi")


def _enough_jobs(days: float, load: float | None, nodes: int) -> int:
    """Return how many jobs to draw for ``days`` days: the natural number, or ``_SPARE`` times what the load needs."""
    if load is None:
        return max(1, round(days * JOBS_PER_DAY))
    work = SIZE.at_most(nodes).mean() * float(RUNTIME.value(np.linspace(0.0005, 0.9995, 1000)).mean())
    return max(50, round(_SPARE * load * nodes * days * DAY_S / work))


def _bodies(rng: np.random.Generator, scores: HabitDraws, nodes: int) -> _Bodies:
    """Draw sizes, walltimes, durations and mean watts by the ranks of their scores.

    A duration is drawn given that it fits the job's limit: its probability is scaled by that of the limit. A share of
    the jobs runs into whatever limit it has.
    """
    size = SIZE.at_most(nodes).value(ranks(scores.draw(SIZE_SHARES))).astype(np.int32)
    walltime = WALLTIME_S.value(ranks(scores.draw(WALLTIME_SHARES)))
    chance = ranks(scores.draw(RUNTIME_SHARES)) * _NATURAL.cdf(walltime)
    runtime = np.where(rng.random(len(size)) < TIMEOUTS, walltime, np.maximum(np.rint(_NATURAL.value(chance)), SHORT_S))
    watts = MEAN_WATTS.value(ranks(scores.draw(WATTS_SHARES)))
    return _Bodies(size, walltime, np.minimum(runtime, walltime), watts)


def _reach(bodies: _Bodies, load: float | None, nodes: int, span_s: float, *, fixed_span: bool) -> tuple[int, float]:
    """Return how many of the jobs, over how many seconds, make up the load.

    The count exceeds the number of jobs where their work is less than the load needs; the caller then draws more.
    With ``fixed_span`` jobs are cut off the end, else the span is adjusted.
    """
    work = bodies.nodes * bodies.runtime_s
    if load is None:
        return len(work), span_s
    if not fixed_span:
        return len(work), float(work.sum()) / (load * nodes)
    return int(np.searchsorted(np.cumsum(work), load * nodes * span_s)) + 1, span_s


def _submit_s(rng: np.random.Generator, spells: Sessions, cycle: WeekCycle, span_s: float) -> Floats:
    """Return submit times in whole seconds, session by session; those past the end wrap around to the beginning."""
    start = np.repeat(cycle.time_s(spells.share, span_s), spells.jobs)
    return np.floor((start + offsets_s(rng, spells.jobs)) % span_s)


def _table(
    rng: np.random.Generator, app_user: NDArray[np.int64], spells: Sessions, bodies: _Bodies,
    processors: NDArray[np.int32], submit: Floats, order: NDArray[np.intp],
) -> Jobs:  # fmt: skip
    """Build the job table in order of submission (``processors`` are in that order), with labels and profiles.

    Users are ``u001`` ..., applications ``u001a1`` ...; numbers are padded so that names sort like numbers.
    """
    app = np.repeat(spells.app, spells.jobs)[order]
    size, runtime = bodies.nodes[order], bodies.runtime_s[order]
    profiles, highest_w = _profiles(rng, app, len(app_user), size, runtime, bodies.watts[order])
    mean_w = profiles.mean_power_w(runtime)
    digits = len(str(int(app_user[-1]) + 1))
    users = tuple(f"u{k:0{digits}d}" for k in range(1, int(app_user[-1]) + 2))
    within = np.arange(len(app_user)) - np.searchsorted(app_user, app_user)
    apps = tuple(f"{users[u]}a{k + 1}" for u, k in zip(app_user.tolist(), within.tolist(), strict=True))
    return Jobs.build(
        submit[order], size, runtime, walltime_s=bodies.walltime_s[order],
        user=Labels(app_user[app].astype(np.int32), users), app=Labels(app.astype(np.int32), apps),
        mean_power_w=mean_w, max_power_w=read_highest_w(highest_w, mean_w),
        origin="generated", extra={"processors": processors},
        profiles=replace(profiles),  # without the sums that the means above cached
    )  # fmt: skip


def _profiles(
    rng: np.random.Generator, app: NDArray[np.int64], apps: int, nodes: NDArray[np.int32], runtime_s: Floats,
    watts: Floats,
) -> tuple[PowerProfiles, Floats]:  # fmt: skip
    """Give each job a pattern, scaled to its mean watts and flattened where it would leave the node's range.

    Returns the profiles, and the highest watts of any node of each job. Shape (n,).

    A job's power is base + scale x level. Scaling by watts / mean keeps the relative swing of the pattern; where the
    swing would leave the range 240 to 2,100 W, the scale is reduced on both sides of the mean, which stays.
    """
    patterns = library(rng)
    shape = rng.integers(0, SHAPES, apps)
    pattern = patterns.pattern(shape[app], nodes, rng.integers(0, VARIANTS, len(app)))
    rows = len(patterns.level)
    first = np.arange(rows + 1, dtype=np.int64) * LENGTH
    zero, one = np.zeros(len(app)), np.ones(len(app))
    raw = PowerProfiles(pattern, zero, one, patterns.level.ravel(), first, np.full(rows, len(RAMP), np.int64))
    mean = raw.level_mean(runtime_s)
    low, high = raw.level_range(runtime_s)
    scale = watts / mean
    scale *= np.minimum(
        _bend(scale * (high - mean), NODE_MAX_W - watts), _bend(scale * (mean - low), watts - NODE_LEAST_W)
    )
    profiles = PowerProfiles(pattern, watts - scale * mean, scale, raw.level, first, raw.resume)
    return profiles, replace(profiles, level=patterns.highest.ravel()).max_power_w(runtime_s)


def read_highest_w(highest_w: Floats, mean_w: Floats) -> Floats:
    """Return the highest reading of a job whose nodes draw up to ``highest_w`` and ``mean_w`` on average. Shapes (n,).

    The nearest multiple of ``READING_W``, but at least the next one above the mean: readings of which none is above
    their mean are all equal to it. Never above the highest of all.
    """
    nearest = READING_W * np.rint(highest_w / READING_W)
    at_least = READING_W * np.ceil(mean_w / READING_W)
    return np.minimum(np.maximum(nearest, at_least), NODE_MAX_W)


def _bend(swing_w: Floats, room_w: Floats) -> Floats:
    """Return the factor that keeps a swing within the room above or below the mean. Shape (n,).

    A smooth function (1.5 % reduction at half of the room) instead of a cut, which would put many samples at the
    limit itself.
    """
    return (1.0 - 1e-9) / (1.0 + (swing_w / np.maximum(room_w, 1e-6)) ** 4) ** 0.25
