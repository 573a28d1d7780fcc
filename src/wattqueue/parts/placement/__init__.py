"""Placements: which of the free units a job gets (``contracts.Placement``)."""
