"""Certify the lowest safe cap from the evidence of the runs.

**Definition.** Risk r is the share of time with true power above the cap. A cap is called safe at r if, under
it, in the simulation of this workload with this policy and estimator,

1. the data contain the true power of 99 % of the node-hours run, and the estimator does not read the future;
2. every job that runs without a cap also runs under it;
3. an upper bound (95 %, one-sided) of the share of time above the cap is at most r, or no excess is possible;

and if the same holds for every higher cap that was tried. The time counted is from the first submission to the
last start. No excess is possible where every job is counted at the machine's maximum and none drew more. The caps are
tested from the highest down, and testing ends at the first that fails, so that the 95 % hold for all of them together
(fixed-sequence testing).

**Unknown watts.** Where the data contain less than 99 %, no cap is safe by the data alone, and a second answer is
given: the lowest cap that is safe by 2 and 3 if every job without watts draws the stated maximum of its nodes from
its start to its end. The simulation counts such jobs so. Whether they draw less is not known; the answer holds for
this case.

**The bound.** Power is correlated from hour to hour. The span T is worth n = T / tau independent observations of the
machine, where tau is the integrated autocorrelation time of the hourly mean power; n is at most that of the run
without a cap, since a longer queue brings no additional jobs. For the mean p of n independent shares, each anywhere
within 0..1, the bound is the q > p with n KL(p || q) = ln 20: no distribution is assumed, and with p = 0 it is the
exact binomial bound, 1 - 0.05**(1/n). So 1 % needs n = 299 observations, even if no excess occurred.

References: Hoeffding, Probability inequalities for sums of bounded random variables, JASA 58 (1963), theorem 1,
(2.1); Geyer, Practical Markov chain Monte Carlo, Statistical Science 7 (1992), section 3.3 (initial positive
sequence); Maurer, Hothorn, Lehmacher, Multiple comparisons in drug clinical trials (1995) for the fixed sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.model.steps import sum_of_products
from wattqueue.whatif.run import HOUR_S

CONFIDENCE = 0.95
"""One-sided confidence of the bound of time above the cap."""
LEAST_DAYS = 7.0
"""A shorter span does not contain the weekly cycle of load: no cap is certified."""
WATTS_KNOWN = 0.99
"""Share of the node-seconds whose true power must be in the data."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one run shows about the time above its cap.

    Attributes:
        span_s: Time counted, from the first submission to the last start.
        over_s: Seconds of it with true power above the cap.
        looks: Number n of independent observations that the span is worth.
        never: Whether an excess is impossible by construction (``analysis.never_above``).
        never_ran: Number of jobs that run without a cap and never ran under this one.
    """

    span_s: float
    over_s: float
    looks: float
    never: bool = False
    never_ran: int = 0

    @property
    def share(self) -> float:
        """Return the share of time above the cap."""
        return min(self.over_s / self.span_s, 1.0) if self.span_s > 0 else 0.0

    @property
    def upper(self) -> float:
        """Return the upper confidence bound of the share of time above the cap."""
        return 0.0 if self.never else upper_share(self.share, self.looks)


@dataclass(frozen=True, slots=True)
class SafeCaps:
    """The result of testing all caps.

    Attributes:
        lowest: Row of the lowest safe cap, None where there is none.
        why: The reason as one sentence without its subject, which the callers put before it.
        each: One verdict per cap, lowest cap first: ``safe``, why it failed, or why it was not tested.
    """

    lowest: int | None
    why: str
    each: tuple[str, ...]


def upper_share(share: float, looks: float, confidence: float = CONFIDENCE) -> float:
    """Return the upper confidence bound of a mean of ``looks`` independent shares whose observed mean is ``share``.

    Bisection on q in [share, 1]: 60 halvings reach the precision of a float64. 1 where nothing was observed.
    """
    if looks <= 0 or share >= 1:
        return 1.0
    wanted = -np.log(1.0 - confidence) / looks
    low, high = share, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if divergence(share, middle) < wanted else (low, middle)
    return float(high)


def divergence(p: float, q: float) -> float:
    """Return the Kullback-Leibler divergence KL(p || q) of two Bernoulli distributions, for p < q <= 1."""
    first = p * np.log(p / q) if p > 0 else 0.0
    return float(first + (1.0 - p) * np.log((1.0 - p) / (1.0 - q))) if q < 1 else float(np.inf)


def looks_needed(risk: float) -> float:
    """Return the number of independent observations without any excess that certify ``risk``."""
    return float(np.log(1.0 - CONFIDENCE) / np.log1p(-risk))


def correlation_time_s(hour_w: Floats) -> float:
    """Return the integrated autocorrelation time of hourly means in seconds, at least one hour. Shape (h,).

    Sums of neighbouring autocorrelations are added while they are positive and falling (Geyer's initial positive
    sequence). Constant power counts as one observation: it does not show what the power does when it changes. The
    autocorrelation is computed by FFT, padded to twice the length so that it does not wrap around.
    """
    centred = hour_w - hour_w.mean() if len(hour_w) else hour_w
    n = len(centred)
    spread = sum_of_products(centred, centred)
    if n < 4 or spread <= 1e-18 * max(1.0, sum_of_products(hour_w, hour_w)):
        return max(n, 1) * HOUR_S
    # Padded to twice the length: the circular convolution of the FFT must not mix end and beginning.
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    rho = np.fft.irfft(spectrum * np.conj(spectrum), size)[:n] / spread
    pairs = rho[0 : n - n % 2 : 2] + rho[1::2]
    ends = np.flatnonzero(pairs <= 0)
    pairs = np.minimum.accumulate(pairs[: ends[0] if len(ends) else len(pairs)])
    return HOUR_S * min(max(1.0, 2.0 * float(pairs.sum()) - 1.0), float(n))


def judge(evidence: Sequence[Evidence], risk: float, refusal: str = "") -> SafeCaps:
    """Test caps from the highest (the last) down, and stop at the first that fails.

    Args:
        evidence: One per cap, lowest cap first.
        risk: Accepted share of time above the cap.
        refusal: Why no cap can be certified at all; empty where there is no such reason.
    """
    words = ["" for _ in evidence]
    reason = refusal or _too_little(evidence[-1], risk)
    if reason:
        return SafeCaps(None, reason, tuple("not judged" for _ in evidence))
    lowest = None
    # Fixed order from the highest cap down: no correction for multiple tests is needed if testing stops at a failure.
    for row in reversed(range(len(evidence))):
        words[row] = _fails(evidence[row], risk)
        if words[row]:
            break
        words[row], lowest = "safe", row
    words = [word or "not tested: a higher cap failed" for word in words]
    if lowest is None:
        return SafeCaps(None, f"under the highest cap that was tried, {words[-1]}", tuple(words))
    kind = "cannot be exceeded" if evidence[lowest].never else f"is exceeded at most {percent(risk)} of the time"
    below = f"; under the next lower cap, {words[lowest - 1]}" if lowest else "; lower caps were not tried"
    return SafeCaps(lowest, f"{kind} in this workload{below}", tuple(words))


def _fails(found: Evidence, risk: float) -> str:
    """Return why a cap fails at ``risk``, empty where it passes."""
    if found.never_ran:
        return f"{found.never_ran:,} jobs that run without a cap never ran"
    if found.upper <= risk:
        return ""
    seen = f"power is above it {percent(found.share)} of the time" if found.over_s > 0 else "no excess was observed"
    return f"{seen}, upper bound {percent(found.upper)}"


def _too_little(found: Evidence, risk: float) -> str:
    """Return why the data could not certify even the highest cap without any excess, empty where they could.

    The message gives the length of trace that would do, and the smallest risk that this trace can certify.
    """
    days, needed = found.span_s / (24 * HOUR_S), looks_needed(risk)
    if found.never or (days >= LEAST_DAYS and upper_share(0.0, found.looks) <= risk):
        return ""
    wanted = max(LEAST_DAYS, days * needed / found.looks if found.looks else LEAST_DAYS)
    least = upper_share(0.0, found.looks)
    more = f", or --risk {rounded_up(100 * least)}%" if days >= LEAST_DAYS and least < 0.5 else ""
    return (
        f"too little data: {days:,.3g} days are worth {found.looks:,.3g} independent observations, and a risk "
        f"of {percent(risk)} needs {np.ceil(needed):,.0f} even without any excess "
        f"(about {np.ceil(wanted):,.0f} days{more})"
    )


def rounded_up(value: float) -> str:
    """Return ``value`` with two significant digits, rounded up so that it is never below ``value``."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return f"{np.ceil(value / unit) * unit:.2g}"


def percent(share: float) -> str:
    """Return a share of time as text with two significant digits."""
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"
