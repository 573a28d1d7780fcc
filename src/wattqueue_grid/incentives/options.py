"""Options of ``incentives design`` and ``incentives offer``."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wattqueue.options import about, option
from wattqueue.runs.options import CAP, JOBS, MACHINE, MOST_SEED, NODE_WATTS
from wattqueue_grid.settlement.options import PriceOptions

if TYPE_CHECKING:
    from wattqueue.runs.task import Task
    from wattqueue_grid.incentives.site_runs import SimulatedSite


def _file(text: str, flag: str) -> dict[str, object]:
    """Return the metadata of a file that must be given."""
    return {**about(text, kind=Path, flags=(flag,))}


@dataclass(frozen=True)
class SiteOptions:
    """A machine that answers load targets, and its workload."""

    workload: str = field(metadata=about(JOBS))
    _: KW_ONLY
    machine: str | None = option(None, MACHINE)
    nodes: int | None = option(None, "A plain machine of so many nodes; default: the trace's.", kind=int)
    node_watts: str | None = option(None, NODE_WATTS)
    policy: str = option("dr-running", "Policy that answers load targets.")
    cap: str | None = option(None, CAP)
    seed: int = option(0, "Seed of the draws, and of generated workloads.", kind=int, least=0, most=MOST_SEED)
    start: str | None = option(None, "Date of the clock's 0.")

    def task(self, consent: Path | None = None) -> Task:
        """Return the task of the site."""
        from wattqueue.runs.task import Task

        return Task(
            self.workload, self.machine, self.nodes, self.node_watts, self.policy, None, self.cap,
            consent=None if consent is None else str(consent), seed=self.seed,
        )  # fmt: skip

    def site(self, consent: Path | None = None) -> tuple[SimulatedSite, float | None]:
        """Return the site, and the Unix time of the clock's 0, None where it is not known.

        Raises: InputError, MachineError or PolicyError as ``runs.perform.load``.
        """
        from wattqueue.formats.epoch import parse_date, trace_epoch_s
        from wattqueue.runs.perform import load
        from wattqueue_grid.incentives.site_runs import SimulatedSite

        task = self.task(consent)
        inputs = load(task)
        path = Path(task.workload)
        epoch = parse_date(self.start, "--start") if self.start is not None else None
        if epoch is None and path.is_file():
            epoch = trace_epoch_s(path, inputs.jobs.submit_s)
        return SimulatedSite(inputs.jobs, inputs.machine, task.policy, inputs.cap, epoch or 0.0), epoch


@dataclass(frozen=True)
class DesignOptions(SiteOptions, PriceOptions):
    """Rates of a reward model under a contract and an acceptance curve."""

    _: KW_ONLY
    targets: Path = field(metadata=_file("CSV of the load targets.", "--targets"))
    model: Path = field(metadata=_file("TOML of the reward model.", "--model"))
    acceptance: Path = field(metadata=_file("TOML of the acceptance curve.", "--acceptance"))
    contract: Path = field(metadata=_file("TOML of the contract: commitment, payment, penalty, tariff.", "--contract"))
    rates: str = option("0,0.5,1,2,4", "Multiples of the model's rates, with commas.")
    interval: int = option(900, "Length of an interval of settlement.", kind=int, unit="s")
    draws: int = option(
        20, "Draws of the users who consent; fewer than 20 give no verdict.", kind=int, least=1, most=1_000
    )


@dataclass(frozen=True)
class OfferOptions(SiteOptions):
    """Times, lengths and limits of offers, and what they must hold."""

    _: KW_ONLY
    begin: str = option("08:00,12:00,18:00", "Times of day at which delivery may begin.", flags=("--from",))
    length: str = option("1h,2h", "Lengths of delivery.", flags=("--for",))
    limit: str = option("60%,80%", "Limits of the load target: 60%, 400kW; with commas.")
    reliability: float = option(0.9, "Share of days that keep it.", kind=float, least=0.01, most=0.999)
    confidence: float = option(0.9, "Confidence in this share.", kind=float, least=0.01, most=0.999)
    lead: str = option("1h", "How long before delivery the target begins.")
    notice: str = option("24h", "How long before its begin the target is known.")
    consent: Path | None = option(None, "TOML of consent defaults, for jobs that state none.", kind=Path)
    model: Path | None = option(None, "TOML of the reward model, for the cost of rewards.", kind=Path)
    contract: Path | None = option(None, "TOML of the contract, for what an offer earns; needs --model.", kind=Path)
    time_zone: str = option("UTC", "Time zone of --from, where dates are known.")
