"""Figures and the one-file report."""
