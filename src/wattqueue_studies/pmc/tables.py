"""Tables of the study: errors by application, by model, sockets under a budget, processes against unit factors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from wattqueue.model.jobs import Floats
from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Table
from wattqueue_studies.frame.samples import Samples
from wattqueue_studies.pmc.budget import BUDGET_W, POLICIES
from wattqueue_studies.pmc.scores import AVERAGE
from wattqueue_studies.sockets import CONSTANT, PLAIN, RATIOS, WHOLE
from wattqueue_studies.variability.codes import applications

VARIANTS = {"components chosen": PLAIN, "all components": WHOLE, "chosen, with constant": CONSTANT}
FACTORS = "unit factors alone"


def tables(samples: Samples) -> Iterator[Table]:
    """Yield all tables over the draws."""
    yield average_table(samples)
    yield application_table(samples)
    yield budget_table(samples)
    yield process_table(samples)


def average_table(samples: Samples) -> Table:
    """Return MAPE over all applications by model and variant."""

    def column(model: str) -> Callable[[str], str]:
        factors = with_interval(estimate(samples.of(AVERAGE, model, "factor_error_percent")), "", 2)
        errors = {v: samples.of(AVERAGE, model + ending, "mape_percent") for v, ending in VARIANTS.items()}
        return lambda variant: factors if variant == FACTORS else with_interval(estimate(errors[variant]), "")

    title = "MAPE of mean watts, mean over 16 applications (%)"
    note = "Unit factors alone: error of watts over their mean over the sockets, components chosen."
    return Table.of((*VARIANTS, FACTORS), [(m, column(m)) for m in RATIOS], title, note, head="variant")


def application_table(samples: Samples) -> Table:
    """Return Figure 5: MAPE of each application by model, its deviation over the sockets, and all components."""

    def mean(model: str, metric: str = "mape_percent") -> Callable[[str], str]:
        return lambda app: f"{samples.of(app, model, metric).mean():.1f}"

    columns = [c for m in RATIOS for c in ((m, mean(m)), ("±", mean(m, "deviation_percent")))]
    columns += [(f"{m}\nall components", mean(m + WHOLE)) for m in RATIOS]
    title = "Figure 5: MAPE of mean watts over the sockets (%)"
    note = "±: deviation of the error over the sockets; both are means over the draws."
    return Table.of((AVERAGE, *applications()), columns, title, note, head="application", key="figure5")


def budget_table(samples: Samples) -> Table:
    """Return what a budget of 15 kW holds at one instant under each policy (Figure 1 without a scheduler)."""

    def of(policy: str, metric: str) -> Floats:
        return samples.of("15 kW", policy, metric)

    columns = (
        ("sockets", lambda p: f"{of(p, 'busy_sockets').mean():.0f}"),
        ("mean kW", lambda p: f"{of(p, 'mean_w').mean() / 1e3:.2f}"),
        ("highest kW", lambda p: f"{of(p, 'peak_w').mean() / 1e3:.2f}"),
        ("over the budget", lambda p: f"{100 * (of(p, 'over_percent') > 0).mean():.0f} % of draws"),
    )
    title = f"Figure 1 at one instant: jobs of one queue under {BUDGET_W / 1e3:g} kW, true power"
    return Table.of(POLICIES, columns, title, head="policy", key="figure1")


def process_table(samples: Samples) -> Table:
    """Return what one factor for all processes of an application costs against the sum process by process."""

    def of(app: str, metric: str) -> Floats:
        return samples.of(app, "unit factors", metric)

    apps = [a for a, p, m in samples.values if (p, m) == ("unit factors", "sum_error_percent")]
    columns = (
        ("mean", lambda a: f"{of(a, 'sum_error_percent').mean():.3f}"),
        ("greatest", lambda a: f"{of(a, 'sum_error_max_percent').max():.2f}"),
    )
    title = "Unit factors (mean of the processes) against the exact sum, process by process: error of a job's watts (%)"
    return Table.of(apps, columns, title, "200 random sets of sockets per draw.", head="application")
