"""Corrections of an estimator: what stands behind a base in its list (``contracts.PowerCorrection``)."""
