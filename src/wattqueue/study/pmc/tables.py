"""Tables of the study: errors by application, by model, sockets under a budget, processes against unit factors."""

from __future__ import annotations

from collections.abc import Iterator

from wattqueue.model.jobs import Floats
from wattqueue.report.compare.stats import estimate
from wattqueue.study.frame.samples import Samples
from wattqueue.study.frame.table import Table, with_interval
from wattqueue.study.pmc.budget import BUDGET_W, POLICIES
from wattqueue.study.pmc.trial import AVERAGE, CONSTANT, PLAIN, RATIOS, VARIANTS, WHOLE
from wattqueue.workload.variability.codes import applications

VARIANT_NAMES = {PLAIN: "components chosen", WHOLE: "all components", CONSTANT: "chosen, with constant"}


def tables(samples: Samples) -> Iterator[Table]:
    """Yield all tables over the draws."""
    yield average_table(samples)
    yield application_table(samples)
    yield budget_table(samples)
    yield process_table(samples)


def average_table(samples: Samples) -> Table:
    """Return MAPE over all applications by model and variant."""
    rows = [
        [
            VARIANT_NAMES[variant],
            *(with_interval(estimate(samples.of(AVERAGE, m + variant, "mape_percent")), "") for m in RATIOS),
        ]
        for variant in VARIANTS
    ]
    factors = (with_interval(estimate(samples.of(AVERAGE, m, "factor_error_percent")), "", 2) for m in RATIOS)
    rows.append(["unit factors alone", *factors])
    note = "Unit factors alone: error of watts over their mean over the sockets, components chosen."
    return Table(("variant", *RATIOS), rows, "MAPE of mean watts, mean over 16 applications (%)", note)


def application_table(samples: Samples) -> Table:
    """Return Figure 5: MAPE of each application by model, its deviation over the sockets, and all components."""
    heads = ("application", *(h for m in RATIOS for h in (m, "±")), *(f"{m}\nall components" for m in RATIOS))
    rows = []
    for app in (AVERAGE, *applications()):
        chosen = [_mean(samples, app, m, k) for m in RATIOS for k in ("mape_percent", "deviation_percent")]
        rows.append([app, *chosen, *(_mean(samples, app, m + WHOLE, "mape_percent") for m in RATIOS)])
    note = "±: deviation of the error over the sockets; both are means over the draws."
    return Table(heads, rows, "Figure 5: MAPE of mean watts over the sockets (%)", note, key="figure5")


def budget_table(samples: Samples) -> Table:
    """Return what a budget of 15 kW holds at one instant under each policy (Figure 1 without a scheduler)."""
    rows = []
    for policy in POLICIES:
        found = {m: samples.of("15 kW", policy, m) for m in ("busy_sockets", "mean_w", "peak_w", "over_percent")}
        over = found["over_percent"] > 0
        kilowatts = [f"{found[m].mean() / 1e3:.2f}" for m in ("mean_w", "peak_w")]
        rows.append([policy, f"{found['busy_sockets'].mean():.0f}", *kilowatts, _percent(over.astype(float))])
    title = f"Figure 1 at one instant: jobs of one queue under {BUDGET_W / 1e3:g} kW, true power"
    return Table(("policy", "sockets", "mean kW", "highest kW", "over the budget"), rows, title, key="figure1")


def process_table(samples: Samples) -> Table:
    """Return what one factor for all processes of an application costs against the sum process by process."""
    apps = [a for a, p, m in samples.values if (p, m) == ("unit factors", "sum_error_percent")]
    rows = []
    for app in apps:
        mean, most = (samples.of(app, "unit factors", m) for m in ("sum_error_percent", "sum_error_max_percent"))
        rows.append([app, f"{mean.mean():.3f}", f"{most.max():.2f}"])
    title = "Unit factors (mean of the processes) against the exact sum, process by process: error of a job's watts (%)"
    return Table(("application", "mean", "greatest"), rows, title, "200 random sets of sockets per draw.")


def _mean(samples: Samples, setting: str, model: str, metric: str) -> str:
    """Return the mean over the draws with one digit."""
    return f"{samples.of(setting, model, metric).mean():.1f}"


def _percent(shares: Floats) -> str:
    """Return the mean of shares as a percentage of the draws."""
    return f"{100 * shares.mean():.0f} % of draws"
