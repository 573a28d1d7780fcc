"""Oracle: the true watts of each application on each unit.

No scheduler knows them; it shows what a perfect prediction would be worth (SLURM+IVP).
"""

from __future__ import annotations

from wattqueue.parts.estimator.unit_watts import UnitWatts


class OracleUnitWatts(UnitWatts):
    """The table of true watts that a simulation carries out, as ``UnitWatts`` takes one.

    Reference: paper 2, section 3 (SLURM+IVP).
    """

    knows_future: bool = True
    """Declares that the prediction reads the truth: outputs say so."""
