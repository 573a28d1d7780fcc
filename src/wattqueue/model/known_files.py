"""Files of what a site knows of its machine, for policies: ``[known]`` of a machine file.

Physics (``model/physics.py``) states the truth, which no policy sees; these files are what policies may read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wattqueue.model.physics import EarFiles


@dataclass(frozen=True)
class KnownFiles:
    """Files that parts of a policy read where its row names none.

    Attributes:
        ear: EAR's coefficients, and metrics of applications: run times and watts by partition and clock.
        units: CSV of watts, and maybe run times, by application and unit.
        prices: CSV of prices, or carbon intensities, over time.
    """

    ear: EarFiles | None = None
    units: str | None = None
    prices: str | None = None

    def options(self) -> dict[str, Any]:
        """Return the files by the options that name them in a row (``policy/row_files.py``)."""
        ear = None if self.ear is None else {key: name for key, name in vars(self.ear).items() if name is not None}
        found = {"profiles": ear, "table": self.units, "prices": self.prices}
        return {key: value for key, value in found.items() if value is not None}
