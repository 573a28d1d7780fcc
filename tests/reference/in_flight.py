"""The naive twin of the in-flight ledger (rule 15): prediction and measurement, each weighted by its precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.reference.meter import Meter
from wattqueue.parts.ledger.in_flight import InFlight

if TYPE_CHECKING:
    from tests.reference.simulator import Running

INF = float("inf")


@dataclass
class InFlightMeter(Meter):
    """Sensors whose readings correct the prediction of each job; ``Running.readings`` keeps all of its own."""

    by_unit: bool = False

    def learn(self) -> None:
        """Keep what sensors show of each running job, if all of them show something new of its own run alone."""
        for r in self.world.running:
            sensors = [self.of_unit[unit] for unit in r.units]
            whole = all(self.since[u] <= self.begun[s] for u, s in zip(r.units, sensors, strict=True))
            if r.parked or not whole or any(self.samples[s] is None for s in sensors):
                continue
            end = min(self.ended[s] for s in sensors)
            before = max([self.since[u] for u in r.units] + [reading[0] for reading in r.readings])
            if end > before:
                drawn = sum(self.share[s] for s in sensors)
                r.readings.append((end, end - before, drawn, self.predicted_uw(r)))

    def predicted_uw(self, r: Running) -> int:
        return sum(self.world.throttled(self.world.prediction, r)[0])

    def counted_uw(self, r: Running) -> list[int]:
        """The mean of prediction and measurement: the latter has 1 / even_s of the former's precision each second."""
        predicted = self.predicted_uw(r)
        seconds = sum(span for _, span, _, _ in r.readings)
        if seconds == 0:
            return [predicted]
        drawn = sum(span * uw / 1e6 for _, span, uw, _ in r.readings)
        expected = sum(span * uw / 1e6 for _, span, _, uw in r.readings)
        measured = predicted * drawn / expected if expected else drawn * 1e6 / seconds
        precision = seconds / self.in_flight.even_s
        return [round((predicted + precision * measured) / (1 + precision))]

    def share_of_square(self, r: Running) -> float:
        """The variance of a job beside that of one that was never measured."""
        seconds = sum(span for _, span, _, _ in r.readings)
        error = self.in_flight.error / (1 + seconds / self.in_flight.even_s)
        whole = self.in_flight.error + self.in_flight.phase
        return (error + self.in_flight.phase) / whole if whole else 1.0

    @property
    def in_flight(self) -> InFlight:
        assert isinstance(self.ledger, InFlight)
        return self.ledger
